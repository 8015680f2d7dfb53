"""Beginning a journal anew when most of it tells of what is no more, a little with each commit. Knows the disk port and lines.

The new journal is written beside the one in use, under names that end with `.tmp`, from the entries as they were when it was begun.
The commits made since follow. When all but the last few of these are on stable storage it gets its name: first in the first
directory.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from itertools import islice

from ottla.ports import Change, Disk, File, StorageFailed
from ottla.registry import lines
from ottla.registry.generations import DIRECTORIES, ROOM_BYTES, journal_name
from ottla.registry.tree import Tree

log = logging.getLogger("ottla.registry")

LEAST_BYTES = 1 << 20
"""Commits that a journal may always hold before it is begun anew."""

STEP_ENTRIES = 128
"""Entries that go into the new journal with each commit."""

STEP_COMMITS = 4
"""Commits that follow them with each."""


class NewJournal:
    """A journal that is being written. `number` is how many commits came before its entries were taken."""

    def __init__(self, disk: Disk, number: int, tree: Tree) -> None:
        """`tree` must not be changed by anybody."""
        self.number = number
        self.chain = 0
        self.end = 0
        self.base = 0
        self.is_published = False
        self.commits: deque[tuple[int, Sequence[Change]]] = deque()
        self._has_entries = False
        self._entries = tree.entries()
        self._files: list[File] = [disk.open(f"{directory}/{self.name}.tmp", create=True) for directory in DIRECTORIES]
        self._add([lines.head(number, len(tree))])

    @property
    def name(self) -> str:
        return journal_name(self.number)

    @property
    def files(self) -> list[File]:
        return self._files

    def step(self) -> bool:
        """Write some entries, or when all are written some of the commits; True if none is left. Raises `StorageFailed`."""
        if self._has_entries:
            self._add([lines.commit(*self.commits.popleft()) for _ in range(min(STEP_COMMITS, len(self.commits)))])
            return not self.commits
        some = [lines.entry(path, node) for path, node in islice(self._entries, STEP_ENTRIES)]
        self._add(some)
        self.base = self.end
        self._has_entries = len(some) < STEP_ENTRIES
        return False

    def publish(self, disk: Disk) -> None:
        """Add the last commits, and let this be the newest journal. Raises `StorageFailed`."""
        self._add([lines.commit(number, changes) for number, changes in self.commits])
        for file in self._files:
            file.append([bytes(ROOM_BYTES)])
            file.sync()
            file.close()
        self.is_published = True  # perhaps: a rename that could not be synced may have been made
        for directory in DIRECTORIES:
            disk.rename(f"{directory}/{self.name}.tmp", f"{directory}/{self.name}")

    def discard(self, disk: Disk) -> None:
        """Remove it. What the disk refuses is removed by the next start."""
        for file in self._files:
            file.close()
        for directory in DIRECTORIES:
            path = f"{directory}/{self.name}.tmp"
            try:
                if disk.exists(path):
                    disk.remove(path)
            except StorageFailed as failure:
                log.warning("an unfinished journal of the registry could not be removed: %s", failure)

    def _add(self, values: Sequence[object]) -> None:
        parts = []
        for value in values:
            text, self.chain = lines.write(value, self.chain)
            parts.append(text)
        content = b"".join(parts)
        for file in self._files:
            file.append([content])
        self.end += len(content)


class Renewal:
    """When a journal is begun anew, and how far that is. `base` bytes of the journal in use are entries, `end` all it has."""

    def __init__(self, disk: Disk, tree: Tree, base: int, end: int) -> None:
        self._disk = disk
        self._tree = tree
        self._limit = base + max(base, LEAST_BYTES)
        self._end = end
        self._new: NewJournal | None = None
        self._is_written = False
        self._is_synced = False

    def go_on(self, number: int, changes: Sequence[Change], size: int) -> NewJournal | None:
        """A commit was made: do a little. Returns the new journal when it can be published; from then on it is the one in use."""
        self._end += size
        try:
            return self._go_on(number, changes)
        except StorageFailed as failure:
            self.gave_up(failure)
            return None

    def gave_up(self, failure: StorageFailed) -> None:
        """Try again when the journal has grown by as much again."""
        log.warning("the registry's journal could not be begun anew: %s; it grows on until it can", failure)
        self._limit = self._end + LEAST_BYTES
        self.stop()

    def stop(self) -> None:
        """Give up what is unfinished."""
        new, self._new = self._new, None
        if new is not None and not new.is_published:
            new.discard(self._disk)

    def _go_on(self, number: int, changes: Sequence[Change]) -> NewJournal | None:
        if self._new is None:
            if self._end > self._limit:
                self._new = NewJournal(self._disk, number, self._tree.fork())
                self._is_written = self._is_synced = False
            return None
        self._new.commits.append((number, changes))
        if self._is_synced:
            ready, self._new = self._new, None
            return ready
        if not self._is_written and self._new.step():
            self._is_written = True
            new = self._new
            self._disk.sync_soon(new.files, lambda failure: self._synced(new, failure))
        return None

    def _synced(self, new: NewJournal, failure: StorageFailed | None) -> None:
        if new is not self._new:
            return
        if failure is not None:
            self.gave_up(failure)
        else:
            self._is_synced = True
