"""What the codecs raise for bytes that would open to more than they may, and where they pause. Knows nothing else."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final


class OverLimit(ValueError):
    """There is more in it than the caller allows; raised before that much memory is taken."""


PAUSE_BYTES: Final = 1 << 20
"""Where work is done with pauses, so much is opened from one to the next: a millisecond or less."""

_ZEROS: Final = bytes(PAUSE_BYTES)


def room_slowly(size: int) -> Generator[None, None, bytearray]:
    """Room for so many bytes, with pauses: to zero much of it takes longer than anybody may be kept waiting."""
    room = bytearray(min(size, PAUSE_BYTES))
    while len(room) < size:
        yield
        room += memoryview(_ZEROS)[: size - len(room)]
    return room
