"""A disk that loses power: a file system of its own in a file, which forgets everything that no sync has brought to stable storage.

It is ext4 on a loop device. A power cut is the ioctl by which file systems test themselves: from that moment on nothing is written
any more, not even the file system's own journal; what was only in the page cache is lost when it is mounted again. That needs
Linux, root, and the programs of util-linux and e2fsprogs.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Self

SHUTDOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN, and that of XFS."""

WITHOUT_LOG_FLUSH = 2
PROGRAMS = ("mkfs.ext4", "mount", "umount", "losetup")


class NotHere(Exception):
    """This machine cannot have such a disk; the message says why."""


class ForgetfulDisk:
    """A context manager: entering makes the file system and mounts it at `path`, leaving removes both."""

    def __init__(self, directory: Path, *, size_bytes: int = 512 << 20) -> None:
        self.path = directory / "disk"
        self._image = directory / "image"
        self._size_bytes = size_bytes
        self._is_mounted = False

    def __enter__(self) -> Self:
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        if not sys.platform.startswith("linux") or os.geteuid() != 0 or missing:
            raise NotHere(f"a file system in a file needs Linux, root and {', '.join(missing or PROGRAMS)}")
        self.path.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(self._size_bytes)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self._mount()
        return self

    def __exit__(self, *failure: object) -> None:
        self._unmount()
        self._image.unlink(missing_ok=True)

    def cut_power(self) -> None:
        """Write nothing from now on. Writes and syncs fail; kill the process that makes them, then call `restore_power`.

        Stop that process first: an fdatasync that is under way at this moment can be reported as done although its data is lost (on
        Linux 6.18 about once in a hundred cuts below six threads that append and sync, without any broker).
        """
        import fcntl

        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, SHUTDOWN, struct.pack("I", WITHOUT_LOG_FLUSH))
        except OSError as failure:
            raise NotHere(f"the file system cannot be shut down: {failure}") from failure
        finally:
            os.close(handle)

    def restore_power(self) -> None:
        """Mount the file system again, with what was on stable storage."""
        self._unmount()
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))
        self._is_mounted = True

    def _unmount(self) -> None:
        if self._is_mounted:
            _run("umount", str(self.path))
            self._is_mounted = False


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHere(f"{command[0]} failed: {done.stderr.strip()}")
