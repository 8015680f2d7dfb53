"""Small and unwilling file systems."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(at: Path, *, size_bytes: int, options: str = "") -> Iterator[Path]:
    """A file system of its own at `at`. Skips the test where this user may not mount one."""
    at.mkdir(parents=True, exist_ok=True)
    wanted = f"size={size_bytes}" + (f",{options}" if options else "")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", wanted, "tmpfs", str(at)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


@contextmanager
def unwritable(at: Path) -> Iterator[Path]:
    """A directory that this user cannot write to, whoever it is."""
    if os.geteuid() == 0:  # no mode bits stop root, a read-only file system does
        with small_disk(at, size_bytes=1 << 20, options="ro") as disk:
            yield disk
        return
    at.mkdir(parents=True)
    at.chmod(0o500)
    yield at
    at.chmod(0o700)


def fill(path: Path, *, leave_bytes: int = 0) -> None:
    """Write to `path` until the file system has no more than `leave_bytes` left."""
    room = os.statvfs(path.parent)
    with path.open("wb") as file:
        file.truncate(0)
        os.posix_fallocate(file.fileno(), 0, max(1, room.f_bavail * room.f_frsize - leave_bytes))
