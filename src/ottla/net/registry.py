"""The registry of one broker: SQLite in the data directory. Knows SQL and one file; knows nothing of what the entries mean.

A commit blocks the broker's thread for one sync of the write-ahead log: on an idle SSD 0.2 ms in the median, 0.5 ms in the 99th
percentile. Creating, changing and deleting topics commits, and so does using up a block of producer ids; producing does not. An
entry takes about 8 µs to create and 2 µs to remove: thousands of them are best committed in parts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ottla.ports import NEW, Change, Entry, EntryExists, NoEntry, StorageFailed, VersionConflict

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (
    path TEXT PRIMARY KEY,
    parent TEXT NOT NULL,
    value BLOB NOT NULL,
    version INTEGER NOT NULL,
    ephemeral INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE INDEX IF NOT EXISTS by_parent ON entry (parent);
"""


class SQLiteRegistry:
    """Implements `ottla.ports.Registry` on the file at `path`; every change is durable when its call returns.

    One process owns the file (the data directory's lock sees to it) and is its session: ephemeral entries are removed when the
    registry is closed, and those left by a killed process when it is opened. Raises `StorageFailed`.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with self._failing():
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            with self._failing():
                self._database.execute("PRAGMA journal_mode = WAL")
                self._database.execute("PRAGMA synchronous = FULL")
                self._database.executescript(_SCHEMA)
            self._end_session()
        except BaseException:
            self._database.close()
            raise

    def get(self, path: str) -> Entry | None:
        with self._failing():
            row = self._database.execute("SELECT value, version FROM entry WHERE path = ?", (path,)).fetchone()
        return None if row is None else Entry(*row)

    def children(self, path: str) -> list[str]:
        parent = path.rstrip("/")
        with self._failing():
            rows = self._database.execute("SELECT path FROM entry WHERE parent = ? ORDER BY path", (parent,)).fetchall()
        return [name[len(parent) + 1 :] for (name,) in rows]

    def commit(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        with self._failing(), self._transaction():
            for change in changes:
                self._apply(change)

    def close(self) -> None:
        """End the session; nothing may be asked afterwards."""
        self._end_session()
        with self._failing():
            self._database.close()

    def _end_session(self) -> None:
        with self._failing():
            rows = self._database.execute("SELECT path FROM entry WHERE ephemeral = 1").fetchall()
        paths = {path for (path,) in rows}
        below = {path for path in paths if any(path.startswith(other + "/") for other in paths)}
        self.commit([Change(path, None) for path in sorted(paths - below)])  # removing an entry removes everything below it

    def _apply(self, change: Change) -> None:
        path, value, version, ephemeral = change
        present = self._version(path)
        _check(path, present, version)
        if value is None:
            self._remove(path, present)
        elif present is None:
            self._make_parents(path)
            self._insert(path, value, ephemeral)
        else:
            self._database.execute("UPDATE entry SET value = ?, version = version + 1 WHERE path = ?", (value, path))

    def _remove(self, path: str, present: int | None) -> None:
        if present is None:
            raise NoEntry(path)
        # "0" is the character after "/": this range is everything below the path.
        self._database.execute("DELETE FROM entry WHERE path = ? OR (path > ? AND path < ?)", (path, path + "/", path + "0"))

    def _make_parents(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        while parent and self._version(parent) is None:
            self._insert(parent, b"", False)
            parent = parent.rpartition("/")[0]

    def _insert(self, path: str, value: bytes, ephemeral: bool) -> None:
        row = (path, path.rpartition("/")[0], value, 0, int(ephemeral))
        self._database.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", row)

    def _version(self, path: str) -> int | None:
        row = self._database.execute("SELECT version FROM entry WHERE path = ?", (path,)).fetchone()
        return None if row is None else int(row[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StorageFailed(self._path, str(error)) from error


def _check(path: str, present: int | None, version: int | None) -> None:
    if version is None:
        return
    if version == NEW:
        if present is not None:
            raise EntryExists(path)
        return
    if present is None:
        raise NoEntry(path)
    if present != version:
        raise VersionConflict(f"{path} has version {present}, not {version}")
