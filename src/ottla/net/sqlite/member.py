"""The files of a process that shares a registry: a lock, which the kernel releases when the process ends, and a wake-up pipe.

The module uses system calls; the registry's contents are unknown here.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ottla.ports import RegistryAway

MEMBERS: Final = "processes"
OPENING: Final = "opening.lock"
LOCK: Final = ".lock"
BELL: Final = ".bell"
RETRY_S: Final = 0.02
AT_ONCE: Final = 1 << 16


@contextmanager
def opening(directory: Path, patience_s: float) -> Iterator[None]:
    """Prevent other processes from opening the registry, within this context manager.

    Raises `RegistryAway` if another process holds the lock for longer than `patience_s`, and OSError.
    """
    (directory / MEMBERS).mkdir(parents=True, exist_ok=True)
    lock = os.open(directory / OPENING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + patience_s
        while not _is_taken(lock):
            if time.monotonic() > deadline:
                raise RegistryAway(str(directory), "another process has been opening it for too long")
            time.sleep(RETRY_S)
        yield
    finally:
        os.close(lock)


def _is_taken(lock: int) -> bool:
    """Take a lock if it is free, and return whether it was. The lock belongs to the open file, not to the process."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Member:
    """This process as a member of a shared registry. It must be created and closed inside `opening`."""

    def __init__(self, directory: Path) -> None:
        """Create this member's files, and remove the files of members whose processes have ended. Raises OSError."""
        self._folder = directory / MEMBERS
        self._remove_dead()
        self.name = secrets.token_hex(8)
        self._lock = os.open(self._path(self.name, LOCK), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.mkfifo(self._path(self.name, BELL), 0o644)
            self.bell = os.open(self._path(self.name, BELL), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except BaseException:
            os.close(self._lock)
            self._unlink(self.name)
            raise

    def close(self) -> None:
        os.close(self.bell)
        self._unlink(self.name)
        os.close(self._lock)

    def wake(self) -> None:
        """Wake this member's own thread. Any thread may call this."""
        with suppress(BlockingIOError):  # the pipe is full, so a wake-up is pending
            os.write(self.bell, b"\0")

    def drain_wakeups(self) -> None:
        """Empty the pipe of wake-ups."""
        with suppress(BlockingIOError):
            os.read(self.bell, AT_ONCE)

    def ring(self, name: str) -> None:
        """Wake the thread of another member, if the member exists."""
        with suppress(OSError):
            bell = os.open(self._path(name, BELL), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(bell, b"\0")
            finally:
                os.close(bell)

    def is_dead(self, name: str) -> bool:
        """Return whether another member's process has ended."""
        try:
            lock = os.open(self._path(name, LOCK), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            return _is_taken(lock)
        finally:
            os.close(lock)

    def _remove_dead(self) -> None:
        """Remove the files of members whose processes have ended."""
        for name in {file.stem for file in self._folder.iterdir()}:
            if self.is_dead(name):
                self._unlink(name)

    def _unlink(self, name: str) -> None:
        for kind in (BELL, LOCK):
            with suppress(FileNotFoundError):
                self._path(name, kind).unlink()

    def _path(self, name: str, kind: str) -> Path:
        return self._folder / (name + kind)
