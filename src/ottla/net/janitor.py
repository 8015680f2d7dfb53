"""The thread that frees the room of deleted files. Knows paths and handles; knows nothing of what was in them.

Freeing gigabytes in one system call takes a processor, and the file system's journal, for longer than a request may wait. So a
large file loses its name first, and then what it holds, in pieces, with as long a rest after each. Who still reads a deleted file
keeps it whole: what is held open is only freed when it is closed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from ottla.net.workers import Post, Worker

log = logging.getLogger("ottla.net")

PIECE_BYTES = 2 << 20
"""Freed at once, in a fraction of a millisecond; files up to this size lose their room with their name."""


class Removal:
    """A file that is to be removed; its directory may get another name until then."""

    __slots__ = ("directory", "name")

    def __init__(self, directory: str, name: str) -> None:
        self.directory = directory
        self.name = name


class Janitor(Worker):
    """Frees what was deleted, one thing after the other."""

    def __init__(self, post: Post) -> None:
        super().__init__("ottla-janitor", post)
        self._asked: deque[Callable[[], object]] = deque()
        self._removals: dict[str, list[Removal]] = {}
        self._names = threading.Lock()
        self._hurry = threading.Event()

    def stop(self) -> None:
        """Wait until all that was asked for is done, without rests."""
        self._hurry.set()
        super().stop()

    def free(self, fd: int) -> None:
        """Close some time the last handle of a file that has no name any more."""
        self._ask(partial(self._free, fd))

    def remove(self, path: str) -> None:
        """Remove a file some time, that nobody reads; where that fails, it is told, and left."""
        directory, _, name = path.rpartition("/")
        removal = Removal(directory, name)
        with self._names:
            self._removals.setdefault(directory, []).append(removal)
        self._ask(partial(self._remove, removal))

    def moved(self, path: str, to: str) -> None:
        """A directory has another name now; what is to be removed from it is there, and not in one that gets the old name."""
        with self._names:
            removals = self._removals.pop(path, None)
            if removals:
                self._removals[to] = removals
                for removal in removals:
                    removal.directory = to

    def remove_tree(self, path: str, held: Collection[str]) -> None:
        """Remove a directory some time, in which the files `held` may be read still; what cannot be removed is told, and left."""
        self._ask(partial(self._remove_tree, path, held))

    def _ask(self, call: Callable[[], object]) -> None:
        with self._wake:
            self._asked.append(call)
            self._start()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._asked or self._stopping):
                    self._wake.wait()
                if not self._asked:
                    return
                call = self._asked.popleft()
            with contextlib.suppress(OSError):
                call()

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
                log.warning("%s is deleted, but could not be removed (%s); the next start tries again", path, failure.strerror)
                return
        self._free(fd)

    def _remove_tree(self, path: str, held: Collection[str]) -> None:
        with contextlib.suppress(OSError):
            for name in os.listdir(path):
                if name not in held and os.path.isfile(f"{path}/{name}"):
                    self._free(_unlink(f"{path}/{name}"))
        shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(path):
            log.warning("%s is deleted, but not all of its files could be; the next start tries again", path)

    def _free(self, fd: int) -> None:
        try:
            found = os.fstat(fd)
            size = found.st_size if not found.st_nlink else 0  # under another name, somebody keeps it
            while size > PIECE_BYTES:
                began = time.perf_counter()
                size -= PIECE_BYTES
                os.ftruncate(fd, size)
                self._hurry.wait(time.perf_counter() - began)
        finally:
            os.close(fd)


def _unlink(path: str) -> int:
    """Take a file's name away; its last handle is returned, with which its room goes."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.unlink(path)
    except OSError:
        os.close(fd)
        raise
    return fd
