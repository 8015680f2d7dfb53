"""Work with pauses: generators that yield where others may go on, and return what they made. Knows nothing of the work."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
P = TypeVar("P")


def finish(steps: Generator[None, None, T]) -> T:
    """What the work makes, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: T = done.value
            return made


def paused(steps: Generator[None, None, T], pause: P) -> Generator[P, None, T]:
    """The same work, for one whose own pauses are `pause`."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: T = done.value
            return made
        yield pause
