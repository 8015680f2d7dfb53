"""The process that prevents other processes of its host from writing to the registry, and its end if it is suspended.

The kernel holds SQLite's write lock for a process until it ends. A process that is stopped (SIGSTOP) during a write would block all
others until their sessions expire. Linux shows the owner of a lock; on other systems nothing is done.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

log = logging.getLogger("ottla.net")

LOCKS: Final = Path("/proc/locks")
WRITE_LOCK: Final = "120"
"""The byte of the -shm file that a writer locks (SQLite, "WAL-mode file format", locks)."""

STOPPED: Final = ("T", "t")
"""The states, in /proc, of a process that is stopped by a signal or by a debugger."""


class StuckWriter:
    """A check for a writer that holds the lock for too long. It is used only while no process can write."""

    def __init__(self, file: Path) -> None:
        self._shared = Path(f"{file}-shm")
        self._seen: int | None = None
        self._told: int | None = None

    def look(self, members: Collection[int]) -> None:
        """Kill the writer if it is one of `members`, is stopped, and was the writer at the last check too.

        If it was the writer at the last check, but a condition is not met, log its id.
        """
        pid = writer_of(self._shared)
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
                if writer_of(self._shared) == pid and _is_stopped(pid):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    return True
            finally:
                os.close(process)
        return False


def writer_of(shared: Path) -> int | None:
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
