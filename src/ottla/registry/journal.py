"""A registry kept twice on a disk: two directories that hold the same journal. Knows the disk port; decides nothing about entries.

A commit is one sync of the first journal, on an idle SSD 0.2 ms in the median, on the caller's thread or beside it. It is written
once the one before is durable or was given up. The copy is synced behind it. A journal that has grown to a multiple of what it
tells is begun anew, a little with each commit.
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
"""Journals that are kept in each directory: the one in use, and the one before."""


class JournalRegistry:
    """Implements `ottla.ports.Registry` on a disk; every change is durable when its call returns.

    One process owns the disk (the data directory's lock sees to it) and is its session: ephemeral entries are removed when the
    registry is closed, and those left by a killed process when it is opened.

    After a failed sync everything but reading raises `StorageFailed`, as nobody knows what is durable: until the next start.
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
        """Open the registry on this disk, or begin one, with these entries if any.

        What a crash left torn and what is damaged in one of the directories is mended, and logged. Raises `StorageFailed`, and
        `RegistryDamaged` if it might be that acknowledged changes are lost; nothing is changed then.
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
        yield from self._tree.let_go(written.undo)

    def close(self) -> None:
        """End the session; nothing may be asked afterwards."""
        self._renewal.stop()
        try:
            self._finish_first()
            self._end_session()
        finally:
            self._pair.close()

    def _end_session(self) -> None:
        self.commit(removals(self._tree.ephemeral()))

    def _write(self, changes: Sequence[Change]) -> _Written:
        """Make the changes in memory and write them to the first journal: to be synced. What is under way is finished before."""
        self._finish_first()
        number = self._commits + 1
        undo = self._tree.commit(changes)
        try:
            line, chain = lines.write(lines.commit(number, changes), self._chain)
            is_modest = any(change.value is None or change.ephemeral for change in changes)
            self._pair.write(line, may_use_spare=is_modest)
        except BaseException:
            self._tree.undo(undo)
            raise
        return _Written(number, chain, changes, line, undo)

    def _finish_first(self) -> None:
        """Wait for what is under way, on the caller's thread. A failure is told to whoever began it."""
        written, self._under_way = self._under_way, None
        if written is not None:
            with suppress(StorageFailed):
                self._finish(written, _outcome(self._pair.first.sync))

    def _finish(self, written: _Written, failure: StorageFailed | None) -> None:
        """It is on stable storage in the first journal, or that failed. Raises `StorageFailed`, and then it was not made."""
        try:
            self._pair.finish(written.line, written.number, failure)
        except StorageFailed as refused:
            written.failure = refused
            self._tree.undo(written.undo)
            raise
        self._commits, self._chain = written.number, written.chain
        ready = self._renewal.go_on(written.number, written.changes, len(written.line))
        if ready is not None:
            self._change_over(ready)

    def _change_over(self, new: NewJournal) -> None:
        """Use the new journal from now on, if the disk lets us."""
        try:
            new.publish(self._disk)
            pair = _Pair(self._disk, new.number, new.end, self._count)
        except StorageFailed as failure:
            self._renewal.gave_up(failure)
            if new.is_published:
                self._pair.fail(failure)  # the next start reads the new one, so that nothing may go to the old one any more
            return
        old, self._pair = self._pair, pair
        chain, self._chain = self._chain, new.chain
        self._renewal = Renewal(self._disk, self._tree, new.base, new.end)
        old.retire(lines.write(lines.continued(new.number), chain)[0])
        forget(self._disk, KEPT)


@dataclass(slots=True)
class _Written:
    """A commit that is written and not yet finished; `failure` is why it was not made."""

    number: int
    chain: int
    changes: Sequence[Change]
    line: bytes
    undo: Undo
    failure: StorageFailed | None = None


def _outcome(sync: Callable[[], None]) -> StorageFailed | None:
    try:
        sync()
    except StorageFailed as failure:
        return failure
    return None


class _Pair:
    """The journal in use, twice."""

    def __init__(self, disk: Disk, number: int, end: int, count: CommitCount) -> None:
        self._disk = disk
        self.first: File = disk.open(f"{FIRST}/{journal_name(number)}")
        self._copy: File = disk.open(f"{COPY}/{journal_name(number)}")
        self._count = count
        self._end = end
        self._room = min(self.first.size, self._copy.size)
        """As far as both files reach on stable storage."""
        self._failure: StorageFailed | None = None
        self._is_syncing = False
        self._is_behind = False
        self._is_closed = False

    def count_up_to(self, commits: int) -> None:
        """Let the count say what the journals hold: a killed process may have left some of it in memory. Raises `StorageFailed`."""
        if not self._count.says(commits):
            self.first.sync()
            self._count.note(commits)

    def write(self, line: bytes, *, may_use_spare: bool) -> None:
        """Write a commit to the first, which is to be synced before `finish`. Raises `StorageFailed`, and then it is in neither."""
        if self._failure is not None:
            sentence = f"a change failed before ({self._failure.reason}), and nobody knows what is on the disk: restart the broker"
            raise StorageFailed(self.first.path, sentence)
        self._make_room(len(line), may_use_spare=may_use_spare)
        try:
            self.first.write(self._end, line)
        except StorageFailed as failure:
            self._take_back(len(line), failure)
            raise

    def finish(self, line: bytes, number: int, failure: StorageFailed | None) -> None:
        """The first was synced, or that failed: commit `number` is durable and written in the copy on return.

        Raises `StorageFailed`, and then it is in neither.
        """
        try:
            if failure is not None:
                raise failure
            self._copy.write(self._end, line)
        except StorageFailed as refused:
            self._take_back(len(line), refused)
            raise
        self._end += len(line)
        self._count.note(number)
        self._sync_copy()

    def fail(self, failure: StorageFailed) -> None:
        """Take nothing any more."""
        self._failure = failure

    def close(self) -> None:
        try:
            if self._failure is None:
                for file in self._behind():
                    file.sync()
        finally:
            self._let_go()
            self._count.close()

    def retire(self, line: bytes) -> None:
        """Say that a newer journal follows, as far as there is room for that, and close."""
        try:
            for file in (self.first, self._copy):
                if file.size >= self._end + len(line):
                    file.write(self._end, line)
        except StorageFailed as failure:
            log.warning("an old journal of the registry could not be marked as such: %s", failure)
        self._let_go()

    def _let_go(self) -> None:
        self._is_closed = True
        self.first.close()
        self._copy.close()

    def make_room_slowly(self, size: int) -> CommitSteps:
        """Keep room ahead. What the disk refuses is refused again when the room is needed."""
        if self._room < self._end + size + SPARE_BYTES:
            with suppress(StorageFailed):
                sizes = self._extend(size)
                if (yield partial(self._disk.sync_soon, [self.first, self._copy])) is None:
                    self._room = max(self._room, sizes)

    def _make_room(self, size: int, *, may_use_spare: bool) -> None:
        """Keep room ahead. A full disk refuses what makes the registry larger, and goes on with what removes entries or begins a
        session."""
        if self._room >= self._end + size + SPARE_BYTES:
            return
        try:
            sizes = self._extend(size)
            for file in (self.first, self._copy):
                file.sync()  # a journal without room is taken for one that was cut
            self._room = sizes
        except StorageFailed:
            if not may_use_spare or self._room <= self._end + size:
                raise

    def _extend(self, size: int) -> int:
        """Have both files extended with zeros, which are to be synced; returns how large both are at least."""
        wanted = self._end + size + SPARE_BYTES + ROOM_BYTES
        for file in (self.first, self._copy):
            if file.size < wanted:
                file.write(file.size, bytes(wanted - file.size))
        return min(self.first.size, self._copy.size)

    def _take_back(self, size: int, failure: StorageFailed) -> None:
        try:
            for file in (self._copy, self.first):
                file.write(self._end, bytes(size))
            self.first.sync()
        except StorageFailed:
            self._failure = failure

    def _behind(self) -> list[File]:
        """What is synced behind a commit."""
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
                "the registry's copy and count could not be synced: %s; the next start looks at them",
                failure,
                extra={"cause": "copy"},
            )
        elif behind and not self._is_closed:
            self._sync_copy()
