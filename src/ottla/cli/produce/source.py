"""The input of `ottla produce`: a file or standard input in chunks as they arrive, until its end or a signal."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Self

from ottla.cli.command.signals import Interruption
from ottla.errors import SettingError

CHUNK_BYTES = 512 * 1024
IDLE_MS = 20
"""The interval at which unacknowledged records are looked up while no input arrives, in ms."""
STDIN = "-"


class InputSource:
    """A context manager that opens the input, which a signal ends.

    It reads the file descriptor itself: Python's buffered files wait for a full buffer, or for one line too many.
    """

    def __init__(self, path: str | None, interruption: Interruption, *, repeat: bool = False) -> None:
        self.is_stdin = path in (None, STDIN)
        self.name = "standard input" if self.is_stdin else str(path)
        self._interruption = interruption
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

    def chunks(self, idle: Callable[[], bool]) -> Iterator[bytes]:
        """Yield what can be read, and an empty chunk at each end of the input, until a signal. Raises `OSError`.

        `idle` is called while nothing arrives; it returns whether it must be called again soon.
        """
        ready = select.poll()
        ready.register(self._descriptor, select.POLLIN)
        ready.register(self._interruption.wake, select.POLLIN)
        while not self._interruption.stop.is_set():
            if not ready.poll(0):
                ready.poll(IDLE_MS if idle() else None)
                if not ready.poll(0):
                    continue
            if self._interruption.stop.is_set():
                return
            data = os.read(self._descriptor, CHUNK_BYTES)
            yield data
            if not data:
                if not self._repeat:
                    return
                os.lseek(self._descriptor, 0, os.SEEK_SET)
