"""The exception of a log call that has more to read than one call may."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.ports import TryAgain

T = TypeVar("T")


class Unfinished(TryAgain):
    """Part of the work of a call is done. The caller may do other work first: the next call continues.

    `go_on` does the next part; `cost` is its cost besides that counted elsewhere. A thousand are half a millisecond.
    """

    def __init__(self, path: str, go_on: Callable[[], None], cost: int = 0) -> None:
        super().__init__(path, "the search exceeds its limit of one call; call it again.")
        self.go_on = go_on
        self.cost = cost


def finished(look: Callable[[], T]) -> T:
    """Return the result of `look`, called as often as that takes, for a caller that may block."""
    while True:
        try:
            return look()
        except Unfinished as unfinished:
            unfinished.go_on()
