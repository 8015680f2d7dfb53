"""The rewriting of a journal that consists mostly of outdated commits, in small steps. It uses the disk port and `lines`.

During a rewriting, each commit to the current journal is followed by one step. The new journal is written to files beside the
current ones, with names that end with `.tmp`. It contains the entries at the beginning of the rewriting, and then the commits made
since. When all but the last few of these are on stable storage, the files get their final names: first the file in the first
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
"""The size, in bytes, up to which a journal's commits never cause a rewrite."""

STEP_ENTRIES = 128
"""The number of entries that one step writes to the new journal."""

STEP_COMMITS = 4
"""The number of commits that one step writes to the new journal, after all entries are written."""

STEP_BYTES = 64 << 10
"""The approximate size of one step, in bytes, because entries can be large.

After a commit of more than half this size, a step is twice as large as the commit.
"""


class NewJournal:
    """A journal that is being written to replace the current one. `number` is the count of commits before it was begun."""

    def __init__(self, disk: Disk, number: int, tree: Tree) -> None:
        """Create the files of a new journal and write the first line. `tree` must not change afterwards. Raises `StorageFailed`."""
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

    def step(self, size: int) -> bool:
        """Write some entries, or some commits if all entries are written. Return whether all commits are written.

        `size` is the size, in bytes, of the latest commit to the current journal. Raises `StorageFailed`.
        """
        some, left = list[object](), max(STEP_BYTES, 2 * size)
        if self._has_entries:
            while self.commits and len(some) < STEP_COMMITS and left > 0:
                number, changes = self.commits.popleft()
                some.append(lines.commit(number, changes))
                left -= sum(len(change.path) + len(change.value or b"") for change in changes)
            self._add(some)
            return not self.commits
        for path, node in islice(self._entries, STEP_ENTRIES):
            some.append(lines.entry(path, node))
            left -= len(path) + len(node.value)
            if left <= 0:
                break
        self._add(some)
        self.base = self.end
        self._has_entries = len(some) < STEP_ENTRIES and left > 0
        return False

    def publish(self, disk: Disk) -> None:
        """Complete the new journal and make it the newest. Raises `StorageFailed`.

        The remaining commits and the zeros are appended, the files are synced, and they get their final names.
        """
        self._add([lines.commit(number, changes) for number, changes in self.commits])
        for file in self._files:
            file.append([bytes(ROOM_BYTES)])
            file.sync()
            file.close()
        self.is_published = True  # set early: a rename whose sync fails may have been made
        for directory in DIRECTORIES:
            disk.rename(f"{directory}/{self.name}.tmp", f"{directory}/{self.name}")

    def discard(self, disk: Disk) -> None:
        """Remove the files. If the disk refuses to remove a file, the next start removes the file."""
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
    """The decision when to replace the registry's journal by a shorter one, and the work of writing it, in steps.

    `end` is the size of the current journal in bytes, and `base` the size of its first line and entries.
    """

    def __init__(self, disk: Disk, tree: Tree, base: int, end: int) -> None:
        self._disk = disk
        self._tree = tree
        self._limit = base + max(base, LEAST_BYTES)
        self._end = end
        self._new: NewJournal | None = None
        self._is_written = False
        self._is_synced = False

    def step(self, number: int, changes: Sequence[Change], size: int) -> NewJournal | None:
        """Write the next part of a new journal, after commit `number` of `size` bytes to the current journal.

        Return the new journal once it is ready to be published. Otherwise return None.
        """
        self._end += size
        try:
            return self._step(number, changes, size)
        except StorageFailed as failure:
            self.abandon(failure)
            return None

    def abandon(self, failure: StorageFailed) -> None:
        """Discard the new journal. The next attempt begins after the current journal has grown by `LEAST_BYTES`."""
        log.warning("the registry's journal could not be rewritten: %s; it grows until the next attempt", failure)
        self._limit = self._end + LEAST_BYTES
        self.stop()

    def stop(self) -> None:
        """Discard an unfinished new journal."""
        new, self._new = self._new, None
        if new is not None and not new.is_published:
            new.discard(self._disk)

    def _step(self, number: int, changes: Sequence[Change], size: int) -> NewJournal | None:
        if self._new is None:
            if self._end > self._limit:
                self._new = NewJournal(self._disk, number, self._tree.fork())
                self._is_written = self._is_synced = False
            return None
        self._new.commits.append((number, changes))
        if self._is_synced:
            ready, self._new = self._new, None
            return ready
        if not self._is_written and self._new.step(size):
            self._is_written = True
            new = self._new
            self._disk.sync_soon(new.files, lambda failure: self._on_synced(new, failure))
        return None

    def _on_synced(self, new: NewJournal, failure: StorageFailed | None) -> None:
        if new is not self._new:
            return
        if failure is not None:
            self.abandon(failure)
        else:
            self._is_synced = True
