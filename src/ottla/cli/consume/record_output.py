"""The output of records: many at once, at the reader's pace. Printed records are counted, so that commits follow the output."""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import BinaryIO, cast

from ottla.records.batches.lines import LineBlock

PIPE_BYTES = 4096
"""The number of bytes that a pipe takes without blocking once it is ready: PIPE_BUF of Linux."""
WAIT_MS = 100
"""The time, in ms, after which a wait for a slow reader checks whether the command was stopped."""


def joined(lines: Sequence[bytes], end: bytes) -> LineBlock:
    """Return lines with `end` after each."""
    data = memoryview(end.join((*lines, b"")) if lines else b"")
    return LineBlock(data, len(lines), accumulate(len(line) + len(end) for line in lines))


class RecordOutput:
    """The standard output for records. Once `stop` is set, nothing more is written."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._stream = cast("BinaryIO", sys.stdout.buffer)
        self._raw = getattr(self._stream, "raw", self._stream)
        self._pipe = self._pipe_of(self._raw)

    @staticmethod
    def _pipe_of(raw: object) -> int | None:
        """Return the descriptor if standard output is a pipe, a socket or a terminal, whose readers can be slow."""
        with suppress(OSError, AttributeError, ValueError):
            descriptor = int(raw.fileno())  # type: ignore[attr-defined]  # a stream without one raises AttributeError
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor):
                return descriptor
        return None

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
        return count if written == len(data) else sum(after <= written for after in ends), error

    def _some(self, data: memoryview) -> int:
        """Write some bytes, and return their number. Return 0 if a slow reader accepts none for `WAIT_MS`."""
        if self._pipe is None:
            return int(self._raw.write(data) or 0)
        poll = select.poll()
        poll.register(self._pipe, select.POLLOUT)
        return os.write(self._pipe, data[:PIPE_BYTES]) if poll.poll(WAIT_MS) else 0

    def check_reader(self) -> None:
        """Raise `BrokenPipeError` if the reader of a pipe has gone, such as `head`."""
        if self._pipe is not None:
            poll = select.poll()
            poll.register(self._pipe, 0)
            if any(event & select.POLLERR for _, event in poll.poll(0)):
                raise BrokenPipeError(32, "the reader has closed the pipe")
