"""The authorizer named by `authorizer.class.name`.

Kafka's class names select Ottla's own authorizer. Any other name is the module and class of a user's authorizer.
"""

from __future__ import annotations

from importlib import import_module

from ottla.broker.security.rights import Authorizer
from ottla.broker.settings import SettingError
from ottla.broker.settings.broker_access import BY_RULES

SETTING = "authorizer.class.name"


def own_authorizer(name: str) -> Authorizer | None:
    """Return the user's authorizer of this name.

    Return None if Ottla's ACLs decide, or if no authorizer is set. Raises `SettingError`.
    """
    if not name or name in BY_RULES:
        return None
    module, _, attribute = name.partition(":")
    try:
        made: Authorizer = getattr(import_module(module), attribute)()
    except Exception as error:
        sentence = f"{SETTING} names {name}, which cannot be imported ({error!r}): name {BY_RULES[0]}, or module:Class of your own."
        raise SettingError(sentence) from error
    if not callable(getattr(made, "allows", None)):
        raise SettingError(
            f"{SETTING} names {name}, which is not an authorizer: give it a method allows(peer, operation, resource, name)."
        )
    return made
