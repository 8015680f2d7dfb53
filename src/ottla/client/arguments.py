"""Checks of the arguments that users pass to client methods: a mistake raises an exception at once, with one clear sentence.

A wrong type raises `TypeError`; a wrong value raises `SettingError`, which is also a `ValueError`.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any, Final, TypeVar

from ottla.client.types import MAX_TIMESTAMP, OffsetAndMetadata, SubscriptionPattern, TopicPartition
from ottla.errors import SettingError

MOST_OFFSET: Final = (1 << 63) - 1

Name = TypeVar("Name")
_YEAR_S = 366 * 24 * 3600
_PLACE = "A partition is a topic's name and a number, such as ('flights', 0)"
_PLAUSIBLE = re.compile(r"[^\s/\\,:\0]{1,249}")
"""The names that are checked by brokers alone: those of Kafka 0.7 allow more characters than today's."""
_ADDRESS = re.compile(r".+:\d{1,5}$")


def short_repr(value: object) -> str:
    """Return a short text for a user's value. The contents of containers, which may include a password, are not shown."""
    return reprlib.repr(value) if value is None or isinstance(value, str | bytes | int | float) else f"a {type(value).__name__}"


def topic_name(name: object) -> str:
    """Return the name of a topic. Raises `TypeError`, and `SettingError` for a name that no broker allows."""
    if isinstance(name, Mapping):
        raise TypeError("A topic's name is a string, not a dict: settings are keyword arguments with underscores for dots.")
    found = text("A topic's name", name)
    if _ADDRESS.match(found):
        raise SettingError(f"{found!r} is an address, not a topic's name: give it as bootstrap_servers={found!r}.")
    if not _PLAUSIBLE.fullmatch(found) or found in (".", ".."):
        raise SettingError(
            f"{reprlib.repr(found)} is not a topic's name: use up to 249 letters, digits, dots, underscores and hyphens."
        )
    return found


def check_subscription(topics: Sequence[object], pattern: object) -> re.Pattern[str] | SubscriptionPattern | None:
    """Check the arguments of subscribe(), and return the compiled `pattern` or the `SubscriptionPattern`, or None without one.

    Raises `TypeError`, `SettingError`.
    """
    if any(isinstance(each, SubscriptionPattern) for each in (*topics, pattern)):
        return _check_coordinator_pattern(*topics, *(() if pattern is None else (pattern,)))
    for name in topics:
        topic_name(name)
    if pattern is None:
        if not topics:
            raise SettingError("subscribe() needs a topic or a pattern: unsubscribe() stops reading.")
        return None
    if topics:
        raise SettingError("subscribe() takes topics or a pattern, not both: add the topics to the pattern.")
    try:
        return re.compile(text("pattern", pattern))
    except re.error as error:
        raise SettingError(f"pattern {pattern!r} is not a regular expression: {error}.") from None


def _check_coordinator_pattern(first: object, *others: object) -> SubscriptionPattern:
    """Return a `SubscriptionPattern` that is the only argument of subscribe(). Raises `TypeError`, `SettingError`."""
    if others or not isinstance(first, SubscriptionPattern):
        raise SettingError("subscribe() takes one SubscriptionPattern and nothing else: add the other topics to its pattern.")
    if not text("The pattern of a SubscriptionPattern", first.pattern):
        raise SettingError("The pattern of a SubscriptionPattern is empty: '.*' matches all topics.")
    return first


def callback(name: str, given: Name) -> Name:
    """Return `given` if it is callable or None, otherwise raise `TypeError` with the argument's `name`."""
    if given is not None and not callable(given):
        raise TypeError(f"{name} is a function of the partitions, not {short_repr(given)}.")
    return given


def whole(name: str, value: object, least: int = 0, *, hint: str = "") -> int:
    """Return an integer between `least` and 2⁶³ - 1, converted from NumPy if necessary. Raises `TypeError`, `SettingError`."""
    try:
        number = index(value)  # type: ignore[arg-type]  # the call itself is the check
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(f"{name} is a whole number, not {short_repr(value)}{hint}.")
    if not least <= number <= MOST_OFFSET:
        raise SettingError(f"{name} is a whole number of at least {least} and below 2⁶³, not {number}{hint}.")
    return number


