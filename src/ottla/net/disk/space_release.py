"""The thread that frees the disk space of deleted files. It works on paths and handles; file contents are unknown here.

If one system call frees gigabytes, a processor and the file system's journal are busy for longer than a request may wait. So a
large file is first unlinked, and then truncated piece by piece. After each piece the thread pauses for as long as the piece took. A
deleted file that is still being read is not truncated. Its space is freed when the last handle is closed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from ottla.net.disk.sync_workers import QueueWorker
from ottla.ports import Post

log = logging.getLogger("ottla.net")

PIECE_BYTES = 2 << 20
"""The number of bytes freed at once, which takes a fraction of a millisecond. Files up to this size are only unlinked."""


@dataclass(slots=True, eq=False)
class Removal:
    """A file to remove. Its directory can be renamed before."""

    directory: str
    name: str


class Janitor(QueueWorker):
    """The thread that removes files and directories in the background, one by one."""

    def __init__(self, post: Post) -> None:
        super().__init__("ottla-janitor", post)
        self._removals: dict[str, list[Removal]] = {}
        self._names = threading.Lock()
        self._no_pauses = threading.Event()

    def stop(self) -> None:
        """Finish all requested removals without pauses, then end the thread."""
        self._no_pauses.set()
        super().stop()

    def free(self, fd: int) -> None:
        """Free, in the background, the space of a removed file. `fd` is the file's last handle."""
        self._enqueue(partial(self._free, fd))

    def remove(self, path: str) -> None:
        """Remove, in the background, a file that no reader has open. If this fails, the failure is logged and the file remains."""
        directory, _, name = path.rpartition("/")
        removal = Removal(directory, name)
        with self._names:
            self._removals.setdefault(directory, []).append(removal)
        self._enqueue(partial(self._remove, removal))

    def record_rename(self, path: str, to: str) -> None:
        """Record that a directory was renamed, so that pending removals of its files use the new name."""
        with self._names:
            removals = self._removals.pop(path, None)
            if removals:
                self._removals[to] = removals
                for removal in removals:
                    removal.directory = to

    def remove_tree(self, path: str, held: Collection[str]) -> None:
        """Remove a directory in the background, and log a failure. Files in `held` are not truncated, because they can be open."""
        self._enqueue(partial(self._remove_tree, path, held))

    def _remove(self, removal: Removal) -> None:
        with self._names:
            removals = self._removals[removal.directory]
            removals.remove(removal)
            if not removals:
                del self._removals[removal.directory]
            path = f"{removal.directory}/{removal.name}"
            try:
                fd = _unlink(path)
            except FileNotFoundError:
                return
            except OSError as failure:
                log.warning("the deleted %s could not be removed (%s); the next start tries again", path, failure.strerror)
                return
        self._free(fd)

    def _remove_tree(self, path: str, held: Collection[str]) -> None:
        with contextlib.suppress(OSError):
            for name in os.listdir(path):
                if name not in held and os.path.isfile(f"{path}/{name}"):
                    self._free(_unlink(f"{path}/{name}"))
        from shutil import rmtree

        rmtree(path, ignore_errors=True)
        if os.path.exists(path):
            log.warning("not all files of the deleted %s could be removed; the next start tries again", path)

    def _free(self, fd: int) -> None:
        with contextlib.suppress(OSError):
            found = os.fstat(fd)
            size = found.st_size if not found.st_nlink else 0  # otherwise another hard link keeps the data
            while size > PIECE_BYTES:
                began = time.perf_counter()
                size -= PIECE_BYTES
                os.ftruncate(fd, size)
                self._no_pauses.wait(time.perf_counter() - began)
        with contextlib.suppress(OSError):
            os.close(fd)


def _unlink(path: str) -> int:
    """Unlink a file and return its last handle. Closing the handle frees the space."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.unlink(path)
    except OSError:
        os.close(fd)
        raise
    return fd
