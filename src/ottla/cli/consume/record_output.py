"""The output of records: many at once, at the reader's pace. Printed records are counted, so that commits follow the output."""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
import termios
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, BinaryIO, cast

from ottla.records.batches.lines import LineBlock

if TYPE_CHECKING:
    from ottla.client.types import TopicPartition

PIPE_BYTES = 4096
"""The number of bytes that a pipe takes without blocking once it is ready: PIPE_BUF of Linux."""
READER_PAUSE_S = 0.01
WAIT_MS = 100
"""The time, in ms, after which a wait for a slow reader checks whether the command was stopped."""


def joined(lines: Sequence[bytes], end: bytes) -> LineBlock:
    """Return lines with `end` after each."""
    data = memoryview(end.join((*lines, b"")) if lines else b"")
    return LineBlock(data, len(lines), list(accumulate(len(line) + len(end) for line in lines)))


class RecentLines:
    """The lines that a pipe may still hold, with the offsets of their records: a reader that closes the pipe never gets them."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._blocks: deque[tuple[TopicPartition, list[int], list[int]]] = deque()
        """Partitions, offsets, and the positions in the whole output after the lines."""

    def note(self, where: TopicPartition, offsets: Sequence[int], ends: Sequence[int], start: int, written: int) -> None:
        """Note lines of records with `offsets`, which end at `ends` after `start`. `written` bytes were written in all."""
        oldest = written - self._capacity()
        while self._blocks and self._blocks[0][2][-1] <= oldest:
            self._blocks.popleft()
        first = bisect_right(ends, oldest - start)
        if first < len(offsets):
            kept = [start + end for end in ends[first : len(offsets)]]
            self._blocks.append((where, list(offsets[first:]), kept))

    def unread(self, written: int) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition whose line the pipe holds, of `written` bytes in all."""
        held = bytearray(4)
        with suppress(OSError):  # not every system counts them
            fcntl.ioctl(self._pipe, termios.FIONREAD, held)
        read = written - int.from_bytes(held, sys.byteorder)
        found: dict[TopicPartition, int] = {}
        for where, offsets, ends in self._blocks:
            first = bisect_right(ends, read)
            if first < len(offsets):
                found[where] = min(offsets[first], found.get(where, offsets[first]))
        return found

    def holds_lines(self) -> bool:
        """Return whether the pipe holds bytes that are not read yet."""
        held = bytearray(4)
        with suppress(OSError):  # not every system counts them
            fcntl.ioctl(self._pipe, termios.FIONREAD, held)
        return any(held)

    def _capacity(self) -> int:
        """Return the number of bytes that the pipe holds at most."""
        with suppress(OSError, AttributeError):
            return fcntl.fcntl(self._pipe, fcntl.F_GETPIPE_SZ)
        return 1 << 20


class RecordOutput:
    """The standard output for records. Once `stop` is set, nothing more is written. With `is_committed`, `unread` finds records."""

    def __init__(self, stop: threading.Event, *, is_committed: bool) -> None:
        self._stop = stop
        self._stream = cast("BinaryIO", sys.stdout.buffer)
        self._raw = getattr(self._stream, "raw", self._stream)
        self._pipe = self._pipe_of(self._raw)
        self._written = 0
        is_fifo = self._pipe is not None and stat.S_ISFIFO(os.fstat(self._pipe).st_mode)
        self._recent = RecentLines(self._pipe) if is_committed and is_fifo and self._pipe is not None else None

    @staticmethod
    def _pipe_of(raw: object) -> int | None:
        """Return the descriptor if standard output is a pipe, a socket or a terminal, whose readers can be slow."""
        with suppress(OSError, AttributeError, ValueError):
            descriptor = int(raw.fileno())  # type: ignore[attr-defined]  # a stream without one raises AttributeError
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor):
                return descriptor
        return None

    def write_records(self, lines: LineBlock, where: TopicPartition, offsets: Sequence[int]) -> tuple[int, OSError | None]:
        """Write the lines of records of a partition as `write` does, and remember them for `unread`."""
        start = self._written
        count, error = self.write(lines)
        if self._recent is not None:
            self._recent.note(where, offsets[:count], lines.ends, start, self._written)
        return count, error

    def unread(self) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition that a reader did not read before it closed the pipe."""
        return self._recent.unread(self._written) if self._recent is not None and self.is_closed else {}

    def wait_for_reader(self) -> None:
        """Wait until the reader of a pipe has read everything, or has closed the pipe, or the command is stopped."""
        while self._recent is not None and self._recent.holds_lines() and not (self.is_closed or self._stop.is_set()):
            self._stop.wait(READER_PAUSE_S)

    def write(self, lines: LineBlock) -> tuple[int, OSError | None]:
        """Write lines. Return (number of completely written lines, error that ended the writing or None).

        The number is lower than the number of lines after an error, or if `stop` is set meanwhile.
        """
        data, count, ends = lines
        written, error = 0, None
        try:
            while written < len(data) and not self._stop.is_set():
                written += self._some(data[written:])
        except OSError as caught:
            error = caught
        self._written += written
        return count if written == len(data) else sum(after <= written for after in ends), error

    def _some(self, data: memoryview) -> int:
        """Write some bytes, and return their number. Return 0 if a slow reader accepts none for `WAIT_MS`."""
        if self._pipe is None:
            return int(self._raw.write(data) or 0)
        poll = select.poll()
        poll.register(self._pipe, select.POLLOUT)
        return os.write(self._pipe, data[:PIPE_BYTES]) if poll.poll(WAIT_MS) else 0

    @property
    def is_closed(self) -> bool:
        """Return whether the reader of a pipe has gone, such as `head`."""
        if self._pipe is None:
            return False
        poll = select.poll()
        poll.register(self._pipe, 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
