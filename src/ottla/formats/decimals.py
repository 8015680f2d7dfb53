"""Exact arithmetic on decimals of up to 38 digits, as in Spark and Avro.

The module does not use Python's default context, which silently rounds results to 28 digits.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as compute

MOST_DIGITS = 38
LONGEST_BYTES = 32
"""The maximum size of an unscaled number, in bytes. A longer one has too many digits, and would take long to parse."""

_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
"""A decimal number. Unlike Python's, it has no NaN, no underscores, and no digits of other scripts."""

WIDE = Context(prec=4 * MOST_DIGITS, rounding=ROUND_HALF_UP, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])


def of_unscaled(number: int, scale: int) -> Decimal:
    """Return the decimal with the digits of `number`, the last `scale` of them after the point."""
    return Decimal(number).scaleb(-scale, WIDE)


def to_unscaled(value: Decimal, scale: int) -> int:
    """Return a decimal multiplied by 10 to the power of `scale`, as an integer. Raises `ValueError` for more decimal places."""
    scaled = value.scaleb(scale, WIDE)
    if scaled != scaled.to_integral_value(context=WIDE):
        raise ValueError(f"{value} has more than {scale} digits behind the point")
    return int(scaled)


def parse_rounded(text: str, scale: int) -> Decimal:
    """Parse a decimal, and round it half up to `scale` decimal places.

    Raises `InvalidOperation` if the text is not a decimal, or is too large.
    """
    if not _NUMBER.fullmatch(text):
        raise InvalidOperation(f"{text!r} is no number")
    return Decimal(text).quantize(Decimal(1).scaleb(-scale, WIDE), ROUND_HALF_UP, WIDE)


def wide(kind: pa.Decimal128Type) -> pa.Decimal256Type:
    """Return the decimal type with the scale of `kind` and the most digits, for Arrow's readers.

    Arrow's readers do not check the number of digits. The cast to `kind` does.
    """
    return pa.decimal256(2 * MOST_DIGITS - kind.scale, kind.scale)


def of_texts(texts: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Parse decimals, which can have spaces around them. Raises `ArrowInvalid` for other texts and for too many digits."""
    trimmed = compute.utf8_trim(texts, " \t")
    longest = compute.max(compute.binary_length(trimmed)).as_py() or 0
    if longest <= MOST_DIGITS and not compute.any(compute.match_substring_regex(trimmed, "[eE]"), min_count=0).as_py():
        return trimmed.cast(wide(kind)).cast(kind)
    return pa.array([None if each is None else _exact(each, kind.scale) for each in trimmed.to_pylist()], kind)


def _exact(text: str, scale: int) -> Decimal:
    try:
        found = parse_rounded(text, scale)
    except InvalidOperation:
        found = None
    if found is None or found != Decimal(text):
        raise pa.ArrowInvalid(f"{text} is no number with {scale} digits behind the point")
    return found
