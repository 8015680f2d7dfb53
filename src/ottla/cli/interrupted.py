"""How commands that go on until they are stopped hear of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that is set by SIGTERM and Ctrl-C: what is under way is ended or given up in order, and then the command ends."""
    stop = threading.Event()
    kept = {each: signal.signal(each, lambda *_: stop.set()) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)
