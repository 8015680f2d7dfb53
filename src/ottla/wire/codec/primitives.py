"""Varints, tag sections and limits, shared by all readers and writers.

Knows bytes only; nothing of fields and messages.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Final

LONGEST_STRING: Final = 0x7FFF
"""Bytes in a string, in every version: Kafka refuses longer ones even where the length is a varint."""
_ONE_BYTE: Final = [bytes([n]) for n in range(0x80)]


class Stop(Exception):
    """Bytes or a value cannot be right. Never leaves `codec`, which raises an error that says what is wrong."""


class TooMany(Stop):
    """Arrays have more items than are wanted at once."""


def varint(buf: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 5 bytes, and the position after it. Raises `Stop` or IndexError."""
    value = 0
    for shift in range(0, 35, 7):
        byte = buf[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise Stop


def unsigned_varint(n: int) -> bytes:
    """A number as an unsigned varint."""
    if n < 0x80:
        return _ONE_BYTE[n]
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def flat(buf: bytes | bytearray | memoryview) -> bytes | memoryview:
    """A view of the same bytes, or a copy where the buffer is not one of bytes in a row."""
    view = memoryview(buf)
    return view if view.ndim == 1 and view.c_contiguous and view.format == "B" else view.tobytes()


def write_tags(known: list[tuple[int, bytes]], unknown: tuple[tuple[int, bytes], ...], put: Callable[[bytes], None]) -> None:
    """Put a tag section: how many, then tag, size and bytes of each, ascending. A tag both known and unknown is refused.

    The same unknown tag twice is passed on as it came: whoever knows it may make sense of it.
    """
    if unknown and not {tag for tag, _ in known}.isdisjoint(tag for tag, _ in unknown):
        raise Stop
    tags = sorted([*known, *unknown], key=itemgetter(0)) if unknown else known
    put(unsigned_varint(len(tags)))
    for tag, body in tags:
        put(unsigned_varint(tag))
        put(unsigned_varint(len(body)))
        put(body)
