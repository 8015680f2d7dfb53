"""The declaration of client settings, and the checks that declarations share.

A check takes the setting's name and the given value, and returns the stored value. The module contains no settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, TypeVar

from ottla.client.errors import SettingError

T = TypeVar("T")
Check = Callable[[str, object], T]
"""A function from a setting's name and the given value to the stored value. Raises `SettingError`."""


def declare(default: T, check: Check[T], sentence: str, *, given: str = "", secret: bool = False) -> T:
    """Declare a setting. `given` is the type of accepted values if it is wider than the type of stored values.

    The value of a `secret` setting is never shown.
    """
    return field(
        default=default, repr=not secret, metadata={"check": check, "sentence": sentence, "given": given, "secret": secret}
    )


def accept_any(name: str, value: object) -> object:
    """Return the value unchanged. The code that uses the value checks it."""
    return value


def function(name: str, value: object) -> Callable[..., Any] | None:
    """Return a function or None. Raises `SettingError`."""
    if value is not None and not callable(value):
        raise SettingError(f"{name} must be a function, not {value!r}.")
    return value


def at_least(least: int) -> Check[int]:
    def check(name: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise SettingError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        return value

    return check


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise SettingError(f"{name} must be True or False, not {value!r}.")
    return value


def text(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise SettingError(f"{name} must be a string, not {value!r}.")
    return value


MOST_NAME_BYTES = 32_767
"""The longest string of Kafka's protocol, in bytes."""


def short_text(name: str, value: object) -> str | None:
    """Return a string for requests, or None. Raises `SettingError` for a string that the protocol cannot contain."""
    found = text(name, value)
    if found is not None:
        try:
            size = len(found.encode())
        except UnicodeEncodeError:
            raise SettingError(f"{name} has half of a surrogate pair, which UTF-8 cannot encode: remove it.") from None
        if size > MOST_NAME_BYTES:
            raise SettingError(f"{name} has {size} bytes, more than the {MOST_NAME_BYTES} allowed: shorten it.")
    return found


def secret(name: str, value: object) -> str | None:
    """Return a text that must not appear in messages. Raises `SettingError`, without the text."""
    if value is not None and not isinstance(value, str):
        raise SettingError(f"{name} must be a string, not a {type(value).__name__}.")
    return value


def check_name(name: str, value: object) -> str | None:
    if value == "":
        raise SettingError(f"{name} is empty: leave it out, or name one.")
    return short_text(name, value)


class OneOf:
    """A check that the value is one of a few words. Type checkers see the words as a `Literal`."""

    def __init__(self, choices: Iterable[str]) -> None:
        self.choices = tuple(choices)

    def __call__(self, name: str, value: object) -> str:
        if str(value) not in self.choices:
            raise SettingError(f"{name} must be one of {', '.join(self.choices)}, not {value!r}.")
        return str(value)


def words(name: str, value: object) -> tuple[str, ...]:
    found: object = value.split(",") if isinstance(value, str) else value
    if isinstance(found, Mapping):
        raise SettingError(f"{name} must be a string or several, not a dict: give settings as keywords, with underscores for dots.")
    if not isinstance(found, Iterable) or isinstance(found, bytes):
        raise SettingError(f"{name} must be a string or several, not {value!r}.")
    found = tuple(found)
    for word in found:
        if not isinstance(word, str):
            raise SettingError(f"{name} must be a string or several, not {word!r} among them.")
    return tuple(word.strip() for word in found)
