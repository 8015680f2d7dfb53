"""Exact arithmetic on decimals of up to 38 digits, as Spark and Avro have them.

Python's own context rounds each result to 28 digits in silence: nothing here uses it.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

MOST_DIGITS = 38
LONGEST_BYTES = 32
"""A number of more bytes has more digits than any decimal, and takes ever longer to be read."""

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
    return Decimal(text).quantize(Decimal(1).scaleb(-scale, WIDE), ROUND_HALF_UP, WIDE)
