"""The stop of long-running commands by signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
