"""How a log says that it had to look at more than one call may. Knows nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.ports import TryAgain

T = TypeVar("T")


class Unfinished(TryAgain):
    """Part of what a call needs is done, and nobody has to wait for the rest at once: called again, it goes on.

    `go_on` does the next part; `cost` is what that costs beside what is counted elsewhere, and a thousand are half a millisecond.
    """

    def __init__(self, path: str, go_on: Callable[[], None], cost: int = 0) -> None:
        super().__init__(path, "more has to be looked at than may be at once; call it again.")
        self.go_on = go_on
        self.cost = cost


def finished(look: Callable[[], T]) -> T:
    """Return what `look` returns, called as often as that takes: for whoever keeps nobody waiting."""
    while True:
        try:
            return look()
        except Unfinished as unfinished:
            unfinished.go_on()
