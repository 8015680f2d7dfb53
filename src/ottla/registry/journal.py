"""A registry that is stored twice on a disk: two directories contain the same journal.

The module uses the disk port, and does not depend on the meaning of entries. A commit syncs the first journal once, on the caller's
thread or in the background. On an idle SSD the sync takes 0.2 ms in the median. A commit is written after the previous one is
durable or was undone. The copy is synced after the commit. A journal that has grown to a multiple of its entries is rewritten in
small steps, one with each commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ottla.ports import Change, CommitSteps, Disk, Entry, File, StorageFailed
from ottla.registry import lines
from ottla.registry.count import CommitCount
from ottla.registry.generations import (
    COPY,
    FIRST,
    ROOM_BYTES,
    SPARE_BYTES,
    begin,
    find,
    forget,
    journal_name,
    mend,
    remove_unfinished,
)
from ottla.registry.renewal import NewJournal, Renewal
from ottla.registry.tree import Tree, Undo, removals

log = logging.getLogger("ottla.registry")

KEPT = 2
"""The number of journals kept in each directory: the current journal and its predecessor."""


class JournalRegistry:
    """Implements `ottla.ports.Registry` on a disk. Every change is durable when its call returns.

    One process owns the disk by the lock of the data directory, and is the only session. Ephemeral entries are removed when the
    registry is closed, or opened after a kill.

    If a sync failed and could not be undone, the durable state is unknown. Every commit then raises `StorageFailed` until the next
    start, but reading still works.
    """

    def __init__(self, disk: Disk, tree: Tree, number: int, commits: int, end: int, chain: int, base: int) -> None:
        self._disk = disk
        self._tree = tree
        self._commits = commits
        self._chain = chain
        self._count = CommitCount(disk)
        self._pair = _Pair(disk, number, end, self._count)
        self._pair.count_up_to(commits)
        self._under_way: _Written | None = None
        self._renewal = Renewal(disk, tree, base, end)

    @classmethod
    def open(cls, disk: Disk, given: Tree | None = None) -> JournalRegistry:
        """Open the registry on this disk. If there is none, create it with the entries of `given`.

        A line that a crash has torn is repaired and logged, and so is damage in one of the directories. Raises `StorageFailed`.
        Raises `RegistryDamaged`, before any change, if acknowledged changes might be lost.
        """
        found = find(disk)
        if found is None:
            tree = Tree() if given is None else given
            end, chain = begin(disk, tree, 0)
            registry = cls(disk, tree, 0, 0, end, chain, end)
        else:
            mend(disk, found)
            best = found.best
            registry = cls(disk, best.tree, found.number, best.commits, best.end, best.chain, best.base)
        remove_unfinished(disk)
        registry._end_session()
        return registry

    @property
    def commits(self) -> int:
        return self._commits

    def get(self, path: str) -> Entry | None:
        return self._tree.get(path)

    def children(self, path: str) -> list[str]:
        return self._tree.children(path)

    def commit(self, changes: Sequence[Change]) -> None:
        if changes:
            written = self._write(changes)
            self._finish(written, _outcome(self._pair.first.sync))

    def commit_slowly(self, changes: Sequence[Change]) -> CommitSteps:
        if not changes:
            return
        yield from self._pair.make_room_slowly(lines.most_bytes(changes))
        written = self._under_way = self._write(changes)
        failure = yield partial(self._disk.sync_soon, [self._pair.first])
        if written is self._under_way:
            self._under_way = None
            self._finish(written, failure)
        elif written.failure is not None:
            raise written.failure
        yield from self._tree.free_removed(written.undo)

    def close(self) -> None:
        """End the session. No method may be called afterwards."""
        self._renewal.stop()
        try:
            self._finish_first()
            self._end_session()
        finally:
            self._pair.close()

    def _end_session(self) -> None:
        self.commit(removals(self._tree.ephemeral()))

    def _write(self, changes: Sequence[Change]) -> _Written:
        """Apply the changes in memory, and write them to the first journal without a sync. A commit in progress is finished before.

        Raises the `StorageFailed` of the commit in progress, because the changes were decided upon entries that it takes back.
        """
        failure = self._finish_first()
        if failure is not None:
            self._pair.check()
            raise failure
        number = self._commits + 1
        undo = self._tree.commit(changes)
        try:
            line, chain = lines.write(lines.commit(number, changes), self._chain)
            self._pair.write(line, may_use_spare=_spare_for(changes))
        except BaseException:
            self._tree.undo(undo)
            raise
        return _Written(number, chain, changes, line, undo)

    def _finish_first(self) -> StorageFailed | None:
        """Finish a commit in progress on the caller's thread. Return its failure, which its own `commit_slowly` raises as well."""
        written, self._under_way = self._under_way, None
        if written is None:
            return None
        with suppress(StorageFailed):
            self._finish(written, _outcome(self._pair.first.sync))
        return written.failure

    def _finish(self, written: _Written, failure: StorageFailed | None) -> None:
        """Complete a commit after the sync of the first journal. Raises `StorageFailed` if the commit failed and was undone."""
        try:
            self._pair.finish(written.line, written.number, failure)
        except StorageFailed as refused:
            written.failure = refused
            self._tree.undo(written.undo)
            raise
        self._commits, self._chain = written.number, written.chain
        ready = self._renewal.step(written.number, written.changes, len(written.line))
        if ready is not None:
            self._change_over(ready)

    def _change_over(self, new: NewJournal) -> None:
        """Use the new journal for later commits, unless the disk fails while it is published."""
        try:
            new.publish(self._disk)
            pair = _Pair(self._disk, new.number, new.end, self._count)
        except StorageFailed as failure:
            self._renewal.abandon(failure)
            if new.is_published:
                self._pair.fail(failure)  # the next start reads the new journal, so nothing may be written to the old one
            return
        old, self._pair = self._pair, pair
        chain, self._chain = self._chain, new.chain
        self._renewal = Renewal(self._disk, self._tree, new.base, new.end)
        old.retire(lines.write(lines.successor_line(new.number), chain)[0])
        forget(self._disk, KEPT)


