"""Helpers for work with pauses: generators that yield where other work can run, and return the result of the work."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from ottla.ports import Pauses

T = TypeVar("T")
P = TypeVar("P")


def finish(steps: Generator[object, None, T]) -> T:
    """Run a generator to its end without pauses, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: T = done.value
            return made


def replace_pauses(steps: Pauses[T], pause: P) -> Generator[P, None, T]:
    """Run a generator, and yield `pause` in place of each value that it yields. Return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: T = done.value
            return made
        yield pause
