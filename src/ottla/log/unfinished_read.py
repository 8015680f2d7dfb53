"""The exception of a log call that exceeds the limit of reads in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.ports import TryAgain

T = TypeVar("T")


class Unfinished(TryAgain):
    """A call has done only a part of its work. Another call continues it, and other work can run before that.

    `go_on` does the next part. `cost` is the cost of `go_on` that no other counter includes: 1000 is half a millisecond.
    """

    def __init__(self, path: str, go_on: Callable[[], None], cost: int = 0) -> None:
        super().__init__(path, "the search exceeds its limit of one call; call it again.")
        self.go_on = go_on
        self.cost = cost


def finished(look: Callable[[], T]) -> T:
    """Call `look` until it no longer raises `Unfinished`, and return its result. Only for callers that may block."""
    while True:
        try:
            return look()
        except Unfinished as unfinished:
            unfinished.go_on()
