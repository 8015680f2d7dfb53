"""Which names of a data directory are not known to be on stable storage, and how they get there. Knows no files.

A directory is a name in its parent: as long as that was not synced, whoever syncs the directory syncs the parent as well. What an
earlier process left in the page cache may be there for its successor only: so each directory is synced once by every process.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from itertools import count

from ottla.net.system import System, failed


def parent(path: str) -> str:
    """The directory that a path is a name in."""
    return path.rpartition("/")[0]


def at_or_below(names: Iterable[str], path: str) -> list[str]:
    return [name for name in names if name == path or name.startswith(path + "/")]


class RealDirectory:
    """The names in one directory, as something to be synced: while it is pinned, whatever becomes of its own name."""

    __slots__ = ("__weakref__", "_directories", "_held", "_pins", "path")

    def __init__(self, directories: Directories, path: str) -> None:
        self.path = path
        self._directories = directories
        self._held: list[tuple[str, int]] = []
        self._pins = 0

    def pin(self) -> None:
        """Open all that a sync needs: another thread is about to make it. Raises `StorageFailed`, and nothing is held then."""
        if not self._pins:
            self._held = self._directories.hold(self.path)
        self._pins += 1

    def unpin(self) -> None:
        self._pins -= 1
        if not self._pins:
            held, self._held = self._held, []
            self._directories.let_go(held)

    def sync(self) -> None:
        """As the port says, with the names of the directory itself and of those above that are new."""
        if self._pins:
            self._directories.sync(self._held)
            return
        self.pin()
        try:
            self._directories.sync(self._held)
        finally:
            self.unpin()


class Directories:
    """All directories below `root`, and which of them are new."""

    def __init__(self, root: str, system: System) -> None:
        self._root = root
        self._system = system
        self._numbers = count()
        self._new: dict[str, int] = {}
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._by_path: weakref.WeakValueDictionary[str, RealDirectory] = weakref.WeakValueDictionary()

    def get(self, path: str) -> RealDirectory:
        """One object for each directory, so that those who ask for the same sync share it."""
        known = self._by_path.get(path)
        if known is None:
            known = self._by_path[path] = RealDirectory(self, path)
        return known

    def is_known(self, path: str) -> bool:
        """Whether the names that the directory held when this process began are on stable storage."""
        return path in self._known

    def made(self, path: str) -> None:
        """The name `path` is new."""
        with self._lock:
            self._new[path] = next(self._numbers)

    def moved(self, path: str, to: str) -> None:
        """What was called `path` is called `to` now: a name that is as new as the former one was."""
        with self._lock:
            for name in at_or_below(self._new, path):
                self._new[to + name[len(path) :]] = self._new.pop(name)
            self._known.discard(path)
        self._forget(path)

    def removed(self, path: str) -> None:
        """What is called `path` next, or lies below it, are other directories."""
        with self._lock:
            for name in at_or_below(self._new, path):
                del self._new[name]
            self._known.discard(path)
        self._forget(path)

    def _forget(self, path: str) -> None:
        for name in at_or_below(list(self._by_path), path):
            self._by_path.pop(name, None)

    def hold(self, path: str) -> list[tuple[str, int]]:
        """Handles of a directory, and of those above that have to be synced with it. Raises `StorageFailed`, holding nothing."""
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
        """Make stable what these directories hold. A directory stays new until its name is. Raises `StorageFailed`."""
        for path, fd in held:
            with self._lock:
                kept = [(name, number) for name, number in self._new.items() if parent(name) == path]
            try:
                self._system.fsync(fd)
            except OSError as failure:
                raise failed(path, failure) from failure
            with self._lock:
                self._known.add(path)
                for name, number in kept:
                    if self._new.get(name) == number:  # another one may have been made under that name meanwhile
                        del self._new[name]
