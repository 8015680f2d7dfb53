"""The line of progress of a command: rewritten in place on a terminal, absent elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Self

EVERY_S = 0.5
ERASED = "\r\x1b[K"


class ProgressLine:
    """A line on standard error with the progress of a command. It is shorter than the terminal, so that it is never wrapped."""

    def __init__(self, *, is_wanted: bool = True) -> None:
        self._is_wanted = is_wanted and sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_shown = False
        self._due_s = time.monotonic() + EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def show_if_due(self, text: Callable[[], str]) -> None:
        """Show a new text, unless the last one is less than half a second old."""
        if not self._is_wanted or time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + EVERY_S
        self._is_shown = True
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
        print(f"{ERASED}{text()[: max(columns - 1, 1)]}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line, so that other output can follow."""
        if self._is_shown:
            self._is_shown = False
            print(ERASED, end="", file=sys.stderr, flush=True)
