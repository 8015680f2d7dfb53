"""The stop of long-running commands by Ctrl-C, SIGTERM or a closed terminal (SIGHUP).

The first one ends the work in good order, a second one the process.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Self

SIGNALLED = 128
"""The exit code after a signal is this and the number of the signal: 130 for Ctrl-C."""


class Interruption:
    """A context manager that catches the first Ctrl-C, SIGTERM or SIGHUP. It sets `stop`, and ends waits for brokers and for input.

    A SIGHUP that is ignored, as by nohup, stays ignored.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.exit_code = 0
        self._may_raise = False

    def __enter__(self) -> Self:
        self.wake, self._waking = os.pipe()  # `wake` can be read after a signal: for `select.poll`
        os.set_blocking(self._waking, False)
        caught = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            caught.append(signal.SIGHUP)
        self._kept = {each: signal.signal(each, self._caught) for each in caught}
        # Python calls handlers between two steps of its own: a signal just before a wait would not end it.
        self._kept_wakeup = signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        return self

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(self._kept_wakeup)
        for each, handler in self._kept.items():
            signal.signal(each, handler)
        os.close(self.wake)
        os.close(self._waking)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        self.stop.set()
        self.exit_code = self.exit_code or SIGNALLED + number
        if self._may_raise:
            self._may_raise = False
            raise KeyboardInterrupt

    def attempt(self, work: Callable[[], object]) -> None:
        """Call `work`, which waits for brokers. A signal, even an earlier one, interrupts it; its result can be lost then."""
        try:
            self._may_raise = not self.stop.is_set()
            if self._may_raise:
                work()
        except KeyboardInterrupt:
            pass
        finally:
            self._may_raise = False

    def sleep(self, seconds: float) -> None:
        """Sleep for some seconds, but only until a signal arrives."""
        end = time.monotonic() + seconds
        while not self.stop.is_set() and (left := end - time.monotonic()) > 0:
            if select.select([self.wake], [], [], left)[0] and not self.stop.is_set():
                os.read(self.wake, 64)  # of a signal that another handler has caught
