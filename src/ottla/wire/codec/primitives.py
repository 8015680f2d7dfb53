"""Varints, tag sections and limits, shared by all readers and writers.

The functions use only bytes, and are independent of fields and messages.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Final

LONGEST_STRING: Final = 0x7FFF
"""The most bytes in a string, in every version. Kafka refuses longer strings, even if the length is a varint."""
_ONE_BYTE: Final = [bytes([n]) for n in range(0x80)]


class Stop(Exception):
    """Raised for invalid bytes or an invalid value. Callers of `codec` never see it, because `codec` raises an explained
    exception.
    """


class TooMany(Stop):
    """Raised if arrays have more items than the caller accepts in one call."""


def varint(buf: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Return an unsigned varint of at most 5 bytes, and the position after it. Raises `Stop` or IndexError."""
    value = 0
    for shift in range(0, 35, 7):
        byte = buf[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise Stop


def unsigned_varint(n: int) -> bytes:
    if n < 0x80:
        return _ONE_BYTE[n]
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def flat(buf: bytes | bytearray | memoryview) -> bytes | memoryview:
    """Return a view of a buffer's bytes, or a copy if the buffer is not contiguous or not of bytes."""
    view = memoryview(buf)
    return view if view.ndim == 1 and view.c_contiguous and view.format == "B" else view.tobytes()


def write_tags(known: list[tuple[int, bytes]], unknown: tuple[tuple[int, bytes], ...], put: Callable[[bytes], None]) -> None:
    """Write a tag section: the number of tags, then tag, size and bytes of each, ascending.

    Raises `Stop` for a tag that is both known and unknown. An unknown tag that was received twice is written twice, because the
    receiver can support it.
    """
    if unknown and not {tag for tag, _ in known}.isdisjoint(tag for tag, _ in unknown):
        raise Stop
    tags = sorted([*known, *unknown], key=itemgetter(0)) if unknown else known
    put(unsigned_varint(len(tags)))
    for tag, body in tags:
        put(unsigned_varint(tag))
        put(unsigned_varint(len(body)))
        put(body)
