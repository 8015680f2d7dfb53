"""Small and unwilling file systems."""

from __future__ import annotations

import errno
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
def ext4_disk(at: Path, *, size_bytes: int) -> Iterator[Path]:
    """The same with ext4, in a file beside it: blocks are given out late and freed late, and names need blocks. At least 4 MB."""
    at.mkdir(parents=True, exist_ok=True)
    image = at.with_name(at.name + ".ext4")
    with image.open("wb") as file:
        file.truncate(size_bytes)
    for command in (["mkfs.ext4", "-q", "-m", "0", str(image)], ["mount", "-o", "loop", str(image), str(at)]):
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip(f"{command[0]} is not installed")
        if done.returncode:
            pytest.skip(f"no file system can be made here: {done.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)
        image.unlink()


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


def fill_to_the_last_block(path: Path) -> None:
    """Write to `path` until nothing more is taken: where a file's own blocks have to be noted, not all of the room can be had."""
    size, block = 0, os.statvfs(path.parent).f_frsize
    with path.open("wb") as file:
        step = 1 << 20
        while step >= block:
            try:
                os.posix_fallocate(file.fileno(), size, step)
                size += step
            except OSError as failure:
                if failure.errno != errno.ENOSPC:
                    raise
                step //= 2
        os.fsync(file.fileno())
