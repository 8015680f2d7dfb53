"""Waiting for something outside this process to come true."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(probe: Callable[[], T], *, timeout_s: float = 20.0, what: str = "") -> T:
    """The first true value of `probe`. Fails the test after `timeout_s`, with the last value seen."""
    deadline = time.monotonic() + timeout_s
    while not (value := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true in {timeout_s} s: {what or probe}; it was {value!r}")
        time.sleep(0.02)
    return value
