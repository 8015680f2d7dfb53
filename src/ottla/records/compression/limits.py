"""The limits of decompression: the exception for too much data, and the sizes of pieces between pauses."""

from __future__ import annotations

from typing import Final

from ottla.ports import Pauses
from ottla.records.pauses import finish


class OverLimit(ValueError):
    """Raised if data decompresses to more than the caller allows, before memory beyond the limit is allocated."""


PAUSE_BYTES: Final = 1 << 20
"""The bytes decompressed between two pauses: a millisecond of work or less."""

LARGE_ROOM_BYTES: Final = 4 << 20
"""The size of a buffer, in bytes, from which zeroing it takes a millisecond or more, during which no other thread runs."""

_ZEROS: Final = bytes(PAUSE_BYTES)


def room_slowly(size: int) -> Pauses[bytearray]:
    """Allocate a zeroed buffer of `size` bytes, with pauses, because zeroing much memory at once would delay other work."""
    room = bytearray(min(size, PAUSE_BYTES))
    while len(room) < size:
        yield
        room += memoryview(_ZEROS)[: size - len(room)]
    return room


def allocate(size: int) -> memoryview:
    """Return a zeroed buffer of `size` bytes; other threads can run while a large one is zeroed."""
    return memoryview(bytearray(size) if size < LARGE_ROOM_BYTES else finish(room_slowly(size)))
