"""The names in a data directory that are possibly not durable yet, and their syncs.

After a failed sync of a directory's names, every later sync of these names fails, until a new process reads the directory.

A directory is itself a name in its parent. Until that name is synced, a sync of the directory includes the parent. A previous
process can have left names only in the page cache, so each process syncs each directory once.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from itertools import count

from ottla.log.name_places import NamePlaces
from ottla.net.disk.sync_workers import Pinned
from ottla.net.disk.system_calls import System, failure_of
from ottla.ports import SyncFailed


def at_or_below(names: Iterable[str], path: str) -> list[str]:
    return [name for name in names if name == path or name.startswith(path + "/")]


class RealDirectory(Pinned):
    """The names in one directory of the data directory, as an object to sync.

    If the directory or a parent of it is new, its own name is synced, too. While pinned, the names can be synced even if the
    directory is renamed or removed.
    """

    __slots__ = ("__weakref__", "_covered", "_directories", "_held", "_lock", "asked")

    def __init__(self, directories: Directories, path: str) -> None:
        super().__init__(path)
        self._directories = directories
        self._held: list[tuple[str, int]] = []
        self.asked = 0
        """The number of pins so far. A sync that begins after a pin covers every name that existed at the pin."""
        self._covered = 0
        self._lock = threading.Lock()

    def pin(self) -> None:
        if not self._pins:
            self._held = self._directories.hold(self.path)
        self._pins += 1
        self.asked += 1

    def unpin(self) -> None:
        self._pins -= 1
        if not self._pins:
            held, self._held = self._held, []
            self._directories.release(held)

    def sync_for(self, asked: int) -> None:
        """Sync the names that existed at pin number `asked`, unless a sync has covered them."""
        with self._lock:
            if self._covered < asked:
                self._sync()

    def _sync(self) -> None:
        asked = self.asked
        self._directories.sync(self._held)
        self._covered = max(self._covered, asked)


class Directories:
    """The directories below `root` and in `log_dirs`, and which of their names are new. `places` has the names in `log_dirs`."""

    def __init__(self, root: str, system: System, places: NamePlaces, log_dirs: Sequence[str] = ()) -> None:
        self._root = root
        self._places = places
        self._tops = frozenset(("", *log_dirs))
        self._system = system
        self._numbers = count()
        self._new: dict[str, int] = {}
        self._known: set[str] = set()
        self._failed: dict[str, str] = {}
        self._lock = threading.Lock()
        self._by_path: weakref.WeakValueDictionary[str, RealDirectory] = weakref.WeakValueDictionary()

    def get(self, path: str) -> RealDirectory:
        """Return the single object of a directory, so that all requests for a sync of the directory share it."""
        known = self._by_path.get(path)
        if known is None:
            known = self._by_path[path] = RealDirectory(self, path)
        return known

    def is_known(self, path: str) -> bool:
        """Return whether the names that existed in the directory when this process started are durable."""
        return path in self._known

    def record_new(self, path: str) -> None:
        """Record that the name `path` is new, and so not durable until a sync."""
        with self._lock:
            self._new[path] = next(self._numbers)

    def record_rename(self, path: str, to: str) -> None:
        """Record a rename. The name `to` is new if `path` was."""
        with self._lock:
            for name in at_or_below(self._new, path):
                self._new[to + name[len(path) :]] = self._new.pop(name)
            for name in at_or_below(self._failed, path):
                self._failed[to + name[len(path) :]] = self._failed.pop(name)
            self._known.discard(path)
        self._forget(path)

    def exchange(self, name: str, copy: str) -> None:
        """Record that the directory `copy` got the name `name`, which is not durable yet.

        The name `copy` then means the former one.
        """
        self.record_removal(name)
        self.record_removal(copy)
        self.record_new(name)

    def record_removal(self, path: str) -> None:
        """Record that `path` was removed, so that a new directory with this name, or a name below it, is another one."""
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
        """Open a directory, and the parents that must be synced with it. Raises `StorageFailed`, after all handles are closed."""
        held: list[tuple[str, int]] = []
        try:
            while True:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
                real = self._places.real(path)
                held.append((path, self._system.open(real if real.startswith("/") else f"{self._root}/{real}", flags)))
                above = self._places.above(path)
                if path in self._tops or (path not in self._new and above in self._known):
                    return held
                path = above
        except OSError as failure:
            self.release(held)
            raise failure_of(self._places.real(path), failure) from failure

    def release(self, held: Iterable[tuple[str, int]]) -> None:
        for _, fd in held:
            self._system.close(fd)

    def sync(self, held: Iterable[tuple[str, int]]) -> None:
        """Sync these directories. A directory stays new until its own name is durable. Raises `SyncFailed`."""
        for path, fd in held:
            with self._lock:
                if path in self._failed:
                    raise SyncFailed(self._places.real(path), self._failed[path])
                kept = [(name, number) for name, number in self._new.items() if self._places.above(name) == path]
            try:
                self._system.fsync(fd)
            except OSError as failure:
                with self._lock:
                    reason = self._failed.setdefault(path, failure_of(path, failure).reason)
                raise SyncFailed(self._places.real(path), reason) from failure
            with self._lock:
                self._known.add(path)
                for name, number in kept:
                    if self._new.get(name) == number:  # a new directory may have taken the name during the sync
                        del self._new[name]
