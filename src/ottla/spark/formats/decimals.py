"""Exact arithmetic on decimals of up to 38 digits, as in Spark and Avro.

Python's default context silently rounds results to 28 digits, so it is not used here.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as compute

MOST_DIGITS = 38
LONGEST_BYTES = 32
"""The most bytes of an unscaled number: longer ones have too many digits, and take long to parse."""

_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
"""A decimal number, stricter than Python's: no NaN, no underscores, no digits of other scripts."""

WIDE = Context(prec=4 * MOST_DIGITS, rounding=ROUND_HALF_UP, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])


def of_unscaled(number: int, scale: int) -> Decimal:
    """Return `number` with its last `scale` digits behind the point."""
    return Decimal(number).scaleb(-scale, WIDE)


def unscaled(value: Decimal, scale: int) -> int:
    """Return a decimal without its point, moved by `scale` digits. Raises `ValueError` if digits are left behind it."""
    scaled = value.scaleb(scale, WIDE)
    if scaled != scaled.to_integral_value(context=WIDE):
        raise ValueError(f"{value} has more than {scale} digits behind the point")
    return int(scaled)


def rounded(text: str, scale: int) -> Decimal:
    """Read a decimal, rounded half up to `scale` digits behind the point. Raises `InvalidOperation` if it is none, or too large."""
    if not _NUMBER.fullmatch(text):
        raise InvalidOperation(f"{text!r} is no number")
    return Decimal(text).quantize(Decimal(1).scaleb(-scale, WIDE), ROUND_HALF_UP, WIDE)


def wide(kind: pa.Decimal128Type) -> pa.Decimal256Type:
    """Return a type for all numbers of up to 38 digits with the scale of `kind`, for Arrow's readers.

    They rescale numbers without a check; the cast to `kind` checks.
    """
    return pa.decimal256(2 * MOST_DIGITS - kind.scale, kind.scale)


def of_texts(texts: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Parse decimals, with spaces around them. Raises `ArrowInvalid` for other texts, and for more digits than `kind` has."""
    trimmed = compute.utf8_trim(texts, " \t")
    longest = compute.max(compute.binary_length(trimmed)).as_py() or 0
    if longest <= MOST_DIGITS and not compute.any(compute.match_substring_regex(trimmed, "[eE]"), min_count=0).as_py():
        return trimmed.cast(wide(kind)).cast(kind)
    return pa.array([None if each is None else _exact(each, kind.scale) for each in trimmed.to_pylist()], kind)


def _exact(text: str, scale: int) -> Decimal:
    try:
        found = rounded(text, scale)
    except InvalidOperation:
        found = None
    if found is None or found != Decimal(text):
        raise pa.ArrowInvalid(f"{text} is no number with {scale} digits behind the point")
    return found
