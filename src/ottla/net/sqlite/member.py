"""The files of a process that shares a registry: a lock, which the kernel releases when the process ends, and a wake-up pipe.

The module uses system calls; the registry's contents are unknown here.

A process that is stopped (SIGSTOP) during a write would hold SQLite's write lock, and block all others until their sessions
expire. Linux shows the owner of a lock, so that the process can be ended; on other systems nothing is done.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import signal
import time
from collections.abc import Collection, Iterator
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

log = logging.getLogger("ottla.net")

LOCKS: Final = Path("/proc/locks")
WRITE_LOCK: Final = "120"
"""The byte of the -shm file that a writer locks (SQLite, "WAL-mode file format", locks)."""

STOPPED: Final = ("T", "t")
"""The states, in /proc, of a process that is stopped by a signal or by a debugger."""


class StuckWriter:
    """Ends a stopped process that holds the registry's write lock. It is used only while no process can write."""

    def __init__(self, file: Path) -> None:
        self._shared = Path(f"{file}-shm")
        self._seen: int | None = None
        self._told: int | None = None

    def check(self, members: Collection[int]) -> None:
        """Kill the process that holds the write lock if it is one of `members`, is stopped, and held the lock at the last check
        too.

        If it held the lock at the last check, but another of these conditions is not met, log its process id.
        """
        pid = _writer_of(self._shared)
        before, self._seen = self._seen, pid
        if pid is None or pid != before or pid == os.getpid():
            return
        if pid in members and _is_stopped(pid) and self._kill(pid):
            log.warning(
                "process %d was suspended while it wrote to the registry, which blocked all other processes: it was killed", pid
            )
        elif pid != self._told:
            log.warning("process %d blocks writes of other processes to the registry: if it does not continue, kill it", pid)
            self._told = pid

    def forget(self) -> None:
        """Reset the check, because writes succeed again."""
        self._seen = self._told = None

    def _kill(self, pid: int) -> bool:
        """Kill the process `pid` if it still holds the lock. This is checked because the id may have been reused."""
        with suppress(OSError):
            process = os.pidfd_open(pid)
            try:
                if _writer_of(self._shared) == pid and _is_stopped(pid):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    return True
            finally:
                os.close(process)
        return False


def _writer_of(shared: Path) -> int | None:
    """Return the id of the process that has locked the registry with this -shm file.

    Return None if no process has locked it, or if the system does not show it.
    """
    try:
        inode = str(shared.stat().st_ino)
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        match line.split():
            case [_, "POSIX", _, "WRITE", pid, place, first, last] if place.rpartition(":")[2] == inode:
                if first == last == WRITE_LOCK:
                    return int(pid)
    return None


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith(STOPPED)
    except OSError:
        return False


@contextmanager
def lock_out(directory: Path, patience_s: float) -> Iterator[None]:
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
    """This process as a member of a shared registry. It must be created and closed inside `lock_out`."""

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

    def wake_other(self, name: str) -> None:
        """Wake the thread of the member `name` in another process. Do nothing if that member does not exist."""
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
