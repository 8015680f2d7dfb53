"""The real disk: a directory of the file system behind `ottla.ports.Disk`.

Files are opened on use. When too many handles are open, handles that were not used recently are closed. A `RealFile` is therefore a
name whose handle can be opened again. Slow work (syncs, freeing large files) is done by `ottla.net.disk.sync_workers` and
`ottla.net.disk.space_release`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from ottla.log.name_places import NamePlaces, parent
from ottla.net.disk.reserve import Reserve
from ottla.net.disk.room_writers import Watch
from ottla.net.disk.rooms import RealRoom, Rooms
from ottla.net.disk.space_release import Janitor
from ottla.net.disk.sync_workers import Pinned, SyncWorker
from ottla.net.disk.system_calls import System, failure_of, name_errors
from ottla.net.disk.unsynced_names import Directories, RealDirectory, at_or_below
from ottla.net.kernel_links import count_links
from ottla.net.kernel_sync import NAMELESS
from ottla.ports import Buffer, Done, Post, StorageFailed, Syncable, SyncFailed, TryAgain
from ottla.registry.generations import DIRECTORIES

T = TypeVar("T")

MAX_OPEN_FILES = 512
LOOKS = 16
"""The most open files that are checked for closing when a file is opened. It matters when all wait for syncs."""

MAX_BUFFERS = 1024
"""The limit on buffers in one call of writev (IOV_MAX)."""

READ_BYTES = 1 << 20

DELETED = "it is deleted"
REMOVED = "it was removed by another program"
REPLACED = "another directory has its place, as if a disk was unmounted: mount it again, or restart the broker"

FDATASYNC = os.fdatasync

SLOW_BYTES = 8 << 20
"""The number of written bytes above which a sync takes so long that no other sync should wait for it."""

PRIVATE = tuple(f"{name}/" for name in DIRECTORIES)
"""The registry's directories. Only the broker's own user may read them, because the registry contains credentials."""
LARGE_BYTES = 4 << 20
"""The size, in bytes, from which freeing a file takes so long that the janitor does it."""


class RealFile(Pinned):
    """One file of the data directory, for reading and writing.

    Its handle can be closed while the file is not in use. The next use opens the file again, unless the file was removed.
    """

    __slots__ = (
        "__weakref__",
        "_asked",
        "_closing",
        "_directory",
        "_disk",
        "_failure",
        "_fd",
        "_is_gone",
        "_is_leaving",
        "_is_new",
        "_lock",
        "_size_synced",
        "_synced",
        "_syncing",
        "_system",
        "_written",
        "recent",
        "rewrites",
        "size",
    )

    def __init__(self, disk: RealDisk, path: str, fd: int, *, size: int, is_new: bool) -> None:
        super().__init__(path)
        self.size = size
        self.rewrites = 0
        self.recent = True
        self._disk = disk
        self._system = disk.system
        self._fd = fd
        self._closing = False
        self._is_gone = self._is_leaving = False
        self._is_new = is_new
        self._directory: RealDirectory | None = None
        self._asked = 0
        self._written = 1  # a previous, killed process may have left writes in the page cache only
        self._synced = self._syncing = 0
        self._size_synced = size
        self._failure: str | None = None
        self._lock = threading.Lock()

    def __del__(self) -> None:
        self.close()

    @property
    def real_path(self) -> str:
        """Return the path for messages, with the log directory."""
        return self._disk.places.real(self.path)

    def fileno(self) -> int:
        """Return the handle, which is valid until the caller returns to the event loop. Call this before each system call."""
        self.recent = True
        return self._fd if self._fd >= 0 else self._reopen()

    def append(self, buffers: Sequence[Buffer]) -> int:
        fd = self._fd if self._fd >= 0 else self._reopen()
        start = self.size
        wanted = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        self.recent = True
        try:
            written = self._system.pwritev(fd, buffers[:MAX_BUFFERS], start)
            if written != wanted:
                self._append_rest(fd, buffers, start, written, wanted)
        except OSError as failure:
            with contextlib.suppress(OSError):
                self._system.ftruncate(fd, start)
            if self._disk.reserve.lends(self.real_path, failure):
                return self._disk.retry_with_space(partial(self.append, buffers))
            raise failure_of(self.real_path, failure) from failure
        self.size = start + wanted
        self._written += 1  # counted after the write: a sync running on another thread may miss it
        return start

    def _append_rest(self, fd: int, buffers: Sequence[Buffer], start: int, written: int, wanted: int) -> None:
        """Write the bytes that a short write has left over. An interruption or a nearly full disk causes short writes."""
        while written < wanted:
            rest, skipped = [], 0
            for buffer in buffers:
                if skipped + len(buffer) > written:
                    rest.append(memoryview(buffer)[max(0, written - skipped) :])
                skipped += len(buffer)
            written += self._system.pwritev(fd, rest[:MAX_BUFFERS], start + written)

    def read(self, position: int, size: int) -> bytes:
        fd = self._fd if self._fd >= 0 else self._reopen()
        self.recent = True
        try:
            data = self._system.pread(fd, size, position)
            while len(data) < size:
                more = self._system.pread(fd, size - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as failure:
            raise failure_of(self.real_path, failure) from failure
        return data

    def write(self, position: int, data: Buffer) -> None:
        fd = self.fileno()
        self.rewrites += 1
        self._written += 1  # counted before the write: a refused one may be partly done
        try:
            view, at = memoryview(data), 0
            while at < len(view):
                at += self._system.pwrite(fd, view[at:], position + at)
                self.size = max(self.size, position + at)
        except OSError as failure:
            if self._disk.reserve.lends(self.real_path, failure):
                return self._disk.retry_with_space(partial(self.write, position, data))
            raise failure_of(self.real_path, failure) from failure
        self._written += 1

    def truncate(self, size: int) -> None:
        self.rewrites += 1
        self._set_length(size)
        self.size = size

    def reserve(self, size: int) -> None:
        if size > self.size:
            self._set_length(size)

    def _set_length(self, size: int) -> None:
        fd = self.fileno()
        with name_errors(self.real_path):
            self._system.ftruncate(fd, size)
        self._written += 1

    @property
    def has_name(self) -> bool:
        links = count_links(self.fileno())
        if links < 0:
            raise StorageFailed(self.real_path, os.strerror(-links))
        return links > 0

    def _sync(self) -> None:
        """Sync the contents, and the file's name if the name is possibly new.

        After a failed sync the durable state is unknown, so every later sync fails too, unless the sync failed before it began (no
        handle, or the file was removed).
        """
        with self._lock:  # the kernel reports unwritable pages once, to only one of the concurrent callers
            self._sync_alone()

    def _sync_alone(self) -> None:
        if self._failure is not None:
            raise SyncFailed(self.real_path, self._failure)
        written, size = self._written, self.size
        try:
            if written != self._synced:
                self._system.fdatasync(self._fd)
                if not self._is_leaving and not self._system.fstat(self._fd).st_nlink:
                    raise SyncFailed(self.real_path, REMOVED)  # written data without a name is unreachable
            if self._directory is not None:
                self._directory.sync_for(self._asked)
                self._is_new = False
        except OSError as failure:
            self._failure = failure_of(
                self.real_path, failure
            ).reason  # not the exception: its traceback would keep this file alive
            raise SyncFailed(self.real_path, self._failure) from failure
        except StorageFailed as failure:
            self._failure = failure.reason
            raise
        self._synced, self._size_synced = written, size

    @property
    def is_slow(self) -> bool:
        """Return whether more than `SLOW_BYTES` were written since the last sync."""
        return self.size - self._size_synced > SLOW_BYTES

    def begin_sync(self) -> int:
        """Return the handle if only written bytes need a sync and no other sync of the file runs, otherwise -1.

        Return -1 also if a test has replaced the system calls.
        """
        if self._system.fdatasync is not FDATASYNC or not self._lock.acquire(blocking=False):
            return -1
        written = self._written
        if written == self._synced or self._directory is not None or self._failure is not None:
            self._lock.release()
            return -1
        self._syncing, self._size_synced = written, self.size
        return self._fd

    def end_sync(self, outcome: int) -> None:
        """Process the outcome of a sync that the caller made with the handle of `begin_sync`.

        Raises `SyncFailed` if the sync failed; every later sync then fails, too.
        """
        try:
            if not outcome or (outcome == NAMELESS and self._is_leaving):
                self._synced = self._syncing
                return
            self._failure = REMOVED if outcome == NAMELESS else os.strerror(outcome)
            raise SyncFailed(self.real_path, self._failure)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the handle; the next use opens the file again. If a sync is pending, the handle is closed after the sync."""
        if self._pins:
            self._closing = True
            return
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._disk.close_handle(fd, is_last=self._is_gone and self.size >= LARGE_BYTES)

    def leaves(self) -> None:
        """Record that this process will remove the file's name, so that the missing name is no error."""
        self._is_leaving = True

    def is_removed(self) -> bool:
        """Record that the name was removed, and return whether the handle is open. While it is open, the file can be read."""
        self._is_gone = self._is_leaving = True
        return self.is_open

    def use_copy(self) -> None:
        """Use the copy of the file, which has got the file's name, from now on. Nothing of the copy counts as synced."""
        self.close()
        self._is_new = True
        self._written += 1
        self._failure = None

    def pin(self) -> None:
        if self._is_gone:
            raise StorageFailed(self.real_path, DELETED)
        self.fileno()
        if self._is_new and self._directory is None:
            directory = self._disk.directory(parent(self.path))
            directory.pin()
            self._directory, self._asked = directory, directory.asked
        self._pins += 1

    def unpin(self) -> None:
        self._pins -= 1
        if self._pins:
            return
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.unpin()
        if self._closing:
            self._closing = False
            self.close()

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    @property
    def is_pinned(self) -> bool:
        return self._pins > 0

    def _reopen(self) -> int:
        if self._is_gone:
            raise StorageFailed(self.real_path, DELETED)
        self._fd = self._disk.open_handle(self.path, os.O_RDWR)
        self._disk.keep(self)
        return self._fd


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
            file.leaves()
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
        return frozenset(file.path.rpartition("/")[2] for file in files if file is not None and file.is_removed())

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
