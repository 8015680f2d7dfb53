"""Work with pauses: generators that yield where other work may run, and return their result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from ottla.ports import Pauses

T = TypeVar("T")
P = TypeVar("P")


def finish(steps: Generator[object, None, T]) -> T:
    """Run the work without pauses, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: T = done.value
            return made


def paused(steps: Pauses[T], pause: P) -> Generator[P, None, T]:
    """Run the work, and yield `pause` at each of its pauses; return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: T = done.value
            return made
        yield pause