@dataclass(slots=True)
class _Written:
    """A commit that is written but not finished. `failure` is the reason why it was undone, or None."""

    number: int
    chain: int
    changes: Sequence[Change]
    line: bytes
    undo: Undo
    failure: StorageFailed | None = None


def _spare_for(changes: Sequence[Change]) -> int:
    """Return how many bytes of reserved space a commit may use.

    Commits that remove entries or begin a session may use all of it, commits with `may_use_spare` half of it, others none.
    """
    if any(change.value is None or change.ephemeral for change in changes):
        return SPARE_BYTES
    return SPARE_BYTES // 2 if any(change.may_use_spare for change in changes) else 0


def _outcome(sync: Callable[[], None]) -> StorageFailed | None:
    try:
        sync()
    except StorageFailed as failure:
        return failure
    return None


class _Pair:
    """The two files of the current journal: the first one and its copy."""

    def __init__(self, disk: Disk, number: int, end: int, count: CommitCount) -> None:
        self._disk = disk
        self.first: File = disk.open(f"{FIRST}/{journal_name(number)}")
        self._copy: File = disk.open(f"{COPY}/{journal_name(number)}")
        self._count = count
        self._end = end
        self._room = min(self.first.size, self._copy.size)
        """The size, in bytes, that both files are known to have on stable storage."""
        self._failure: StorageFailed | None = None
        self._is_syncing = False
        self._is_behind = False
        self._is_closed = False

    def count_up_to(self, commits: int) -> None:
        """Raise the count to number `commits`, the last commit in the journals. Raises `StorageFailed`.

        A killed process can have left commits unsynced, so the first journal is synced before.
        """
        if not self._count.contains(commits):
            self.first.sync()
            self._count.note(commits)

    def check(self) -> None:
        """Raise `StorageFailed` if nothing can be written until the broker's restart."""
        if self._failure is not None:
            sentence = f"a change failed before ({self._failure.reason}), and what is on the disk is unknown: restart the broker"
            raise StorageFailed(self.first.path, sentence)

    def write(self, line: bytes, *, may_use_spare: int) -> None:
        """Write a commit to the first journal, without the sync that must precede `finish`.

        Raises `StorageFailed`; then neither journal has the commit.
        """
        self.check()
        self._make_room(len(line), may_use_spare=may_use_spare)
        try:
            self.first.write(self._end, line)
        except StorageFailed as failure:
            self._undo_write(len(line), failure)
            raise

    def finish(self, line: bytes, number: int, failure: StorageFailed | None) -> None:
        """Write commit `number` to the copy and to the count, after the sync of the first journal.

        `failure` is the failure of that sync, or None. Raises `StorageFailed`; then neither journal has the commit.
        """
        try:
            if failure is not None:
                raise failure
            self._copy.write(self._end, line)
        except StorageFailed as refused:
            self._undo_write(len(line), refused)
            raise
        self._end += len(line)
        self._count.note(number)
        self._sync_copy()

    def fail(self, failure: StorageFailed) -> None:
        """Make every later commit raise `failure`."""
        self._failure = failure

    def close(self) -> None:
        try:
            if self._failure is None:
                for file in self._behind():
                    file.sync()
        finally:
            self._close()
            self._count.close()

    def retire(self, line: bytes) -> None:
        """Append a line that says that a newer journal follows, if the files have space for it. Close the files."""
        try:
            for file in (self.first, self._copy):
                if file.size >= self._end + len(line):
                    file.write(self._end, line)
        except StorageFailed as failure:
            log.warning("an old journal of the registry could not be marked as such: %s", failure)
        self._close()

    def _close(self) -> None:
        self._is_closed = True
        self.first.close()
        self._copy.close()

    def make_room_slowly(self, size: int) -> CommitSteps:
        """Extend the files of the journal before the next commit needs the space.

        Ignore a failure of the disk, because `write` raises it when the space is needed.
        """
        if self._room < self._end + size + SPARE_BYTES:
            with suppress(StorageFailed):
                sizes = self._extend(size)
                if (yield partial(self._disk.sync_soon, [self.first, self._copy])) is None:
                    self._room = max(self._room, sizes)

    def _make_room(self, size: int, *, may_use_spare: int) -> None:
        """Extend both files of the journal for a line of `size` bytes. Raises `StorageFailed`.

        On a full disk, changes that make the registry larger fail. Other changes can use up to `may_use_spare` bytes of the spare
        space that was reserved before.
        """
        if self._room >= self._end + size + SPARE_BYTES:
            return
        try:
            sizes = self._extend(size)
            for file in (self.first, self._copy):
                file.sync()  # a journal without zeros at its end counts as truncated
            self._room = sizes
        except StorageFailed:
            if self._room <= self._end + size + SPARE_BYTES - may_use_spare:
                raise

    def _extend(self, size: int) -> int:
        """Extend both files of the journal with zeros, without a sync. Return the size in bytes of the shorter file."""
        wanted = self._end + size + SPARE_BYTES + ROOM_BYTES
        for file in (self.first, self._copy):
            if file.size < wanted:
                file.write(file.size, bytes(wanted - file.size))
        return min(self.first.size, self._copy.size)

    def _undo_write(self, size: int, failure: StorageFailed) -> None:
        try:
            for file in (self._copy, self.first):
                file.write(self._end, bytes(size))
            self.first.sync()
        except StorageFailed:
            self._failure = failure

    def _behind(self) -> list[File]:
        """Return the files that the background syncs after a commit."""
        return [self._copy] if self._count.file is None else [self._copy, self._count.file]

    def _sync_copy(self) -> None:
        if self._is_syncing:
            self._is_behind = True
            return
        try:
            self._disk.sync_soon(self._behind(), self._copy_synced)
            self._is_syncing = True
        except StorageFailed as failure:
            self._copy_synced(failure)

    def _copy_synced(self, failure: StorageFailed | None) -> None:
        self._is_syncing = False
        behind, self._is_behind = self._is_behind, False
        if failure is not None:
            log.warning(
                "the registry's copy and count could not be synced: %s; the next start checks and repairs them",
                failure,
                extra={"cause": "copy"},
            )
        elif behind and not self._is_closed:
            self._sync_copy()
