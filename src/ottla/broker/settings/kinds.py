"""The kinds of value that a setting can have: how each is read from text, written back, and named on the wire (KIP-133).

Knows no setting. What it refuses, it refuses with the end of a sentence: "the value …".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar

T = TypeVar("T")

LARGEST_INT = 2**31 - 1
LARGEST_LONG = 2**63 - 1
LARGEST_DOUBLE = 1.7976931348623157e308


class Refused(ValueError):
    """A text that is no value of its kind, or a value that its setting doesn't allow."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """`code` is the type's number in DescribeConfigs; `parse` raises `Refused`."""

    name: str
    code: int
    parse: Callable[[str], T]
    show: Callable[[T], str]


def _boolean(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise Refused("must be true or false")


def _whole(bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        digits = text.strip()
        if not re.fullmatch("[+-]?[0-9]{1,19}", digits):
            raise Refused("must be a whole number")
        value = int(digits)
        if not -limit <= value < limit:
            raise Refused(f"must be a whole number of {bits} bits")
        return value

    return parse


def _double(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Refused("must be a number") from None


def show_double(value: float) -> str:
    """As Java writes doubles, since that is what clients compare: 0.5, 1.0E10, 1.7976931348623157E308."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *others = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(others) or '0'}E{exponent + len(others)}"


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text.strip() else ()


def _text(text: str) -> str:
    return text.strip()


BOOLEAN: Kind[bool] = Kind("boolean", 1, _boolean, lambda value: "true" if value else "false")
STRING: Kind[str] = Kind("string", 2, _text, str)
INT: Kind[int] = Kind("int", 3, _whole(32), str)
SHORT: Kind[int] = Kind("short", 4, _whole(16), str)
LONG: Kind[int] = Kind("long", 5, _whole(64), str)
DOUBLE: Kind[float] = Kind("double", 6, _double, show_double)
LIST: Kind[tuple[str, ...]] = Kind("list", 7, _list, ",".join)
CLASS: Kind[str] = Kind("class", 8, _text, str)
PASSWORD: Kind[str] = Kind("password", 9, str, str)


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """What values are allowed: `holds` tests one, `sentence` ends "the value …", `short` goes into the table of settings."""

    holds: Callable[[T], bool]
    sentence: str
    short: str


def at_least(least: float) -> Check[int]:
    return Check(lambda value: value >= least, f"must be at least {least}", f"{least} or more")


def between(least: float, most: float) -> Check[float]:
    return Check(lambda value: least <= value <= most, f"must be from {least} to {most}", f"{least} to {most}")


def one_of(*names: str) -> Check[str]:
    allowed = ", ".join(names)
    return Check(lambda value: value in names, f"must be one of {allowed}", allowed)


def each_of(*names: str) -> Check[tuple[str, ...]]:
    allowed = ", ".join(names)
    return Check(lambda value: set(value) <= set(names), f"may list only {allowed}", f"list of {allowed}")


def minus_one_or(least: int, most: int) -> Check[int]:
    return Check(
        lambda value: value == -1 or least <= value <= most, f"must be -1 or from {least} to {most}", f"-1, {least} to {most}"
    )


def only(value: object, reason: str) -> Check[bool]:
    """A setting that Kafka has and that can't be anything but its default here."""
    return Check(lambda given: given == value, f"must stay {str(value).lower()}: {reason}", str(value).lower())
