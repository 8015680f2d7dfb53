"""A partition's log as share partitions see it: batches of records, aborted transactions and markers, compacted and deleted."""

from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import NamedTuple

RECORDS, ABORTED, MARKER = "records", "aborted", "marker"


class PlayedBatch(NamedTuple):
    """A batch of the log: its first and last offset, and what it holds."""

    base: int
    last: int
    kind: str


class PlayedShareLog:
    """The batches of a log, all of them committed."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.start = 0
        self.end = 0
        self.batches: list[PlayedBatch] = []
        self.kinds: dict[int, str] = {}
        """What each offset was when it was written."""
        self.removed: set[int] = set()
        """Offsets without a record any more."""

    def append(self) -> None:
        kind = self.random.choices((RECORDS, ABORTED, MARKER), (8, 1, 1))[0]
        count = 1 if kind == MARKER else self.random.choice((1, 1, 2, 5, 9))
        self.batches.append(PlayedBatch(self.end, self.end + count - 1, kind))
        self.kinds.update(dict.fromkeys(range(self.end, self.end + count), kind))
        self.end += count

    def compact(self) -> None:
        """Remove a batch that is not the last one."""
        if len(self.batches) > 1:
            gone = self.batches.pop(self.random.randrange(len(self.batches) - 1))
            self.removed.update(range(gone.base, gone.last + 1))

    def delete(self, offset: int) -> None:
        """Delete all records before an offset, and the batches that hold no later one."""
        self.start = max(self.start, offset)
        self.batches = [batch for batch in self.batches if batch.last >= self.start]
        self.removed.update(each for each in self.kinds if each < self.start)

    def read(self, offset: int, count: int) -> list[PlayedBatch]:
        """Read so many batches, from the one with this offset on, or from the next one."""
        at = bisect_left(self.batches, offset, key=lambda batch: batch.last)
        return self.batches[at : at + count]
