"""Durations of calls, in ns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.net.client.cluster import now_ms


@contextmanager
def time_call(record: Callable[[int, float], None]) -> Iterator[None]:
    """Return a context manager that calls `record(duration_ns, now_ms)` at its end, also after an exception."""
    began = time.perf_counter_ns()
    try:
        yield
    finally:
        record(time.perf_counter_ns() - began, now_ms())
