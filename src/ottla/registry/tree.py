"""The entries of a registry in memory, and what one commit does to them. Knows no files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.ports import NEW, Change, Entry, EntryExists, NoEntry, VersionConflict


class StoredEntry(NamedTuple):
    """What is kept of an entry."""

    value: bytes
    version: int
    ephemeral: bool


BETWEEN = StoredEntry(b"", 0, False)
"""What stands above an entry that was made without the entries on its way."""

Undo = list[tuple[str, StoredEntry | None]]
"""What was there before each change, in their order; to be gone through backwards."""


class Tree:
    """Entries by path. A commit is made as a whole or not at all, and costs what it changes."""

    def __init__(self) -> None:
        self._nodes: dict[str, StoredEntry] = {}
        self._below: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, path: str) -> Entry | None:
        node = self._nodes.get(path)
        return None if node is None else Entry(node.value, node.version)

    def children(self, path: str) -> list[str]:
        parent = path.rstrip("/")
        return sorted(name[len(parent) + 1 :] for name in self._below.get(parent, ()))

    def entries(self) -> list[tuple[str, StoredEntry]]:
        """All there are, as they are now: later commits do not change what was returned."""
        return list(self._nodes.items())

    def ephemeral(self) -> list[str]:
        """The topmost ephemeral entries, sorted: removing an entry removes everything below it."""
        paths = {path for path, node in self._nodes.items() if node.ephemeral}
        return sorted(path for path in paths if not any(above in paths for above in _above(path)))

    def put(self, path: str, node: StoredEntry) -> None:
        """Set an entry as it is, when it is read from a file."""
        self._set(path, node, [])

    def commit(self, changes: Sequence[Change]) -> Undo:
        """Make all changes or none; returns what `undo` takes back. Raises `EntryExists`, `NoEntry`, `VersionConflict`."""
        undo: Undo = []
        try:
            for change in changes:
                self._apply(change, undo)
        except BaseException:
            self.undo(undo)
            raise
        return undo

    def undo(self, undo: Undo) -> None:
        """Take a commit back; it must be the last one."""
        for path, node in reversed(undo):
            if node is None:
                self._drop(path)
            else:
                self._set(path, node, [])

    def _apply(self, change: Change, undo: Undo) -> None:
        path, value, version, ephemeral = change
        present = self._nodes.get(path)
        _check(path, present, version)
        if value is None:
            if present is None:
                raise NoEntry(path)
            self._remove(path, undo)
        elif present is None:
            for above in _above(path):
                if above in self._nodes:
                    break
                self._set(above, BETWEEN, undo)
            self._set(path, StoredEntry(value, 0, ephemeral), undo)
        else:
            self._set(path, StoredEntry(value, present.version + 1, present.ephemeral), undo)

    def _set(self, path: str, node: StoredEntry, undo: Undo) -> None:
        undo.append((path, self._nodes.get(path)))
        self._nodes[path] = node
        self._below.setdefault(path.rpartition("/")[0], {})[path] = None

    def _remove(self, path: str, undo: Undo) -> None:
        for child in tuple(self._below.get(path, ())):
            self._remove(child, undo)
        undo.append((path, self._nodes[path]))
        self._drop(path)

    def _drop(self, path: str) -> None:
        del self._nodes[path]
        parent = path.rpartition("/")[0]
        siblings = self._below[parent]
        del siblings[path]
        if not siblings:
            del self._below[parent]


def _above(path: str) -> Iterator[str]:
    """The paths above this one, the nearest first."""
    parent = path.rpartition("/")[0]
    while parent:
        yield parent
        parent = parent.rpartition("/")[0]


def _check(path: str, present: StoredEntry | None, version: int | None) -> None:
    if version is None:
        return
    if version == NEW:
        if present is not None:
            raise EntryExists(path)
        return
    if present is None:
        raise NoEntry(path)
    if present.version != version:
        raise VersionConflict(f"{path} has version {present.version}, not {version}")


def removals(paths: Iterable[str]) -> list[Change]:
    return [Change(path, None) for path in paths]
