"""The codecs' limits: what they raise when bytes open to too much, and how often they pause."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from ottla.records.steps import finish


class OverLimit(ValueError):
    """The data holds more than the caller allows; raised before that much memory is taken."""


PAUSE_BYTES: Final = 1 << 20
"""Bytes opened between two pauses: a millisecond of work or less."""

LARGE_ROOM_BYTES: Final = 4 << 20
"""Zeroing this much and more takes a millisecond, and no other thread gets on meanwhile."""

_ZEROS: Final = bytes(PAUSE_BYTES)


def room_slowly(size: int) -> Generator[None, None, bytearray]:
    """Zeroed room for so many bytes, with pauses: zeroing much memory at once would keep others waiting."""
    room = bytearray(min(size, PAUSE_BYTES))
    while len(room) < size:
        yield
        room += memoryview(_ZEROS)[: size - len(room)]
    return room


def zeroed(size: int) -> memoryview:
    """Zeroed room for so many bytes; other threads get on while much of it is zeroed."""
    return memoryview(bytearray(size) if size < LARGE_ROOM_BYTES else finish(room_slowly(size)))
