"""The real disk: a data directory of the file system behind `ottla.ports.Disk`. Knows system calls; knows nothing of logs.

Files are opened when they are used, and the handles of those that were not used lately are closed when there are too many: a
`RealFile` is a name that can be opened again. What takes long (syncs, the freeing of large files) is left to `ottla.net.workers`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.net.janitor import Janitor
from ottla.net.workers import Done, Post, SyncWorker
from ottla.ports import Buffer, StorageFailed, Syncable

MAX_OPEN_FILES = 512
MAX_BUFFERS = 1024
"""What one call of writev takes (IOV_MAX)."""

LARGE_BYTES = 4 << 20
"""Files from this size on take so long to free that the janitor does it."""


class RealFile:
    """One file. Its handle may be closed behind the scenes and is opened again when needed, unless the file is gone by then."""

    __slots__ = (
        "__weakref__",
        "_closing",
        "_disk",
        "_failure",
        "_fd",
        "_is_gone",
        "_is_new",
        "_pins",
        "_unsynced",
        "path",
        "recent",
        "size",
    )

    def __init__(self, disk: RealDisk, path: str, fd: int, *, is_new: bool) -> None:
        self.path = path
        self.size = os.fstat(fd).st_size
        self.recent = True
        self._disk = disk
        self._fd = fd
        self._pins = 0
        self._closing = False
        self._is_gone = False
        self._is_new = is_new
        self._unsynced = True  # whoever wrote to it before may have been killed, and the page cache holds it still
        self._failure: StorageFailed | None = None

    def __del__(self) -> None:
        self.close()

    def fileno(self) -> int:
        """The handle, valid until control goes back to whoever called: ask anew for each system call."""
        self.recent = True
        return self._fd if self._fd >= 0 else self._reopen()

    def append(self, buffers: Sequence[Buffer]) -> int:
        fd = self._fd if self._fd >= 0 else self._reopen()
        start = self.size
        wanted = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        self.recent = True
        try:
            written = os.pwritev(fd, buffers[:MAX_BUFFERS], start)
            if written != wanted:
                self._append_rest(fd, buffers, start, written, wanted)
        except OSError as failure:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, start)
            raise _failed(self.path, failure) from failure
        self.size = start + wanted
        self._unsynced = True  # after the write: a sync that runs meanwhile on its thread may miss it
        return start

    def _append_rest(self, fd: int, buffers: Sequence[Buffer], start: int, written: int, wanted: int) -> None:
        """Go on after a short write, which the kernel may make when it is interrupted or the disk is nearly full."""
        while written < wanted:
            rest, skipped = [], 0
            for buffer in buffers:
                if skipped + len(buffer) > written:
                    rest.append(memoryview(buffer)[max(0, written - skipped) :])
                skipped += len(buffer)
            written += os.pwritev(fd, rest[:MAX_BUFFERS], start + written)

    def read(self, position: int, size: int) -> bytes:
        fd = self._fd if self._fd >= 0 else self._reopen()
        self.recent = True
        try:
            data = os.pread(fd, size, position)
            while len(data) < size:
                more = os.pread(fd, size - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as failure:
            raise _failed(self.path, failure) from failure
        return data

    def write(self, position: int, data: Buffer) -> None:
        try:
            view, at = memoryview(data), 0
            while at < len(view):
                at += os.pwrite(self.fileno(), view[at:], position + at)
        except OSError as failure:
            raise _failed(self.path, failure) from failure
        self.size = max(self.size, position + len(data))
        self._unsynced = True

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self.fileno(), size)
        except OSError as failure:
            raise _failed(self.path, failure) from failure
        self.size = size
        self._unsynced = True

    def reserve(self, size: int) -> None:
        if size <= self.size:
            return
        try:
            os.ftruncate(self.fileno(), size)
        except OSError as failure:
            raise _failed(self.path, failure) from failure
        self._unsynced = True

    def sync(self) -> None:
        """As the port says, with a new file's directory entry. Once one failed, all later ones do: what is on disk is unknown."""
        if self._failure is not None:
            raise self._failure
        if not self._unsynced:
            return
        self._unsynced = False
        try:
            os.fdatasync(self.fileno())
            if self._is_new:
                self._disk.sync_dir(self.path.rpartition("/")[0])
                self._is_new = False
        except OSError as failure:
            self._failure = _failed(self.path, failure)
            raise self._failure from failure

    def close(self) -> None:
        """Close the handle, or have it closed when the sync under way is done with it; the next use opens it again."""
        if self._pins:
            self._closing = True
            return
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._disk.close_handle(fd, is_last=self._is_gone and self.size >= LARGE_BYTES)

    def is_removed(self) -> bool:
        """Take note that its name is no more: it can be read as long as its handle is open, which is the answer."""
        self._is_gone = True
        return self.is_open

    def pin(self) -> None:
        """Keep the handle open: another thread is about to use it."""
        self.fileno()
        self._pins += 1

    def unpin(self) -> None:
        self._pins -= 1
        if self._closing and not self._pins:
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
            raise StorageFailed(self.path, "it is deleted")
        self._fd = self._disk.open_handle(self.path, os.O_RDWR)
        self._disk.keep(self)
        return self._fd


