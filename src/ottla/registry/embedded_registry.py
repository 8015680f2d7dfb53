"""A lone broker's registry behind the port of shared registries: one session, which lives as long as the process.

The store makes the reads and commits, and this module adds the watches. It does not depend on the meaning of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from ottla.ports import Change, CommitSteps, Condition, Done, Entry, Registry, SessionEvent, Steps, StorageFailed
from ottla.registry.tree import check_version, parents

Changed = Callable[[str], None]

DATA: Final = "data"
CHILDREN: Final = "children"
"""The kind of watches on an entry's children. The other kind watches an entry itself."""

MOST_NAMES: Final = 50
"""The most names of existing entries that are kept for one callback and parent path."""

DIGITS: Final = 10
FOREVER_MS: Final = 1 << 62
TIMEOUT_MS: Final = 6_000


class WatchedNames(set[str]):
    """The watched names of entries below one path.

    With `is_all`, every existing entry is watched, and the set contains only watched names that do not exist.
    """

    is_all = False


class EmbeddedRegistry:
    """Implements `ottla.ports.SharedRegistry` on a `Registry` that belongs to this process.

    A commit lets other work run while it waits for the disk. Reads wait for commits in progress, because an action upon an entry
    must not outlive it if a power cut takes the entry back. Inside `commit_at_once`, a commit
    blocks the caller's thread.
    """

    timeout_ms = TIMEOUT_MS

    def __init__(self, store: Registry, later: Callable[[Callable[[], None]], None]) -> None:
        """Create the registry. `later(call)` runs a call after the current work."""
        self.store = store
        self._later = later
        self._watches: dict[str, dict[str, dict[Changed, WatchedNames]]] = {DATA: {}, CHILDREN: {}}
        """The watched names by kind, parent path and callback."""
        self._created: dict[str, int] = {}
        self.failure: StorageFailed | None = None
        """The failure of the last refused commit that was made inside `commit_at_once`, or None."""
        self._is_blocking = False
        self._committing = 0
        """The number of commits that wait for the disk."""
        self._readers: list[Done] = []
        """The reads that wait for these commits."""

    @contextmanager
    def commit_at_once(self) -> Iterator[None]:
        """Make the commits inside this context manager on the caller's thread."""
        was_blocking, self._is_blocking = self._is_blocking, True
        try:
            yield
        finally:
            self._is_blocking = was_blocking

    def session_end_ms(self) -> int:
        return FOREVER_MS

    def on_session(self, told: Callable[[SessionEvent], None]) -> None: ...

    def close(self) -> None:
        for watches in self._watches.values():
            watches.clear()

    def read(self, paths: Sequence[str], *, changed: Changed | None = None) -> Steps[list[Entry | None]]:
        yield from self._wait_for_commits()
        if changed is not None:
            self._watch(DATA, paths, changed)
        return [self._entry(path) for path in paths]

    def list(self, paths: Sequence[str], *, changed: Changed | None = None) -> Steps[list[list[str] | None]]:
        yield from self._wait_for_commits()
        if changed is not None:
            self._watch(CHILDREN, paths, changed)
        return [self.store.children(path) or (None if self.store.get(path) is None else []) for path in paths]

    def commit(self, changes: Sequence[Change | Condition]) -> CommitSteps:
        for each in changes:
            if isinstance(each, Condition):
                entry = self.store.get(each.path)
                check_version(each.path, None if entry is None else entry.version, each.version)
        made = [self._with_number(each) for each in changes if isinstance(each, Change)]
        if not made:
            return
        known = {each.path: self.store.get(each.path) is not None for each in made}
        removed = {each.path: list(self._below(each.path)) for each in made if each.value is None}
        if self._is_blocking:
            self._commit_at_once(made)
        else:
            yield from self._commit_beside(made)
        for each in made:
            self._note(each, removed.get(each.path, ()), is_known=known[each.path])

    def _commit_beside(self, changes: Sequence[Change]) -> CommitSteps:
        self._committing += 1
        try:
            yield from self.store.commit_slowly(changes)
        finally:
            self._committing -= 1
            if not self._committing:
                readers, self._readers = self._readers, []
                for done in readers:
                    self._later(partial(done, None))

    def _wait_for_commits(self) -> Steps[None]:
        """Wait until no commit is in progress."""
        while self._committing and not self._is_blocking:
            yield self._readers.append

    def _below(self, path: str) -> Iterator[str]:
        for name in self.store.children(path):
            yield f"{path}/{name}"
            yield from self._below(f"{path}/{name}")

    def _commit_at_once(self, changes: Sequence[Change]) -> None:
        try:
            self.store.commit(changes)
        except StorageFailed as failure:
            self.failure = failure
            raise

    def _entry(self, path: str) -> Entry | None:
        entry = self.store.get(path)
        created = self._created.get(path)
        return entry if entry is None or created is None else entry._replace(created=created)

    def _with_number(self, change: Change) -> Change:
        if not change.sequential:
            return change
        parent, _, _ = change.path.rpartition("/")
        taken = [int(name[-DIGITS:]) for name in self.store.children(parent) if name[-DIGITS:].isdecimal()]
        return change._replace(path=f"{change.path}{max(taken, default=-1) + 1:0{DIGITS}}", sequential=False)

    def _watch(self, kind: str, paths: Sequence[str], changed: Changed) -> None:
        for path in paths:
            parent, _, name = path.rpartition("/")
            names = self._watches[kind].setdefault(parent, {}).setdefault(changed, WatchedNames())
            if not names.is_all or self.store.get(path) is None:
                names.add(name)
            if not names.is_all and len(names) > MOST_NAMES:
                names.is_all = True
                names.difference_update([each for each in names if self.store.get(f"{parent}/{each}") is not None])

    def _note(self, change: Change, removed: Sequence[str], *, is_known: bool) -> None:
        path, value, *_ = change
        if value is None:
            self._created.pop(path, None)
            for below in removed:
                self._fire(DATA, below)
                self._fire(CHILDREN, below)
        if value is not None and change.ephemeral:
            self._created[path] = self.store.commits
        self._fire(DATA, path, is_known=is_known)
        if value is None or not is_known:
            self._fire(CHILDREN, path, is_known=is_known)
            for parent in parents(path):
                self._fire(CHILDREN, parent)
                if value is None:
                    break

    def _fire(self, kind: str, path: str, *, is_known: bool = True) -> None:
        parent, _, name = path.rpartition("/")
        watches = self._watches[kind].get(parent, {})
        for changed, names in list(watches.items()):
            if name in names:
                names.remove(name)
                if not names and not names.is_all:
                    del watches[changed]
            elif not (names.is_all and is_known):
                continue
            self._later(partial(changed, path))
