"""Jobs that must not overlap, run one after the other. Independent of their work."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from ottla.ports import Done, Steps

T = TypeVar("T")


class InTurn:
    """A queue of jobs that runs one job at a time."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: deque[Done] = deque()

    def steps(self, steps: Steps[T]) -> Steps[T]:
        """Run `steps` once all steps that were queued earlier have ended, and return their result."""
        if self._is_taken:
            yield self._waiting.append
        self._is_taken = True
        try:
            return (yield from steps)
        except GeneratorExit:  # the broker stops, so waiting jobs do not continue
            self._waiting.clear()
            raise
        finally:
            self._is_taken = False
            if self._waiting:
                self._is_taken = True  # otherwise a job that arrives now would run first
                self._waiting.popleft()(None)
