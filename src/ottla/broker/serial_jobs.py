"""Jobs that must not overlap, one after the other. Knows nothing of what they do."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from ottla.ports import Done, Steps

T = TypeVar("T")


class InTurn:
    """Has jobs wait for those that came before them."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: deque[Done] = deque()

    def steps(self, steps: Steps[T]) -> Steps[T]:
        """Take these steps when all others before are over, and have others wait for them."""
        if self._is_taken:
            yield self._waiting.append
        self._is_taken = True
        try:
            return (yield from steps)
        except GeneratorExit:  # the broker ends: nobody goes on
            self._waiting.clear()
            raise
        finally:
            self._is_taken = False
            if self._waiting:
                self._is_taken = True  # or somebody who comes between would go first
                self._waiting.popleft()(None)
