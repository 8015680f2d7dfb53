"""What one process does with the registry of its host: reads, commits, and the rows of sessions. All of it waits for the disk.

Knows the tables; knows no threads and no watches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from ottla.net.sqlite.draft import CommitDraft
from ottla.net.sqlite.tables import FILE, entry_of, failed, opened
from ottla.ports import Change, Condition, Entry, RegistryAway, RegistryDamaged, StorageFailed

T = TypeVar("T")
Entries = list[Entry | None]
Names = list[list[str] | None]
Results = list[T]
MOST_BYTES: Final = 1 << 20
"""In one commit, as with ZooKeeper, so that a registry can be taken along there."""


class SessionRow(NamedTuple):
    """A session as the registry knows it: until when it lives unheard, and the name of its process's files."""

    number: int
    name: str
    pid: int
    until_ms: int


class Touched(NamedTuple):
    """A change that watches tell of, and the number of its transaction."""

    number: int
    kind: str
    path: str


class SessionOver(RegistryAway):
    """The session was ended by others, who had not heard of it for its timeout."""


class RegistryStore:
    """One connection. All raise `RegistryAway` while the registry can't be used, and `StorageFailed` where it is damaged."""

    def __init__(self, directory: Path, busy_ms: int) -> None:
        """Raises `RegistryDamaged` and `RegistryAway`."""
        self.file = directory / FILE
        self._database = opened(self.file, busy_ms)

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._database.close()

    def read(self, paths: Sequence[str]) -> tuple[int, Entries]:
        """(the number of the last transaction that is seen, the entries)."""

        def one(path: str) -> Entry | None:
            sql = "SELECT path, value, version, created, crc FROM entry WHERE path = ?"
            row = self._database.execute(sql, (path,)).fetchone()
            return None if row is None else entry_of(*row)

        return self._seen(paths, one)

    def list(self, paths: Sequence[str]) -> tuple[int, Names]:
        """(the number of the last transaction that is seen, the names of each one's children)."""

        def one(path: str) -> list[str] | None:
            rows = self._database.execute("SELECT path FROM entry WHERE parent = ? ORDER BY path", (path,)).fetchall()
            is_there = rows or self._database.execute("SELECT 1 FROM entry WHERE path = ?", (path,)).fetchone()
            return [below.rpartition("/")[2] for (below,) in rows] if is_there else None

        return self._seen(paths, one)

    def changes(self, since: int) -> tuple[int, Sequence[Touched] | None]:
        """(the number of the last transaction, what was changed after `since`, or None where that is not known any more)."""
        with self._transaction("BEGIN"):
            last, forgotten = self._database.execute("SELECT transactions, forgotten FROM state").fetchone()
            if forgotten > since:
                return last, None
            rows = self._database.execute("SELECT number, kind, path FROM change WHERE number > ? ORDER BY rowid", (since,))
            return last, [Touched(*row) for row in rows]

    def commit(self, session: int, changes: Sequence[Change | Condition]) -> bool:
        """Make all changes or none; says whether anything was changed.

        Raises what `SharedRegistry.commit` raises, `SessionOver` too.
        """
        size = sum(len(each.path) + len(each.value or b"") for each in changes if isinstance(each, Change))
        if size > MOST_BYTES:
            raise StorageFailed(changes[0].path, f"one change of {size} bytes is more than the registry takes, {MOST_BYTES}")
        with self._transaction("BEGIN IMMEDIATE"):
            if self._database.execute("SELECT 1 FROM session WHERE id = ?", (session,)).fetchone() is None:
                raise SessionOver("the registry", "the session has ended")
            draft = CommitDraft(self._database, session)
            for each in changes:
                draft.take(each)
            return draft.note()

    # Sessions

    def sessions(self) -> Sequence[SessionRow]:
        with self._transaction("BEGIN"):
            return [SessionRow(*row) for row in self._database.execute("SELECT id, name, pid, until_ms FROM session")]

    def begin_session(self, name: str, pid: int, until_ms: int) -> int:
        with self._quickly(), self._transaction("BEGIN IMMEDIATE"):
            sql = "INSERT INTO session (name, pid, until_ms) VALUES (?, ?, ?)"
            return self._database.execute(sql, (name, pid, until_ms)).lastrowid or 0

    def keep_up(self, session: int, until_ms: int) -> bool:
        """Have a session live until then; says whether it lives."""
        with self._quickly(), self._transaction("BEGIN IMMEDIATE"):
            return self._database.execute("UPDATE session SET until_ms = ? WHERE id = ?", (until_ms, session)).rowcount == 1

    def end_sessions(self, is_over: Callable[[SessionRow], bool]) -> bool:
        """End those that are over by now; says whether anything was changed by that."""
        with self._quickly(), self._transaction("BEGIN IMMEDIATE"):
            draft = CommitDraft(self._database, None)
            for row in self._database.execute("SELECT id, name, pid, until_ms FROM session").fetchall():
                if is_over(SessionRow(*row)):
                    draft.end_session(row[0])
            return draft.note()

    def _seen(self, paths: Sequence[str], one: Callable[[str], T]) -> tuple[int, Results[T]]:
        with self._transaction("BEGIN"):
            (number,) = self._database.execute("SELECT transactions FROM state").fetchone()
            return number, [one(path) for path in paths]

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        try:
            self._database.execute(begin)
            try:
                yield
                self._database.execute("COMMIT")
            finally:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
        except sqlite3.Error as error:
            meaning = failed(self.file, error)
            if isinstance(meaning, RegistryDamaged):
                raise StorageFailed("the registry", str(meaning)) from error
            raise meaning from error

    @contextmanager
    def _quickly(self) -> Iterator[None]:
        """Without a sync of its own: after a power cut no session lives, and the next sync is of everything before it, too."""
        self._database.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._database.execute("PRAGMA synchronous = FULL")
