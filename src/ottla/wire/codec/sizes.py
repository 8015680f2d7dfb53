"""The widths of numbers and lengths, and the minimum size of a struct. The module uses declarations, and reads no bytes."""

from __future__ import annotations

from struct import calcsize
from typing import Final

from ottla.wire.schema import Field, Struct

NUMBERS: Final = {
    "b": "int8",
    "h": "int16",
    "i": "int32",
    "q": "int64",
    "H": "uint16",
    "I": "uint32",
    "d": "float64",
    "?": "boolean",
    "16s": "uuid",
}
"""The kinds of fixed width, with their names in Kafka's documentation."""

STRINGS: Final = ("str", "plain")
"""The kinds of text fields."""


def least_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """Return the fewest bytes that a struct can take in a version. The result is at least 1, to limit the count of an array."""
    return max(1, _least(cls, version, flexible))


def _least(cls: type[Struct], version: int, flexible: bool) -> int:
    here = [f for f in cls.WIRE.fields if version in f.present and not (f.tag is not None and flexible)]
    return int(flexible) + sum(_least_field(f, version, flexible) for f in here)


def _least_field(f: Field, version: int, flexible: bool) -> int:
    if f.fixed:
        return calcsize(">" + f.kind)
    if f.kind == "struct" and not f.array:
        return 1 if version in f.nullable else _least(f.struct, version, flexible)
    return calcsize(">" + head_code(f, flexible))


def head_code(f: Field, flexible: bool) -> str:
    """Return the `struct` format of a length or count: "B" for a varint, whose shortest form is one byte, else a fixed width."""
    if flexible and f.kind != "plain":
        return "B"
    return "h" if f.kind in STRINGS and not f.array else "i"
