"""The exceptions of a log: its synced data cannot be read, or a read needs more work than one call may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.ports import StorageFailed, TryAgain

T = TypeVar("T")


class Unfinished(TryAgain):
    """Raised when a call has done only a part of its work, so that other work can run before the call is repeated.

    Call `go_on` to do the next part. `cost` is the cost of `go_on` as far as no counter includes it: 1000 is half a millisecond.
    """

    def __init__(self, path: str, go_on: Callable[[], None], cost: int = 0) -> None:
        super().__init__(path, "the search exceeds its limit of one call; call it again.")
        self.go_on = go_on
        self.cost = cost


def finish(look: Callable[[], T]) -> T:
    """Call `look` until it no longer raises `Unfinished`, and return its result. This can block the thread for long."""
    while True:
        try:
            return look()
        except Unfinished as unfinished:
            unfinished.go_on()


class Damaged(StorageFailed):
    """Synced data cannot be read any more. The partition goes offline, and its files are left unchanged.

    `path` is the partition's directory, `file` the damaged file in it, `position` the byte at which the damage begins, and
    `sentence` describes the damage.
    """

    def __init__(self, path: str, file: str, position: int, sentence: str) -> None:
        super().__init__(
            f"{path}/{file}",
            f"at byte {position}: {sentence} Restore the file, or cut out the unreadable part with `ottla log check --repair`.",
        )
        self.path = path
        self.file = file
        self.position = position
        self.sentence = sentence


class Astray(Damaged):
    """Raised when an index entry does not point to the end of its batch, so that either the index or the batch is wrong."""


class Vanished(StorageFailed):
    """Raised when the files of an open log were removed, so that appends would be lost."""
