"""The names in a data directory that may not be durable yet, and their syncs. File contents are unknown here.

A directory whose sync failed stays failed: every later sync of its names fails, until a new process reads the directory.

A directory is itself a name in its parent: until that name is synced, a sync of the directory includes the parent. An earlier
process may have left names only in the page cache, so each process syncs each directory once.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from itertools import count

from ottla.net.disk.system_calls import System, failed
from ottla.ports import SyncFailed


def parent(path: str) -> str:
    """Return the directory that contains a path's last name."""
    return path.rpartition("/")[0]


def at_or_below(names: Iterable[str], path: str) -> list[str]:
    return [name for name in names if name == path or name.startswith(path + "/")]


class RealDirectory:
    """The names in one directory, as an object to sync.

    While it is pinned, it can be synced even if the directory is renamed or removed.
    """

    __slots__ = ("__weakref__", "_covered", "_directories", "_held", "_lock", "_pins", "asked", "path")

    def __init__(self, directories: Directories, path: str) -> None:
        self.path = path
        self._directories = directories
        self._held: list[tuple[str, int]] = []
        self._pins = 0
        self.asked = 0
        """The number of pins so far. A sync that begins later covers every name that existed then."""
        self._covered = 0
        self._lock = threading.Lock()

    def pin(self) -> None:
        """Open all handles of a sync by another thread. Raises `StorageFailed`, and then holds no handle."""
        if not self._pins:
            self._held = self._directories.hold(self.path)
        self._pins += 1
        self.asked += 1

    def unpin(self) -> None:
        self._pins -= 1
        if not self._pins:
            held, self._held = self._held, []
            self._directories.let_go(held)

    def sync(self) -> None:
        """Sync the names in this directory, and the new names of the directory itself and its parents."""
        if self._pins:
            self._sync()
            return
        self.pin()
        try:
            self._sync()
        finally:
            self.unpin()

    @property
    def is_slow(self) -> bool:
        """Return False: names are few, and quickly synced."""
        return False

    def begin_sync(self) -> int:
        """Return -1: names are synced by `sync` alone."""
        return -1

    def end_sync(self, outcome: int) -> None:
        """Raise AssertionError: no sync of names is begun by handle."""
        raise AssertionError(f"a sync of {self.path} ended that had not begun ({outcome})")

    def sync_for(self, asked: int) -> None:
        """Sync a name that existed at pin number `asked`, unless another file's sync has covered it."""
        with self._lock:
            if self._covered < asked:
                self._sync()

    def _sync(self) -> None:
        asked = self.asked
        self._directories.sync(self._held)
        self._covered = max(self._covered, asked)


class Directories:
    """All directories below `root`, and which of their names are new."""

    def __init__(self, root: str, system: System) -> None:
        self._root = root
        self._system = system
        self._numbers = count()
        self._new: dict[str, int] = {}
        self._known: set[str] = set()
        self._failed: dict[str, str] = {}
        self._lock = threading.Lock()
        self._by_path: weakref.WeakValueDictionary[str, RealDirectory] = weakref.WeakValueDictionary()

    def get(self, path: str) -> RealDirectory:
        """Return the one object of a directory, so that requests for the same sync share it."""
        known = self._by_path.get(path)
        if known is None:
            known = self._by_path[path] = RealDirectory(self, path)
        return known

    def is_known(self, path: str) -> bool:
        """Return whether the names that the directory held at this process's start are durable."""
        return path in self._known

    def made(self, path: str) -> None:
        """Note that the name `path` is new."""
        with self._lock:
            self._new[path] = next(self._numbers)

    def moved(self, path: str, to: str) -> None:
        """Note a rename: `to` is as new as `path` was."""
        with self._lock:
            for name in at_or_below(self._new, path):
                self._new[to + name[len(path) :]] = self._new.pop(name)
            for name in at_or_below(self._failed, path):
                self._failed[to + name[len(path) :]] = self._failed.pop(name)
            self._known.discard(path)
        self._forget(path)

    def removed(self, path: str) -> None:
        """Note that `path` was removed: a later directory of this name, or below it, is another one."""
        with self._lock:
            for name in at_or_below(self._new, path):
                del self._new[name]
            for name in at_or_below(self._failed, path):
                del self._failed[name]
            self._known.discard(path)
        self._forget(path)

    def _forget(self, path: str) -> None:
        for name in at_or_below(list(self._by_path), path):
            self._by_path.pop(name, None)

    def hold(self, path: str) -> list[tuple[str, int]]:
        """Open a directory, and the parents to sync with it. Raises `StorageFailed`, and then holds no handle."""
        held: list[tuple[str, int]] = []
        try:
            while True:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
                held.append((path, self._system.open(f"{self._root}/{path}", flags)))
                above = parent(path)
                if not path or (path not in self._new and above in self._known):
                    return held
                path = above
        except OSError as failure:
            self.let_go(held)
            raise failed(path, failure) from failure

    def let_go(self, held: Iterable[tuple[str, int]]) -> None:
        for _, fd in held:
            self._system.close(fd)

    def sync(self, held: Iterable[tuple[str, int]]) -> None:
        """Sync these directories. A directory stays new until its own name is durable. Raises `SyncFailed`."""
        for path, fd in held:
            with self._lock:
                if path in self._failed:
                    raise SyncFailed(path, self._failed[path])
                kept = [(name, number) for name, number in self._new.items() if parent(name) == path]
            try:
                self._system.fsync(fd)
            except OSError as failure:
                with self._lock:
                    reason = self._failed.setdefault(path, failed(path, failure).reason)
                raise SyncFailed(path, reason) from failure
            with self._lock:
                self._known.add(path)
                for name, number in kept:
                    if self._new.get(name) == number:  # a new directory may have taken the name meanwhile
                        del self._new[name]
