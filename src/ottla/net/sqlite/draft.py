"""The changes of one commit within an SQLite transaction, which the caller begins and ends."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from ottla.net.sqlite.tables import checksum
from ottla.ports import Change, Condition, NoEntry, RegistryRefused
from ottla.registry.tree import check_version

DATA: Final = "data"
CHILDREN: Final = "children"
"""The kinds of watches: for an entry's value, and for the names of its children."""

DIGITS: Final = 10
KEPT: Final = 100_000
"""The number of transactions whose changes are kept, so that a process that was suspended can call its watches."""

FORGET_EVERY: Final = 1_000
BELOW: Final = "path > ? || '/' AND path < ? || '0'"
"""The condition for the paths below a path. The character after "/" is "0"."""


class StoredNode(NamedTuple):
    """The fields of an existing entry that decide whether a change of the entry is allowed."""

    version: int
    created: int
    owner: int | None
    made: int


class CommitDraft:
    """The changes of one transaction. `owner` is the session that owns the created ephemeral entries."""

    def __init__(self, database: sqlite3.Connection, owner: int | None) -> None:
        self._database = database
        self._owner = owner
        (before,) = database.execute("SELECT transactions FROM state").fetchone()
        self._number: int = before + 1
        self._touched: dict[tuple[str, str], None] = {}

    def apply(self, each: Change | Condition) -> None:
        """Check the condition `each`, or make the change `each`.

        Raises `DuplicateEntry`, `NoEntry`, `VersionConflict` or `RegistryRefused`.
        """
        if isinstance(each, Change) and each.sequential:
            self._make_next(each)
            return
        node = self._find(each.path)
        check_version(each.path, None if node is None else node.version, each.version)
        if isinstance(each, Condition):
            return
        if each.value is None:
            self._remove(each.path, node)
        elif node is None:
            self._make(each.path, each.value, is_ephemeral=each.ephemeral)
        else:
            crc = checksum(each.path, each.value, node.version + 1, node.created)
            self._database.execute(
                "UPDATE entry SET value = ?, version = ?, crc = ? WHERE path = ?", (each.value, node.version + 1, crc, each.path)
            )
            self._touched[DATA, each.path] = None

    def note(self) -> bool:
        """Store the changes for the watches of all processes. Return whether anything was changed."""
        if not self._touched:
            return False
        rows = [(self._number, *watched) for watched in self._touched]
        self._database.executemany("INSERT INTO change VALUES (?, ?, ?)", rows)
        self._database.execute("UPDATE state SET transactions = ?", (self._number,))
        if self._number % FORGET_EVERY == 0 and self._number > KEPT:
            last = self._number - KEPT
            self._database.execute("DELETE FROM change WHERE number <= ?", (last,))
            self._database.execute("UPDATE state SET forgotten = ?", (last,))
        return True

    def end_session(self, number: int) -> None:
        """Remove a session with its ephemeral entries."""
        for (path,) in self._database.execute("SELECT path FROM entry WHERE owner = ?", (number,)).fetchall():
            self._remove(path, self._find(path))
        self._database.execute("DELETE FROM session WHERE id = ?", (number,))

    def _find(self, path: str) -> StoredNode | None:
        row = self._database.execute("SELECT version, created, owner, made FROM entry WHERE path = ?", (path,)).fetchone()
        return None if row is None else StoredNode(*row)

    def _make_next(self, change: Change) -> None:
        parent = above(change.path)
        made = self._made_parent(parent, change.path).made
        self._database.execute("UPDATE entry SET made = ? WHERE path = ?", (made + 1, parent))
        self._make(f"{change.path}{made:0{DIGITS}}", change.value or b"", is_ephemeral=change.ephemeral)

    def _made_parent(self, parent: str, child: str) -> StoredNode:
        node = self._find(parent)
        if node is None:
            self._make(parent, b"", is_ephemeral=False)
            return StoredNode(0, self._number, None, 0)
        if node.owner is not None:
            raise RegistryRefused(child, "its parent is an ephemeral entry, which cannot have children")
        return node

    def _make(self, path: str, value: bytes, *, is_ephemeral: bool) -> None:
        parent = above(path)
        self._made_parent(parent, path)
        owner = self._owner if is_ephemeral else None
        crc = checksum(path, value, 0, self._number)
        self._database.execute("INSERT INTO entry VALUES (?, ?, ?, 0, ?, ?, 0, ?)", (path, parent, value, self._number, owner, crc))
        self._touch(path)

    def _remove(self, path: str, node: StoredNode | None) -> None:
        if node is None:
            raise NoEntry(path)
        for (below,) in self._database.execute(f"SELECT path FROM entry WHERE {BELOW}", (path, path)):
            self._touch(below)
        self._database.execute(f"DELETE FROM entry WHERE {BELOW} OR path = ?", (path, path, path))
        self._touch(path)

    def _touch(self, path: str) -> None:
        """Record that an entry was created or removed, so that its watches and the watches of its parent are called."""
        for watched in ((DATA, path), (CHILDREN, path), (CHILDREN, above(path))):
            self._touched[watched] = None


def above(path: str) -> str:
    return path.rpartition("/")[0] or "/"
