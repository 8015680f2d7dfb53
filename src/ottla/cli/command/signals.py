"""The stop of long-running commands by signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALLED = 128
"""The exit code after a signal is this and the number of the signal: 130 for Ctrl-C."""


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and Ctrl-C set.

    The command must then finish or cancel its work, and end.
    """
    stop = threading.Event()
    kept = {each: signal.signal(each, lambda *_: stop.set()) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)


class Interruption:
    """Ctrl-C and SIGTERM: they end waits for brokers, and let the output finish its line."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.exit_code = 0
        self._may_raise = False

    @contextmanager
    def watch(self) -> Iterator[None]:
        kept = {each: signal.signal(each, self._caught) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for each, handler in kept.items():
                signal.signal(each, handler)

    def _caught(self, number: int, frame: object) -> None:
        self.stop.set()
        self.exit_code = SIGNALLED + number
        if self._may_raise:
            self._may_raise = False
            raise KeyboardInterrupt

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Let a signal end a wait for brokers."""
        self._may_raise = True
        try:
            if not self.stop.is_set():
                yield
        except KeyboardInterrupt:
            self.stop.set()
        finally:
            self._may_raise = False
