"""The operations of one process on its host's registry: reads, commits, and the rows of sessions. All of them block on the disk.

The module uses the tables, and no threads. It has the callbacks for each entry's next change, the watches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from ottla.net.sqlite.draft import CommitDraft
from ottla.net.sqlite.tables import FILE, entry_of, error_of, open_tables
from ottla.ports import Change, Condition, Entry, RegistryAway, RegistryDamaged, RegistryRefused, StorageFailed

T = TypeVar("T")
Entries = list[Entry | None]
Names = list[list[str] | None]
Results = list[T]
MOST_BYTES: Final = 1 << 20
"""The size limit of one commit, in bytes. It is ZooKeeper's limit, so that a registry can be copied to ZooKeeper."""


class SessionRow(NamedTuple):
    """A session's row. `name` is the name of its process's files, and `pid` the process's id.

    `until_ms` is the monotonic time when the session expires without another heartbeat.
    """

    number: int
    name: str
    pid: int
    until_ms: int


class Touched(NamedTuple):
    """A change of an entry for which watches must be called, with the number of the transaction that made the change."""

    number: int
    kind: str
    path: str


class SessionOver(RegistryAway):
    """The session was ended by another process, after a timeout without heartbeats."""


class RegistryStore:
    """One connection to the registry's file.

    All methods raise `RegistryAway` while the registry is unusable, and `StorageFailed` if it is damaged.
    """

    def __init__(self, directory: Path, busy_ms: int) -> None:
        """Open the registry in `directory`. Raises `RegistryDamaged` and `RegistryAway`."""
        self.file = directory / FILE
        self._database = open_tables(self.file, busy_ms)

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._database.close()

    def read(self, paths: Sequence[str]) -> tuple[int, Entries]:
        """Return (the number of the last visible transaction, the entries at `paths`)."""

        def one(path: str) -> Entry | None:
            sql = "SELECT path, value, version, created, crc FROM entry WHERE path = ?"
            row = self._database.execute(sql, (path,)).fetchone()
            return None if row is None else entry_of(*row)

        return self._read(paths, one)

    def list(self, paths: Sequence[str]) -> tuple[int, Names]:
        """Return (the number of the last visible transaction, the names of each entry's children)."""

        def one(path: str) -> list[str] | None:
            rows = self._database.execute("SELECT path FROM entry WHERE parent = ? ORDER BY path", (path,)).fetchall()
            is_there = rows or self._database.execute("SELECT 1 FROM entry WHERE path = ?", (path,)).fetchone()
            return [below.rpartition("/")[2] for (below,) in rows] if is_there else None

        return self._read(paths, one)

    def changes(self, since: int) -> tuple[int, Sequence[Touched] | None]:
        """Return (the number of the last transaction, the changes after transaction `since`).

        The second value is None if these changes are no longer stored.
        """
        with self._transaction("BEGIN"):
            last, forgotten = self._database.execute("SELECT transactions, forgotten FROM state").fetchone()
            if forgotten > since:
                return last, None
            rows = self._database.execute("SELECT number, kind, path FROM change WHERE number > ? ORDER BY rowid", (since,))
            return last, [Touched(*row) for row in rows]

    def commit(self, session: int, changes: Sequence[Change | Condition]) -> bool:
        """Make all changes or none. Return whether anything was changed.

        Raises the exceptions of `SharedRegistry.commit`, and `SessionOver` if the session has ended.
        """
        size = sum(len(each.path) + len(each.value or b"") for each in changes if isinstance(each, Change))
        if size > MOST_BYTES:
            raise RegistryRefused(changes[0].path, f"a change of {size} bytes exceeds the registry's maximum of {MOST_BYTES}")
        with self._transaction("BEGIN IMMEDIATE"):
            if self._database.execute("SELECT 1 FROM session WHERE id = ?", (session,)).fetchone() is None:
                raise SessionOver("the registry", "the session has expired")
            draft = CommitDraft(self._database, session)
            for each in changes:
                draft.apply(each)
            return draft.note()

    # --- sessions

    def sessions(self) -> Sequence[SessionRow]:
        with self._transaction("BEGIN"):
            return [SessionRow(*row) for row in self._database.execute("SELECT id, name, pid, until_ms FROM session")]

    def begin_session(self, name: str, pid: int, until_ms: int) -> int:
        with self._quickly(), self._transaction("BEGIN IMMEDIATE"):
            sql = "INSERT INTO session (name, pid, until_ms) VALUES (?, ?, ?)"
            return self._database.execute(sql, (name, pid, until_ms)).lastrowid or 0

    def keep_up(self, session: int, until_ms: int) -> bool:
        """Extend a session's lifetime. Return whether the session still exists."""
        with self._quickly(), self._transaction("BEGIN IMMEDIATE"):
            return self._database.execute("UPDATE session SET until_ms = ? WHERE id = ?", (until_ms, session)).rowcount == 1

    def end_sessions(self, is_over: Callable[[SessionRow], bool]) -> bool:
        """End the sessions for which `is_over` returns True. Return whether an ephemeral entry was removed."""
        with self._quickly(), self._transaction("BEGIN IMMEDIATE"):
            draft = CommitDraft(self._database, None)
            for row in self._database.execute("SELECT id, name, pid, until_ms FROM session").fetchall():
                if is_over(SessionRow(*row)):
                    draft.end_session(row[0])
            return draft.note()

    def _read(self, paths: Sequence[str], one: Callable[[str], T]) -> tuple[int, Results[T]]:
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
            meaning = error_of(self.file, error)
            if isinstance(meaning, RegistryDamaged):
                raise StorageFailed("the registry", str(meaning)) from error
            raise meaning from error

    @contextmanager
    def _quickly(self) -> Iterator[None]:
        """Write without a sync, within this context manager.

        After a power cut no session is alive, and the next sync includes everything written before.
        """
        self._database.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._database.execute("PRAGMA synchronous = FULL")


Changed = Callable[[str], None]
Watched = tuple[str, str]
"""(kind of watch, path)"""


class WatchTable:
    """The watches of one process.

    Each watch is called once, for the first change after the transaction that its reader has seen.
    """

    def __init__(self) -> None:
        self._watches: dict[Watched, dict[Changed, int]] = {}

    def leave(self, kind: str, paths: Sequence[str], changed: Changed, seen: int) -> None:
        """Add watches of a reader that has seen the transaction `seen`. If an equal watch exists, keep only the existing one."""
        for path in paths:
            self._watches.setdefault((kind, path), {}).setdefault(changed, seen)

    def pop_touched(self, changes: Sequence[Touched]) -> Iterator[tuple[Changed, str]]:
        """Remove and yield the watches that these changes affect, in order."""
        for number, kind, path in changes:
            watches = self._watches.get((kind, path), {})
            due = [changed for changed, seen in watches.items() if seen < number]
            for changed in due:
                del watches[changed]
                yield changed, path
            if due and not watches:
                del self._watches[kind, path]

    def all(self) -> Iterator[tuple[Changed, str]]:
        """Remove and yield every watch, because changes may have been missed."""
        watches, self._watches = self._watches, {}
        for (_, path), waiting in watches.items():
            for changed in waiting:
                yield changed, path