def timeout(name: str, value: object) -> int | None:
    """Return a timeout in ms, or None for no limit. Raises `TypeError`, `SettingError`."""
    return None if value is None else whole(name, value)


def waitable(seconds: float | None) -> float | None:
    """Return a time limit that locks accept: None, no limit, for one of more than a year."""
    return None if seconds is None or seconds > _YEAR_S else seconds


def timestamp(value: object) -> int:
    """Return a timestamp in ms since 1970. A negative value is Kafka's constant for an end of the log.

    Raises `TypeError`, `SettingError`.
    """
    return whole("A timestamp", value, MAX_TIMESTAMP)


def check_partition(where: object) -> TopicPartition:
    """Return `where`, a tuple or a `TopicPartition`, as a `TopicPartition`. Raises `TypeError`, `SettingError`."""
    if not isinstance(where, tuple | list) or len(where) != 2 or not isinstance(where[0], str):
        raise TypeError(f"{_PLACE}, not {short_repr(where)}.")
    return TopicPartition(where[0], whole("The number of a partition", where[1]))


def places(partitions: object) -> list[TopicPartition]:
    """Return the given partitions as a list of `TopicPartition`. Raises `TypeError`, `SettingError`."""
    if not isinstance(partitions, Iterable) or isinstance(partitions, str | bytes | TopicPartition):
        raise TypeError(f"{_PLACE}; give a list of these, not {short_repr(partitions)}.")
    return [check_partition(where) for where in partitions]


def by_place(name: str, given: object, value: Callable[[Any], Name]) -> dict[TopicPartition, Name]:
    """Return `given` as a mapping from `TopicPartition` to the result of `value` for each value.

    Raises `TypeError`, `SettingError`.
    """
    return {check_partition(where): value(each) for where, each in check_mapping(name, given).items()}


def list_partitions(partitions: Sequence[TopicPartition], most: int = 10) -> str:
    """Return partitions as text for people: the first `most` of them, and the number of the others."""
    text = ", ".join(f"{where.topic}-{where.partition}" for where in sorted(partitions)[:most])
    return text if len(partitions) <= most else f"{text} and {len(partitions) - most} more"


def check_mapping(name: str, given: object) -> Mapping[Any, Any]:
    """Return `given` if it is a mapping, otherwise raise `TypeError` with the argument's `name`."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} is a dict, not {short_repr(given)}.")
    return given


def several(name: str, given: Iterable[Name]) -> list[Name]:
    """Return the elements of an iterable that is not a string or bytes. Raises `TypeError`."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise TypeError(f"{name} is a list, not {short_repr(given)}: put it into one.")
    return list(given)


def each_is(kind: type[Name], name: str, given: Iterable[Name]) -> list[Name]:
    """Return the elements of an iterable, all instances of `kind`. Raises `TypeError`."""
    found: list[Any] = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes | kind) else [given]
    for each in found:
        if not isinstance(each, kind) or each is given:
            raise TypeError(f"{name} is a list of {kind.__name__}, not {short_repr(each)}.")
    return found


def plain(given: str) -> str:
    """Return a string of a subclass, such as a member of an `enum.StrEnum`, as a `str`, which kernels and wire format require."""
    return given if type(given) is str else str.__str__(given)


def text(name: str, given: object, *, shown: bool = True) -> str:
    """Return `given` if it is a string, otherwise raise `TypeError` with the argument's `name`, and with the value if `shown`."""
    if isinstance(given, str):
        return plain(given)
    if not shown:
        raise TypeError(f"{name} is a string, not a {type(given).__name__}.")
    hint = ": give several one by one, such as by *names" if isinstance(given, list | tuple | set | frozenset) else ""
    raise TypeError(f"{name} is a string, not {short_repr(given)}{hint}.")


def names(name: str, given: Iterable[object]) -> list[str]:
    """Return names that were passed as separate arguments. Raises `TypeError`."""
    return [text(name, each) for each in given]


def offset_to_commit(given: object) -> OffsetAndMetadata:
    """Return `given`, an integer or an `OffsetAndMetadata`, as an offset to commit. Raises `TypeError`, `SettingError`."""
    if isinstance(given, OffsetAndMetadata):
        whole("An offset", given.offset)
        return given
    return OffsetAndMetadata(whole("An offset", given))
