"""Framing: from a stream of bytes to whole frames, without copying large ones.

Small frames are cut from a staging buffer. A larger frame is received directly into a buffer of its own, so that the records of a
fetch stay views of the received bytes.
"""

from __future__ import annotations

from ottla.client.errors import ConnectionFailed
from ottla.ports import Buffer

STAGING_BYTES = 1 << 16
SIZE_BYTES = 4

KEPT_BUFFERS = 8
"""The number of large buffers kept for reuse. A consumer still reads the partitions of several frames when the next one arrives."""
MAX_KEPT_BYTES = 16 * 1024 * 1024
"""The size of all kept buffers together."""
STEP_BYTES = 256 * 1024
RARE_AFTER = 32
"""The number of consecutive small frames after which no large buffers are kept: large frames are rare then."""


class FrameBuffers:
    """Reusable buffers for large frames. A few buffers are kept, and each is reused once no view of its memory is left.

    New memory costs the system more than receiving into it, because the system fills every page with zeroes first.
    """

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def allocate(self, size: int) -> memoryview:
        """Return a buffer of exactly `size` bytes, with arbitrary contents."""
        for buffer in self._kept:
            if size <= len(buffer) <= 4 * size and _is_unused(buffer):
                return memoryview(buffer)[:size]
        buffer = bytearray(-(-size // STEP_BYTES) * STEP_BYTES)
        self._keep(buffer)
        return memoryview(buffer)[:size]

    def _keep(self, buffer: bytearray) -> None:
        """Keep a buffer for reuse, unless it is too large. Drop the oldest buffers beyond the limits."""
        left_bytes = MAX_KEPT_BYTES - len(buffer)
        if left_bytes < 0:
            return
        kept = [buffer]
        for older in self._kept[: KEPT_BUFFERS - 1]:
            left_bytes -= len(older)
            if left_bytes >= 0:
                kept.append(older)
        self._kept = kept

    def forget(self) -> None:
        self._kept = []


def _is_unused(buffer: bytearray) -> bool:
    """Return whether no view of the buffer is left: Python refuses to resize a buffer that has views."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True


class FrameReader:
    """A reader of frames. The socket receives into `buffer()`; `receive(count)` then returns the completed frames without sizes."""

    def __init__(self, max_frame_bytes: int = 1 << 30, *, least_frame_bytes: int = SIZE_BYTES) -> None:
        self._staging = bytearray(STAGING_BYTES)
        self._start = self._end = 0
        self._large: memoryview | None = None
        self._buffers = FrameBuffers()
        self._large_filled = 0
        self._small_in_a_row = RARE_AFTER
        self._least_frame_bytes, self._max_frame_bytes = least_frame_bytes, max_frame_bytes

    def buffer(self) -> memoryview:
        """Return the buffer for the next bytes; it is never empty."""
        if self._large is not None:
            return self._large[self._large_filled :]
        return memoryview(self._staging)[self._end :]

    @property
    def missing_bytes(self) -> int:
        """Return the number of bytes still missing of a large frame that is being received; 0 between frames."""
        return 0 if self._large is None else len(self._large) - self._large_filled

    def receive(self, count: int) -> list[Buffer]:
        """Process `count` new bytes, and return the completed frames. Raises `ConnectionFailed` for an impossible frame size."""
        if self._large is not None:
            return self._filled_large(self._large, count)
        self._end += count
        frames: list[Buffer] = []
        while self._cut(frames):
            pass
        self._make_room()
        if self._small_in_a_row < RARE_AFTER and self._large is None:
            self._small_in_a_row += len(frames)
            if self._small_in_a_row >= RARE_AFTER:
                self._buffers.forget()
        return frames

    def _filled_large(self, large: memoryview, count: int) -> list[Buffer]:
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
        if not self._least_frame_bytes <= size <= self._max_frame_bytes:
            raise ConnectionFailed(f"The peer sent a frame of {size} bytes: it does not seem to speak Kafka's protocol.")
        if self._end < body + size:
            if SIZE_BYTES + size > STAGING_BYTES:
                self._begin_large(body, size)
            return False
        frames.append(bytes(memoryview(self._staging)[body : body + size]))
        self._start = body + size
        return True

    def _begin_large(self, body: int, size: int) -> None:
        self._large = self._buffers.allocate(size)
        self._small_in_a_row = 0
        self._large_filled = self._end - body
        self._large[: self._large_filled] = memoryview(self._staging)[body : self._end]
        self._start = self._end = 0

    def _make_room(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start:
            rest = self._staging[self._start : self._end]
            self._staging[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
