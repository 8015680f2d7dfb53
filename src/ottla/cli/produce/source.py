"""The input of `ottla produce`: a file or standard input in chunks as they arrive, until its end or a signal."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Self

from ottla.errors import SettingError

CHUNK_BYTES = 1024 * 1024
IDLE_MS = 20
"""The interval at which unacknowledged records are looked up while no input arrives, in ms."""
STDIN = "-"


class InputSource:
    """A context manager that opens the input. Ctrl-C and SIGTERM end the input; a second one ends the process at once.

    It reads the file descriptor itself: Python's buffered files wait for a full buffer, or for one line too many.
    """

    def __init__(self, path: str | None, *, repeat: bool = False) -> None:
        self.is_stdin = path in (None, STDIN)
        self.name = "standard input" if self.is_stdin else str(path)
        self.interrupted_by = 0
        """The signal that ended the input; 0 for none."""
        self._path = path
        self._repeat = repeat
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Open the input. Raises `OSError`, and `SettingError` without standard input."""
        if self.is_stdin and sys.stdin is None:
            raise SettingError("Standard input is closed: name a FILE.")
        with ExitStack() as stack:
            if self.is_stdin and sys.stdin is not None:
                self._descriptor = sys.stdin.fileno()
            else:
                self._descriptor = os.open(str(self._path), os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, self._descriptor)
                if os.path.isdir(self._descriptor):
                    raise IsADirectoryError(21, os.strerror(21), self._path)
            self._wake, wake = os.pipe()
            stack.callback(os.close, self._wake)
            stack.callback(os.close, wake)
            stack.enter_context(self._signals(wake))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def is_terminal(self) -> bool:
        return os.isatty(self._descriptor)

    @property
    def can_repeat(self) -> bool:
        """Return whether the input has a beginning to return to, and is not empty."""
        try:
            return os.lseek(self._descriptor, 0, os.SEEK_END) > 0 and os.lseek(self._descriptor, 0, os.SEEK_SET) == 0
        except OSError:
            return False

    @contextmanager
    def _signals(self, wake: int) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            self.interrupted_by = number
            signal.signal(number, signal.SIG_DFL)
            with suppress(OSError):
                os.write(wake, b"\0")

        kept = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in kept.items():
                signal.signal(each, handler)

    def chunks(self, idle: Callable[[], bool]) -> Iterator[bytes]:
        """Yield what can be read, and an empty chunk at each end of the input, until a signal. Raises `OSError`.

        `idle` is called while nothing arrives; it returns whether it must be called again soon.
        """
        ready = select.poll()
        ready.register(self._descriptor, select.POLLIN)
        ready.register(self._wake, select.POLLIN)
        while not self.interrupted_by:
            if not ready.poll(0):
                ready.poll(IDLE_MS if idle() else None)
                if not ready.poll(0):
                    continue
            if self.interrupted_by:
                return
            data = os.read(self._descriptor, CHUNK_BYTES)
            yield data
            if not data:
                if not self._repeat:
                    return
                os.lseek(self._descriptor, 0, os.SEEK_SET)

    def wait(self, seconds: float) -> None:
        """Sleep, or until a signal."""
        end = time.monotonic() + seconds
        while not self.interrupted_by and (left := end - time.monotonic()) > 0:
            select.select([self._wake], [], [], left)
