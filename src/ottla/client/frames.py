"""From a stream of bytes to whole frames, without copying large ones.

Small frames are cut from a staging buffer; a frame that does not fit is received straight into a buffer of its own, so that the
records of a fetch stay views of what the socket wrote.
"""

from __future__ import annotations

from ottla.client.errors import ConnectionFailed
from ottla.ports import Buffer

STAGING_BYTES = 1 << 16
SIZE_BYTES = 4


class FrameReader:
    """Give `buffer()` to the socket to write into, then say `filled(count)`: it returns the frames now complete, without their
    sizes."""

    def __init__(self, max_frame_bytes: int = 1 << 30) -> None:
        self._staging = bytearray(STAGING_BYTES)
        self._start = self._end = 0
        self._large: bytearray | None = None
        self._large_filled = 0
        self._max_frame_bytes = max_frame_bytes

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return memoryview(self._staging)[self._end :]

    def filled(self, count: int) -> list[Buffer]:
        """Take note of `count` new bytes. Raises `ConnectionFailed` if a frame claims an impossible size."""
        if self._large is not None:
            return self._filled_large(self._large, count)
        self._end += count
        frames: list[Buffer] = []
        while self._cut(frames):
            pass
        self._make_room()
        return frames

    def _filled_large(self, large: bytearray, count: int) -> list[Buffer]:
        self._large_filled += count
        if self._large_filled < len(large):
            return []
        self._large = None
        return [large]

    def _cut(self, frames: list[Buffer]) -> bool:
        body = self._start + SIZE_BYTES
        if self._end < body:
            return False
        size = int.from_bytes(self._staging[self._start : body], "big", signed=True)
        if not SIZE_BYTES <= size <= self._max_frame_bytes:
            raise ConnectionFailed(f"The other end sent a frame of {size} bytes: it does not seem to speak Kafka's protocol.")
        if self._end < body + size:
            if SIZE_BYTES + size > STAGING_BYTES:
                self._begin_large(body, size)
            return False
        frames.append(bytes(memoryview(self._staging)[body : body + size]))
        self._start = body + size
        return True

    def _begin_large(self, body: int, size: int) -> None:
        self._large = bytearray(size)
        self._large_filled = self._end - body
        self._large[: self._large_filled] = self._staging[body : self._end]
        self._start = self._end = 0

    def _make_room(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start:
            rest = self._staging[self._start : self._end]
            self._staging[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
