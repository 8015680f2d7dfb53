"""One file of the real disk. Its handle is closed when too many are open, and opened again on use."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from ottla.log.name_places import NamePlaces, parent
from ottla.net.disk.reserve import Reserve
from ottla.net.disk.sync_workers import Pinned
from ottla.net.disk.system_calls import System, failure_of, name_errors
from ottla.net.disk.unsynced_names import RealDirectory
from ottla.net.kernel_links import count_links
from ottla.net.kernel_sync import NAMELESS
from ottla.ports import Buffer, StorageFailed, SyncFailed

T = TypeVar("T")

MAX_BUFFERS = 1024
"""The limit on buffers in one call of writev (IOV_MAX)."""

DELETED = "it is deleted"
REMOVED = "it was removed by another program"
FDATASYNC = os.fdatasync
SLOW_BYTES = 8 << 20
"""The number of written bytes above which a sync takes so long that no other sync should wait for it."""

LARGE_BYTES = 4 << 20
"""The size, in bytes, from which freeing a file takes so long that the janitor does it."""


class HandleOwner(Protocol):
    """The disk of a file: it opens and closes handles, and supplies space for writes that must succeed on a full disk."""

    places: NamePlaces
    reserve: Reserve

    @property
    def system(self) -> System: ...
    def open_handle(self, path: str, flags: int) -> int: ...
    def close_handle(self, fd: int, *, is_last: bool) -> None: ...
    def keep(self, file: RealFile) -> None: ...
    def directory(self, path: str) -> RealDirectory: ...
    def retry_with_space(self, call: Callable[[], T]) -> T: ...


class RealFile(Pinned):
    """One file of the data directory, for reading and writing.

    Its handle can be closed while the file is not in use. The next use opens the file again, unless the file was removed.
    `recent` is set by each use; the disk resets it, and closes the handles of files without it. `rewrites` counts the changes that
    are not appends. `_written` counts all changes, and `_synced` is its value at the begin of the last sync that succeeded.
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

    def __init__(self, disk: HandleOwner, path: str, fd: int, *, size: int, is_new: bool) -> None:
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
            # Not the exception, whose traceback would keep this file alive.
            self._failure = failure_of(self.real_path, failure).reason
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
        """Process the outcome of a sync that the caller made with the handle of `begin_sync`: 0, an errno or `NAMELESS`.

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

    def expect_removal(self) -> None:
        """Record that this process will remove the file's name, so that the missing name is no error."""
        self._is_leaving = True

    def note_removal(self) -> bool:
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
