"""The real disk: a directory of the file system behind `ottla.ports.Disk`.

Files are opened on use. When too many handles are open, handles that were not used recently are closed. A `RealFile` is therefore a
name whose handle can be opened again. Slow work (syncs, freeing large files) is done by `ottla.net.disk.sync_workers` and
`ottla.net.disk.space_release`.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from ottla.log.name_places import NamePlaces, parent
from ottla.net.disk.real_file import LARGE_BYTES, RealFile
from ottla.net.disk.reserve import Reserve
from ottla.net.disk.room_writers import Watch
from ottla.net.disk.rooms import RealRoom, Rooms
from ottla.net.disk.space_release import Janitor
from ottla.net.disk.sync_workers import SyncWorker
from ottla.net.disk.system_calls import System, failure_of, name_errors
from ottla.net.disk.unsynced_names import Directories, RealDirectory, at_or_below
from ottla.ports import Buffer, Done, Post, StorageFailed, Syncable, TryAgain
from ottla.registry.generations import DIRECTORIES

T = TypeVar("T")

MAX_OPEN_FILES = 512
LOOKS = 16
"""The most open files that are checked for closing when a file is opened. It matters when all wait for syncs."""


READ_BYTES = 1 << 20

REPLACED = "another directory has its place, as if a disk was unmounted: mount it again, or restart the broker"


PRIVATE = tuple(f"{name}/" for name in DIRECTORIES)
"""The registry's directories. Only the broker's own user may read them, because the registry contains credentials."""


class RealDisk:
    """A data directory on the real disk, at the path `root`; implements `Disk`.

    `post` schedules a call on the broker's thread (`loop.call_soon_threadsafe`). About `max_open_files` files are kept open.
    `system` makes the system calls. The `reserve` supplies space for writes that must succeed on a full disk. `log_dirs` are the
    absolute paths of directories outside of `root`, whose own names are durable. The reserve is not for them. With `watch`, the
    broker's thread waits for writes of rooms itself.
    """

    def __init__(
        self,
        root: str,
        post: Post,
        *,
        max_open_files: int = MAX_OPEN_FILES,
        system: System = os,
        reserve: Reserve | None = None,
        log_dirs: Sequence[str] = (),
        watch: Watch | None = None,
    ) -> None:
        self.root = root
        self.log_dirs = log_dirs
        self.system = system
        self.reserve = reserve or Reserve(root)
        self._max_open_files = max_open_files
        self._open: deque[weakref.ref[RealFile]] = deque()
        self._by_path: weakref.WeakValueDictionary[str, RealFile] = weakref.WeakValueDictionary()
        self.places = NamePlaces()
        self._directories = Directories(root, system, self.places, log_dirs)
        self._identities = {path: _identity(os.stat(path)) for path in log_dirs if os.path.isdir(path)}
        self._worker = SyncWorker(post)
        self._janitor = Janitor(post)
        self._rooms = Rooms(self, system, post, watch)

    def open(self, path: str, *, create: bool = False) -> RealFile:
        known = self._by_path.get(path)
        if known is not None:
            return known
        is_new = False
        try:
            fd = self.open_handle(path, os.O_RDWR)
        except StorageFailed:
            if not create:
                raise
            fd, is_new = self.open_handle(path, os.O_RDWR | os.O_CREAT), True
        try:
            size = self.system.fstat(fd).st_size
        except OSError as failure:
            self.system.close(fd)
            raise failure_of(self.places.real(path), failure) from failure
        is_new = is_new or not self._directories.is_known(parent(path))
        file = self._by_path[path] = RealFile(self, path, fd, size=size, is_new=is_new)
        self.keep(file)
        return file

    def exists(self, path: str) -> bool:
        with name_errors(self.places.real(path)), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self.system.stat(self._full(path))
            return True
        return False

    def list(self, path: str) -> list[str]:
        with name_errors(self.places.real(path)), contextlib.suppress(FileNotFoundError):
            return sorted(self.system.listdir(self._full(path)))
        return []

    def size(self, path: str) -> int:
        return self._stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return self._stat(path).st_mtime_ns // 1_000_000

    def put(self, name: str, directory: str) -> None:
        self.places.put(name, directory)

    def exchange(self, name: str, copy: str) -> None:
        files = [file for path in at_or_below(list(self._by_path), name) if (file := self._by_path.get(path)) is not None]
        if any(file.is_pinned for file in files):
            raise TryAgain(self.places.real(name), "a sync of its files is running")
        here, to = self._full(copy), self._absolute(self.places.target(copy, name))
        with name_errors(self.places.real(copy)):
            self.system.replace(here, to)
        self._janitor.record_rename(here, to)
        for file in self._forget(copy):
            file.close()
        self.places.exchange(name, copy)
        self._directories.exchange(name, copy)
        for file in files:
            file.use_copy()

    def make_dir(self, path: str) -> None:
        above = parent(path)
        if above and not self.exists(above):
            self.make_dir(above)
        self._make_dir(path)

    def _make_dir(self, path: str) -> None:
        try:
            self.system.mkdir(self._full(path), 0o700 if f"{path}/".startswith(PRIVATE) else 0o777)
        except FileExistsError:
            return
        except OSError as failure:
            if self.reserve.lends(self.places.real(path), failure):
                return self.retry_with_space(partial(self._make_dir, path))
            raise failure_of(self.places.real(path), failure) from failure
        self._directories.record_new(path)

    def rename(self, path: str, to: str, *, sync: bool = True) -> None:
        here, there = self._full(path), self._absolute(self.places.target(path, to))
        self._rename(path, to)
        self._janitor.record_rename(here, there)
        self._directories.record_rename(path, to)
        for file in self._forget(path):
            file.path = to + file.path[len(path) :]
            self._by_path[file.path] = file
        if not sync:
            return
        self.sync_dir(parent(to))
        if parent(path) != parent(to):
            self.sync_dir(parent(path))

    def remove(self, path: str) -> None:
        """Remove a file. If the file is large, the janitor frees its space in the background, once no reader has the file open."""
        file = self._mark_leaving(path)
        self._remove(path, is_read=file is not None and file.is_open)
        self._mark_removed([self._by_path.pop(path, None)])

    def _remove(self, path: str, *, is_read: bool) -> None:
        full, fd = self._full(path), -1
        try:
            if self.system.stat(full).st_size >= LARGE_BYTES and not is_read:
                fd = self.system.open(full, os.O_WRONLY | os.O_CLOEXEC)
            self.system.unlink(full)
        except OSError as failure:
            if fd >= 0:
                self.system.close(fd)
            raise failure_of(self.places.real(path), failure) from failure
        if fd >= 0:
            self._janitor.free(fd)

    def remove_soon(self, path: str) -> None:
        file = self._mark_leaving(path)
        if file is not None and file.is_open:
            self._remove(path, is_read=True)
        else:
            self._janitor.remove(self._full(path))
        self._mark_removed([self._by_path.pop(path, None)])

    def remove_tree(self, path: str) -> None:
        self._mark_removed(self._forget(path))
        self._directories.record_removal(path)
        with name_errors(self.places.real(path)), contextlib.suppress(FileNotFoundError):
            from shutil import rmtree  # here, as it imports the modules of archives

            rmtree(self._full(path))
        self.places.remove(path)

    def remove_tree_soon(self, path: str) -> None:
        held, full = self._mark_removed(self._forget(path)), self._full(path)
        self._directories.record_removal(path)
        self.places.remove(path)
        if os.path.exists(full):
            self._janitor.remove_tree(full, held)

    def read_file(self, path: str) -> bytes:
        fd = self.open_handle(path, os.O_RDONLY)
        try:
            with name_errors(self.places.real(path)):
                data = bytearray()
                while piece := self.system.pread(fd, READ_BYTES, len(data)):
                    data += piece
                return bytes(data)
        finally:
            self.system.close(fd)

    def write_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        try:
            self._write_new(temporary, data, sync=sync)
            self._rename(temporary, path)
        except StorageFailed:
            with contextlib.suppress(OSError):
                self.system.unlink(self._full(temporary))
            raise
        if sync:
            self.sync_dir(parent(path))

    def _write_new(self, path: str, data: Buffer, *, sync: bool) -> None:
        fd = self.open_handle(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            view, at = memoryview(data), 0
            while at < len(view):
                at += self.system.pwrite(fd, view[at:], at)
            if sync:
                self.system.fdatasync(fd)
        except OSError as failure:
            if self.reserve.lends(self.places.real(path), failure):
                return self.retry_with_space(partial(self._write_new, path, data, sync=sync))
            raise failure_of(self.places.real(path), failure) from failure
        finally:
            self.system.close(fd)

    def retry_with_space(self, call: Callable[[], T]) -> T:
        """Repeat a call for which the reserve has released space. Afterwards, the reserve takes unused space back."""
        try:
            return call()
        finally:
            self.reserve.refill()

    def sync_dir(self, path: str) -> None:
        self.directory(path).sync()

    def room(self, path: str = "") -> tuple[int, int]:
        with name_errors(self.places.real(path)):
            if path in self._identities and _identity(self.system.stat(path)) != self._identities[path]:
                raise StorageFailed(path, REPLACED)
            found = self.system.statvfs(self._full(path) if path else self.root)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def directory(self, path: str) -> RealDirectory:
        return self._directories.get(path)

    def sync_soon(self, files: Iterable[Syncable], done: Done) -> None:
        asked = [_own(file) for file in files]
        pinned: list[RealFile | RealDirectory] = []
        try:
            for file in asked:
                file.pin()
                pinned.append(file)
        except StorageFailed:
            for file in pinned:
                file.unpin()
            raise
        self._worker.sync(asked, done, is_urgent=any(isinstance(file, RealFile) for file in asked))

    def make_room(self, path: str, size: int, done: Done) -> RealRoom:
        return self._rooms.make(path, self.places.real(path), self._full(path), size, done)

    def close(self) -> None:
        """Finish all requested writes, syncs and removals, give up rooms that are not ready, then stop the threads."""
        self._rooms.close()
        self._worker.stop()
        self._janitor.stop()

    def open_handle(self, path: str, flags: int) -> int:
        try:
            return self.system.open(self._full(path), flags | os.O_CLOEXEC, 0o600 if path.startswith(PRIVATE) else 0o644)
        except OSError as failure:
            if flags & os.O_CREAT and self.reserve.lends(self.places.real(path), failure):
                return self.retry_with_space(partial(self.open_handle, path, flags))
            raise failure_of(self.places.real(path), failure) from failure

    def close_handle(self, fd: int, *, is_last: bool) -> None:
        """Close a handle.

        If it `is_last`, the last handle of a large removed file, the janitor thread closes it, which frees the file's space.
        """
        if is_last:
            self._janitor.free(fd)
        else:
            self.system.close(fd)

    def keep(self, file: RealFile) -> None:
        """Count a newly opened handle. If too many handles are open, close handles that were not used recently."""
        opened = self._open
        opened.append(weakref.ref(file))
        for _ in range(LOOKS):
            if len(opened) <= self._max_open_files:
                return
            reference = opened.popleft()
            old = reference()
            if old is None or not old.is_open:
                continue
            if old is file or old.recent or old.is_pinned:
                old.recent = False
                opened.append(reference)
            else:
                old.close()

    def _mark_leaving(self, path: str) -> RealFile | None:
        """Return the open file of this name, or None. Record in it that its name is about to be removed."""
        file = self._by_path.get(path)
        if file is not None:
            file.expect_removal()
        return file

    def _forget(self, path: str) -> Sequence[RealFile]:
        """Remove the open files at or below `path` from the table of files, and return them.

        A new file of the same name is another file.
        """
        file = self._by_path.pop(path, None)
        if file is not None:
            return [file]
        names = at_or_below(list(self._by_path), path)
        return [file for name in names if (file := self._by_path.pop(name, None)) is not None]  # None if it was collected

    @staticmethod
    def _mark_removed(files: Iterable[RealFile | None]) -> frozenset[str]:
        """Record that the names of these files were removed. Return the names of the files that are still open."""
        return frozenset(file.path.rpartition("/")[2] for file in files if file is not None and file.note_removal())

    def _full(self, path: str) -> str:
        return self._absolute(self.places.real(path))

    def _absolute(self, real: str) -> str:
        return real if real.startswith("/") else f"{self.root}/{real}"

    def _stat(self, path: str) -> os.stat_result:
        with name_errors(self.places.real(path)):
            return self.system.stat(self._full(path))

    def _rename(self, path: str, to: str) -> None:
        """Rename. If a file has the name `to` already, the file loses this name."""
        self._mark_leaving(to)
        with name_errors(self.places.real(path)):
            self.system.replace(self._full(path), self._absolute(self.places.target(path, to)))
        self.places.rename(path, to)
        self._mark_removed([self._by_path.pop(to, None)])


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _own(file: Syncable) -> RealFile | RealDirectory:
    """Return `file` as a file or directory of this disk. Raises TypeError for a file of another disk, which this disk cannot
    sync.
    """
    if not isinstance(file, RealFile | RealDirectory):
        raise TypeError(f"{file!r} is not of this disk")
    return file
