"""The assignors named by `group.consumer.assignors`: built-in ones by name, and a user's by module and class."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from ottla.broker.settings import SettingError
from ottla.coord.consumer.assign import Assignor
from ottla.coord.consumer.assign.checked_assignor import Checked
from ottla.coord.consumer.groups import BUILT_IN

SETTING = "group.consumer.assignors"


def assignors(wanted: Iterable[str | Assignor]) -> tuple[Assignor, ...]:
    """Find assignors by name ("uniform", "package.module:Class"). Objects are returned unchanged. Raises `SettingError`."""
    found = tuple(_by_name(one) if isinstance(one, str) else _own(one, type(one).__qualname__) for one in wanted)
    names = [assignor.name for assignor in found]
    if not found:
        raise SettingError(f"{SETTING} is empty: name at least one, such as uniform.")
    if len(set(names)) < len(names):
        raise SettingError(f"{SETTING} has two assignors with the same name ({', '.join(names)}): leave one out.")
    return found


def _by_name(text: str) -> Assignor:
    for assignor in BUILT_IN:
        if assignor.name == text:
            return assignor
    module, _, attribute = text.partition(":")
    try:
        made = getattr(import_module(module), attribute)()
    except Exception as error:
        sentence = (
            f"{SETTING} names {text}, which cannot be imported ({error!r}): name module:Class, with the module on Python's path."
        )
        raise SettingError(sentence) from error
    return _own(made, text)


def _own(assignor: Assignor, text: str) -> Assignor:
    if assignor in BUILT_IN:
        return assignor
    if not isinstance(getattr(assignor, "name", None), str) or not callable(getattr(assignor, "assign", None)):
        raise SettingError(
            f"{SETTING} names {text}, which is not an assignor: give it a string attribute name and a method assign."
        )
    return Checked(assignor)
