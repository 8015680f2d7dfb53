"""The entries of a registry in memory, and the effect of a commit on them. The module opens no files.

An entry contains its direct children, so that its removal is one step even with ten thousand children. Two trees can share entries.
Each tree changes only the entries that it owns, and copies a shared entry before a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.ports import NEW, Change, DuplicateEntry, Entry, NoEntry, VersionConflict


class StoredEntry(NamedTuple):
    """The stored state of an entry of the registry. An `ephemeral` entry belongs to a session."""

    value: bytes
    version: int
    ephemeral: bool


FREED_AT_ONCE = 500
BETWEEN = StoredEntry(b"", 0, False)
"""The state of a missing parent that a commit creates."""


class _Owner:
    """A token that identifies the tree that may change an entry in place. A fork gives the tree a new token."""

    __slots__ = ()


class _Branch:
    """An entry with its descendants. `size` is the number of entries in the branch."""

    __slots__ = ("below", "entry", "owner", "size")

    def __init__(self, entry: StoredEntry, owner: _Owner) -> None:
        self.entry = entry
        self.owner = owner
        self.size = 1
        self.below: dict[str, _Branch] | None = None

    def own(self, owner: _Owner) -> _Branch:
        """Return this branch if `owner` owns it, otherwise a copy that `owner` owns. Both share the children."""
        if self.owner is owner:
            return self
        copy = _Branch(self.entry, owner)
        copy.size = self.size
        copy.below = None if self.below is None else dict(self.below)
        return copy


class _Step(NamedTuple):
    """The state of one path before a change, from which the change can be undone.

    `way` is the path from the root to the parent, and `before` the branch at the path, or None if there was none.
    """

    way: list[_Branch]
    name: str
    before: _Branch | None
    is_removal: bool = False


Undo = list[_Step]
"""The states before the changes of a commit, in the order of the changes. `Tree.undo` restores them in reverse order."""


class Tree:
    """All entries of the registry, by path. A commit makes all its changes or none.

    The cost of a commit is independent of the number of removed entries.
    """

    def __init__(self) -> None:
        self._owner = _Owner()
        self._root = _Branch(BETWEEN, self._owner)

    def __len__(self) -> int:
        return self._root.size - 1

    def get(self, path: str) -> Entry | None:
        found = self._find(path)
        return None if found is None else Entry(found.entry.value, found.entry.version)

    def children(self, path: str) -> list[str]:
        found = self._find(path.rstrip("/"))
        return [] if found is None or found.below is None else sorted(found.below)

    def fork(self) -> Tree:
        """Return a tree with the present entries. Later commits to either tree do not affect the other tree."""
        other = Tree()
        other._root = self._root
        self._owner = _Owner()
        return other

    def entries(self) -> Iterator[tuple[str, StoredEntry]]:
        """Iterate over all entries, each after its parent.

        If the tree changes during the iteration, iterate over a `fork` of it.
        """
        levels = [("", iter(() if self._root.below is None else self._root.below.items()))]
        while levels:
            above, rest = levels[-1]
            name, branch = next(rest, (None, None))
            if branch is None:
                levels.pop()
                continue
            path = f"{above}/{name}"
            yield path, branch.entry
            if branch.below is not None:
                levels.append((path, iter(branch.below.items())))

    def ephemeral(self) -> list[str]:
        """Return the topmost ephemeral entries, sorted: removing an entry removes everything below it."""
        paths = {path for path, entry in self.entries() if entry.ephemeral}
        return sorted(path for path in paths if not any(above in paths for above in parents(path)))

    def put(self, path: str, entry: StoredEntry) -> None:
        """Set an entry that was read from a file, including its version."""
        way, name = self._way(path, [])
        self._set(way, name, entry, [])

    def commit(self, changes: Sequence[Change]) -> Undo:
        """Make all changes or none. Return the argument for `undo`. Raises `DuplicateEntry`, `NoEntry` and `VersionConflict`."""
        undo: Undo = []
        try:
            for change in changes:
                self._apply(change, undo)
        except BaseException:
            self.undo(undo)
            raise
        return undo

    def undo(self, undo: Undo) -> None:
        """Undo the last commit; `undo` is the value that `commit` returned."""
        for step in reversed(undo):
            _link(step.way, step.name, step.before)

    def free_removed(self, done: Undo) -> Iterator[None]:
        """Free the entries that a commit removed, after which `undo` is impossible. Yield after every `FREED_AT_ONCE` entries."""
        removed = [step.before for step in done if step.is_removal and step.before is not None]
        done.clear()
        count = 0
        while removed:
            last = removed[-1]
            if last.owner is self._owner and last.below:  # a fork frees the entries that it shares
                removed.append(last.below.popitem()[1])
            else:
                removed.pop()
                count += 1
                if not count % FREED_AT_ONCE:
                    yield

    def _find(self, path: str) -> _Branch | None:
        branch = self._root
        for name in path.split("/")[1:]:
            found = None if branch.below is None else branch.below.get(name)
            if found is None:
                return None
            branch = found
        return branch

    def _way(self, path: str, undo: Undo) -> tuple[list[_Branch], str]:
        """Return the branches from the root to the parent of a path, all owned by this tree, and the last name of the path.

        Missing parents are created.
        """
        *above, name = path.split("/")[1:]
        self._root = self._root.own(self._owner)
        way = [self._root]
        for step in above:
            below = way[-1].below
            found = None if below is None else below.get(step)
            if found is None:
                self._set(list(way), step, BETWEEN, undo)
            elif found.owner is not self._owner:
                _link(way, step, found.own(self._owner))
            branch = way[-1].below
            assert branch is not None, "one was found or set in it"
            way.append(branch[step])
        return way, name

    def _apply(self, change: Change, undo: Undo) -> None:
        path, value, version, ephemeral, *_ = change
        found = self._find(path)
        present = None if found is None else found.entry
        check_version(path, None if present is None else present.version, version)
        if value is None and found is None:
            raise NoEntry(path)
        way, name = self._way(path, undo)
        if value is None:
            undo.append(_Step(way, name, found, is_removal=True))
            _link(way, name, None)
        elif present is None:
            self._set(way, name, StoredEntry(value, 0, ephemeral), undo)
        else:
            self._set(way, name, StoredEntry(value, present.version + 1, present.ephemeral), undo)

    def _set(self, way: list[_Branch], name: str, entry: StoredEntry, undo: Undo) -> None:
        below = way[-1].below
        before = None if below is None else below.get(name)
        undo.append(_Step(way, name, before))
        branch = _Branch(entry, self._owner)
        if before is not None:
            own = before.own(self._owner)
            branch.size, branch.below = own.size, own.below
        _link(way, name, branch)


def _link(way: list[_Branch], name: str, branch: _Branch | None) -> None:
    """Set the child `name` of the last branch of `way` to `branch`, or remove it if `branch` is None. Adjust all sizes."""
    last = way[-1]
    if last.below is None:
        last.below = {}
    below = last.below  # kept when it is empty: after a change of `last` itself, the branch in its undo shares the dict
    before = below.pop(name, None) if branch is None else below.get(name)
    if branch is not None:
        below[name] = branch
    grown = (0 if branch is None else branch.size) - (0 if before is None else before.size)
    for one in way:
        one.size += grown


def parents(path: str) -> Iterator[str]:
    """Iterate over the paths above `path`, beginning with its parent."""
    while path := path.rpartition("/")[0]:
        yield path


def check_version(path: str, known: int | None, wanted: int | None) -> None:
    """Compare the version of an entry with the version that a change or a condition requires.

    `known` is None if the entry does not exist. `wanted` is None if any version is accepted, and `NEW` if the entry must not exist.
    Raises `DuplicateEntry`, `NoEntry` or `VersionConflict`.
    """
    if wanted == NEW and known is not None:
        raise DuplicateEntry(path)
    if wanted not in (None, NEW, known):
        raise NoEntry(path) if known is None else VersionConflict(f"{path} has version {known}, not {wanted}")


def removals(paths: Iterable[str]) -> list[Change]:
    return [Change(path, None) for path in paths]