@dataclass(frozen=True, slots=True)
class RealDirectory:
    """The names in one directory, as something to be synced."""

    disk: RealDisk
    path: str

    def sync(self) -> None:
        self.disk.sync_dir(self.path)

    def pin(self) -> None:
        """Nothing is held open between syncs."""

    def unpin(self) -> None: ...


class RealDisk:
    """The directory `root` as a `Disk`.

    `post` hands a call to the thread that the broker runs on (`loop.call_soon_threadsafe`). About `max_open_files` are kept open.
    """

    def __init__(self, root: str, post: Post, *, max_open_files: int = MAX_OPEN_FILES) -> None:
        self.root = root
        self._max_open_files = max_open_files
        self._open: deque[weakref.ref[RealFile]] = deque()
        self._by_path: weakref.WeakValueDictionary[str, RealFile] = weakref.WeakValueDictionary()
        self._new_dirs: set[str] = set()
        self._worker = SyncWorker(post)
        self._janitor = Janitor()

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
        file = self._by_path[path] = RealFile(self, path, fd, is_new=is_new)
        self.keep(file)
        return file

    def exists(self, path: str) -> bool:
        return os.path.exists(self._full(path))

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._full(path)))
        except FileNotFoundError:
            return []
        except OSError as failure:
            raise _failed(path, failure) from failure

    def size(self, path: str) -> int:
        return self._stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return self._stat(path).st_mtime_ns // 1_000_000

    def make_dir(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent and not self.exists(parent):
            self.make_dir(parent)
        try:
            os.mkdir(self._full(path))
            self._new_dirs.add(path)
        except FileExistsError:
            return
        except OSError as failure:
            raise _failed(path, failure) from failure

    def make_dirs(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                os.mkdir(self._full(path))
            except FileExistsError:
                continue
            except OSError as failure:
                raise _failed(path, failure) from failure
        for parent in {path.rpartition("/")[0] for path in paths}:
            self.sync_dir(parent)

    def rename(self, path: str, to: str, *, sync: bool = True) -> None:
        self._rename(path, to)
        self._janitor.moved(self._full(path), self._full(to))
        for file in self._forget(path):
            file.path = to + file.path[len(path) :]
            self._by_path[file.path] = file
        if not sync:
            return
        directory = to.rpartition("/")[0]
        self.sync_dir(directory)
        if path.rpartition("/")[0] != directory:
            self.sync_dir(path.rpartition("/")[0])

    def remove(self, path: str) -> None:
        """Remove a file. Freeing a large one takes long: the janitor does it, once nobody reads it."""
        self._remove(path, is_read=bool(self._let_go([self._by_path.pop(path, None)])))

    def _remove(self, path: str, *, is_read: bool) -> None:
        full = self._full(path)
        try:
            is_large = os.stat(full).st_size >= LARGE_BYTES and not is_read
            fd = os.open(full, os.O_WRONLY | os.O_CLOEXEC) if is_large else -1
            os.unlink(full)
        except OSError as failure:
            raise _failed(path, failure) from failure
        if is_large:
            self._janitor.free(fd)

    def remove_soon(self, path: str) -> None:
        if self._let_go([self._by_path.pop(path, None)]):
            self._remove(path, is_read=True)
        else:
            self._janitor.remove(self._full(path))

    def remove_tree(self, path: str) -> None:
        self._forget(path)
        try:
            shutil.rmtree(self._full(path))
        except FileNotFoundError:
            return
        except OSError as failure:
            raise _failed(path, failure) from failure

    def remove_tree_soon(self, path: str) -> None:
        held = self._let_go(self._forget(path))
        if os.path.exists(self._full(path)):
            self._janitor.remove_tree(self._full(path), held)

    def read_file(self, path: str) -> bytes:
        try:
            with open(self._full(path), "rb") as file:
                return file.read()
        except OSError as failure:
            raise _failed(path, failure) from failure

    def write_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        try:
            with open(self._full(temporary), "wb") as file:
                file.write(data)
                if sync:
                    file.flush()
                    os.fdatasync(file.fileno())
        except OSError as failure:
            with contextlib.suppress(OSError):
                os.unlink(self._full(temporary))
            raise _failed(path, failure) from failure
        self._rename(temporary, path)
        if sync:
            self.sync_dir(path.rpartition("/")[0])

    def sync_dir(self, path: str) -> None:
        kept = [new for new in tuple(self._new_dirs) if new.rpartition("/")[0] == path]
        if path in self._new_dirs:
            self._new_dirs.discard(path)
            self.sync_dir(path.rpartition("/")[0])
        try:
            fd = os.open(self._full(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as failure:
            raise _failed(path, failure) from failure
        self._new_dirs.difference_update(kept)

    def room(self) -> tuple[int, int]:
        try:
            found = os.statvfs(self.root)
        except OSError as failure:
            raise _failed("", failure) from failure
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def directory(self, path: str) -> RealDirectory:
        return RealDirectory(self, path)

    def sync_soon(self, files: Iterable[Syncable], done: Done) -> None:
        real = [file for file in files if isinstance(file, RealFile | RealDirectory)]
        for file in real:
            file.pin()
        self._worker.sync(real, done, is_urgent=any(isinstance(file, RealFile) for file in real))

    def close(self) -> None:
        """Stop the threads when they have done what they were asked for."""
        self._worker.stop()
        self._janitor.stop()

    def open_handle(self, path: str, flags: int) -> int:
        try:
            return os.open(self._full(path), flags | os.O_CLOEXEC, 0o644)
        except OSError as failure:
            raise _failed(path, failure) from failure

    def close_handle(self, fd: int, *, is_last: bool) -> None:
        """With the last handle of a large file goes its room."""
        if is_last:
            self._janitor.free(fd)
        else:
            os.close(fd)

    def keep(self, file: RealFile) -> None:
        """Count an opened handle in, and close others that were not used lately if there are too many."""
        opened = self._open
        opened.append(weakref.ref(file))
        for _ in range(2 * len(opened)):
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

    def _forget(self, path: str) -> Sequence[RealFile]:
        """Let what is called `path` next, or lies below it, be other files than those held so far; returns these."""
        file = self._by_path.pop(path, None)
        if file is not None:
            return [file]
        below = [name for name in self._by_path if name.startswith(path + "/")]
        return [file for file in map(self._by_path.pop, below) if file is not None]

    @staticmethod
    def _let_go(files: Iterable[RealFile | None]) -> frozenset[str]:
        """Tell these files that they have no name any more; the names of those that somebody may be reading."""
        return frozenset(file.path.rpartition("/")[2] for file in files if file is not None and file.is_removed())

    def _full(self, path: str) -> str:
        return f"{self.root}/{path}"

    def _stat(self, path: str) -> os.stat_result:
        try:
            return os.stat(self._full(path))
        except OSError as failure:
            raise _failed(path, failure) from failure

    def _rename(self, path: str, to: str) -> None:
        try:
            os.replace(self._full(path), self._full(to))
        except OSError as failure:
            raise _failed(path, failure) from failure


def _failed(path: str, failure: OSError) -> StorageFailed:
    return StorageFailed(path, failure.strerror or str(failure))
