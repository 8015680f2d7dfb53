"""What generated readers and writers call for the rare and the long: varints beyond a byte, rows of numbers.

Knows bytes only; of fields and messages it knows nothing. `Stop` never leaves `codec`, which turns it into `Malformed`.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from struct import Struct
from typing import Any, Final

LONGEST_STRING: Final = 0x7FFF
"""Bytes in a string, in every version: Kafka refuses longer ones even where the length is a varint."""
_ROWS_KEPT: Final = 256


class Stop(Exception):
    """Generated code met bytes, or a value, that cannot be right."""


class Varints(dict[int, bytes]):
    """n -> its unsigned varint; those of one byte are there from the start, of two bytes are kept once made."""

    def __missing__(self, n: int) -> bytes:
        if n < 1 << 14:
            return self.setdefault(n, bytes((n & 0x7F | 0x80, n >> 7)))
        out = bytearray()
        while n > 0x7F:
            out.append(n & 0x7F | 0x80)
            n >>= 7
        out.append(n)
        return bytes(out)


VARINT: Final = Varints({n: bytes([n]) for n in range(0x80)})


def more(buf: bytes | bytearray | memoryview, n: int, pos: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte `n` has its high bit set; `pos` is the next byte."""
    shift = 7
    n &= 0x7F
    while shift < 35:
        byte = buf[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n, pos
        shift += 7
    raise Stop


def flat(buf: bytes | bytearray | memoryview) -> bytes | memoryview:
    """A view of the same bytes, or a copy where the buffer is not one of bytes in a row."""
    view = memoryview(buf)
    return view if view.ndim == 1 and view.c_contiguous and view.format == "B" else view.tobytes()


def long_string(n: int) -> bytes:
    """The compact length of a string of `n - 1` bytes, beyond a byte."""
    if n > LONGEST_STRING + 1:
        raise Stop
    return VARINT[n]


class Readers(dict[int, Callable[..., tuple[Any, ...]]]):
    """n -> `unpack_from` of n numbers of one format and then `tail`."""

    def __init__(self, code: str, tail: str) -> None:
        super().__init__()
        self.code = code
        self.tail = tail

    def __missing__(self, n: int) -> Callable[..., tuple[Any, ...]]:
        row = Struct(f">{n}{self.code}{self.tail}").unpack_from
        return self.setdefault(n, row) if n < _ROWS_KEPT else row


class Packers(dict[int, Callable[..., bytes]]):
    """n -> `pack` of `head` and then n numbers of one format."""

    def __init__(self, head: str, code: str) -> None:
        super().__init__()
        self.head = head
        self.code = code

    def __missing__(self, n: int) -> Callable[..., bytes]:
        row = Struct(f">{self.head}{n}{self.code}").pack
        return self.setdefault(n, row) if n < _ROWS_KEPT else row


def read_tags(buf: bytes | bytearray | memoryview, n: int, pos: int) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """Read a tag section, all of whose tags are unknown, after the first byte `n` of its count."""
    if n > 127:
        n, pos = more(buf, n, pos)
    tags = []
    for _ in range(n):
        tag, pos = varint(buf, pos)
        size, pos = varint(buf, pos)
        if size > len(buf) - pos:
            raise Stop
        tags.append((tag, bytes(buf[pos : pos + size])))
        pos += size
    return tuple(tags), pos


def varint(buf: bytes | bytearray | memoryview, pos: int) -> tuple[int, int]:
    """An unsigned varint and the position after it."""
    first = buf[pos]
    return more(buf, first, pos + 1) if first > 127 else (first, pos + 1)


def write_tags(known: list[tuple[int, bytes]], unknown: tuple[tuple[int, bytes], ...], put: Callable[[bytes], None]) -> None:
    """Put a tag section: how many, then tag, size and bytes of each, ascending. A tag both known and unknown is refused.

    The same unknown tag twice is passed on as it came: whoever knows it may make sense of it.
    """
    if unknown and not {tag for tag, _ in known}.isdisjoint(tag for tag, _ in unknown):
        raise Stop
    tags = sorted([*known, *unknown], key=itemgetter(0)) if unknown else known
    put(VARINT[len(tags)])
    for tag, body in tags:
        put(VARINT[tag])
        put(VARINT[len(body)])
        put(body)
