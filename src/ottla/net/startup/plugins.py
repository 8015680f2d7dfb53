"""The user's classes that settings name as module:Class: assignors of consumer groups, and the authorizer."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ottla.broker.security.rights import Authorizer
from ottla.broker.settings import SettingError
from ottla.broker.settings.broker_access import BY_RULES

if TYPE_CHECKING:
    from ottla.coord.consumer.assign import Assignor

ASSIGNORS = "group.consumer.assignors"
AUTHORIZER = "authorizer.class.name"


def assignors(wanted: Iterable[str | Assignor]) -> tuple[Assignor, ...]:
    """Find assignors by name ("uniform", "package.module:Class"). Objects are returned unchanged. Raises `SettingError`."""
    found = tuple(_by_name(one) if isinstance(one, str) else _own(one, type(one).__qualname__) for one in wanted)
    names = [assignor.name for assignor in found]
    if not found:
        raise SettingError(f"{ASSIGNORS} is empty: name at least one, such as uniform.")
    if len(set(names)) < len(names):
        raise SettingError(f"{ASSIGNORS} has two assignors with the same name ({', '.join(names)}): leave one out.")
    return found


def _by_name(text: str) -> Assignor:
    from ottla.coord.consumer.assign.built_in import BUILT_IN

    for assignor in BUILT_IN:
        if assignor.name == text:
            return assignor
    return _own(_load(ASSIGNORS, text, "module:Class, with the module on Python's path"), text)


def _own(assignor: Assignor, text: str) -> Assignor:
    from ottla.coord.consumer.assign.built_in import BUILT_IN
    from ottla.coord.consumer.assign.checked_assignor import Checked

    if assignor in BUILT_IN:
        return assignor
    if not isinstance(getattr(assignor, "name", None), str) or not callable(getattr(assignor, "assign", None)):
        raise SettingError(
            f"{ASSIGNORS} names {text}, which is not an assignor: give it a string attribute name and a method assign."
        )
    return Checked(assignor)


def own_authorizer(name: str) -> Authorizer | None:
    """Return the user's authorizer of this name.

    Return None if Ottla's ACLs decide, because Kafka's class names select them, or if no authorizer is set. Raises `SettingError`.
    """
    if not name or name in BY_RULES:
        return None
    made: Authorizer = _load(AUTHORIZER, name, f"{BY_RULES[0]}, or module:Class of your own")
    if not callable(getattr(made, "allows", None)):
        raise SettingError(
            f"{AUTHORIZER} names {name}, which is not an authorizer: give it a method allows(peer, operation, resource, name)."
        )
    return made


def _load(setting: str, text: str, better: str) -> Any:
    """Return an object of the class module:Class. Raises `SettingError`, which suggests `better` names."""
    module, _, attribute = text.partition(":")
    try:
        return getattr(import_module(module), attribute)()
    except Exception as error:  # the user's module may raise any exception
        raise SettingError(f"{setting} names {text}, which cannot be imported ({error!r}): name {better}.") from error
