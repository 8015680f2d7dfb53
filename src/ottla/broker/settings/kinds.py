"""The types of setting values: how each is parsed, formatted, and encoded on the wire (KIP-133).

Independent of any setting. Error messages have no full stop, and Kafka's words if Kafka has the error, because tools compare
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import Any, Generic, TypeVar

from ottla.values import dataclass

T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

LARGEST_INT = 2**31 - 1
LARGEST_LONG = 2**63 - 1


class BadValue(ValueError):
    """Raised for a text that is not a valid value of its setting's type."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """A type of values. `code` is its number in DescribeConfigs. `parse` raises `BadValue`; `show` formats a value as a string."""

    name: str
    code: int
    parse: Callable[[str], T_co]
    show: Callable[[Any], str]


def _boolean(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise BadValue("Expected value to be either true or false")


def _whole(bits: int, java: str) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        digits = text.strip()
        if not re.fullmatch("[+-]?[0-9]{1,19}", digits) or not -limit <= int(digits) < limit:
            raise BadValue(f"Not a number of type {java}: write a whole number of {bits} bits")
        return int(digits)

    return parse


def _double(text: str) -> float:
    """Parse a number as Java does, except NaN and infinities, which have no meaning for any setting."""
    digits = text.strip()
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?[fFdD]?", digits) or not isfinite(
        value := float(digits.rstrip("fFdD"))
    ):
        raise BadValue("Not a number of type DOUBLE: write a number such as 0.5")
    return value


def show_double(value: float) -> str:
    """Format a double as Java does, because clients compare the strings: 0.5, 1.0E10, 1.7976931348623157E308."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal

    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *others = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(others) or '0'}E{exponent + len(others)}"


def _list(text: str) -> tuple[str, ...]:
    """Split at commas. An item that occurs again is left out, as in Kafka since 4.2 (KIP-1161)."""
    return tuple(dict.fromkeys(item.strip() for item in text.split(","))) if text.strip() else ()


def _text(text: str) -> str:
    return text.strip()


BOOLEAN: Kind[bool] = Kind("boolean", 1, _boolean, lambda value: "true" if value else "false")
STRING: Kind[str] = Kind("string", 2, _text, str)
INT: Kind[int] = Kind("int", 3, _whole(32, "INT"), str)
SHORT: Kind[int] = Kind("short", 4, _whole(16, "SHORT"), str)
LONG: Kind[int] = Kind("long", 5, _whole(64, "LONG"), str)
DOUBLE: Kind[float] = Kind("double", 6, _double, show_double)
LIST: Kind[tuple[str, ...]] = Kind("list", 7, _list, ",".join)
CLASS: Kind[str] = Kind("class", 8, _text, str)
PASSWORD: Kind[str] = Kind("password", 9, str, str)


@dataclass(frozen=True, slots=True)
class Check(Generic[T_contra]):
    """A check of values: `holds` tests a value, `sentence` is the error message, and `short` is for the table of settings.

    `culprit` returns the invalid item of a list.
    """

    holds: Callable[[T_contra], bool]
    sentence: str | Callable[[T_contra], str]
    short: str
    culprit: Callable[[T_contra], str] | None = None

    def refusal(self, value: T_contra) -> str:
        return self.sentence if isinstance(self.sentence, str) else self.sentence(value)


def at_least(least: float) -> Check[float]:
    return Check(lambda value: value >= least, f"Value must be at least {least}", f"{least} or more")


def between(least: float, most: float) -> Check[float]:
    too_little, too_much = f"Value must be at least {least}", f"Value must be no more than {most}"
    return Check(
        lambda value: least <= value <= most, lambda value: too_little if value < least else too_much, f"{least} to {most}"
    )


def one_of(*names: str) -> Check[str]:
    allowed = ", ".join(names)
    return Check(lambda value: value in names, f"String must be one of: {allowed}", allowed)


def each_of(*names: str) -> Check[tuple[str, ...]]:
    allowed = ", ".join(names)
    return Check(
        lambda value: set(value) <= set(names),
        f"String must be one of: {allowed}",
        f"list of {allowed}",
        lambda value: next(item for item in value if item not in names),
    )


def minus_one_or(least: int, most: int) -> Check[int]:
    return Check(
        lambda value: value == -1 or least <= value <= most,
        f"Value must be between {least} and {most} or equal to -1",
        f"-1, {least} to {most}",
    )


def only(value: object, reason: str) -> Check[object]:
    """Return a check for a setting of Kafka that must keep its default in Ottla."""
    return Check(lambda given: given == value, f"Value must stay {str(value).lower()}: {reason}", str(value).lower())
