"""The files of another process's data directory, for reading only: the system calls of `live_reader.Files`."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.net.disk.system_calls import failed
from ottla.ports import Readable


class SeenFile:
    """One file, open for reading. The file can be read even after its name was removed or reused."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    def read(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self.fd, size, position)
        except OSError as failure:
            raise failed(self.path, failure) from failure

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class SeenFiles:
    """A data directory at `root`."""

    def __init__(self, root: str) -> None:
        self._root = root

    def names(self, path: str) -> dict[str, int]:
        try:
            with os.scandir(os.path.join(self._root, path)) as entries:
                return {entry.name: entry.inode() for entry in entries}
        except OSError as failure:
            raise failed(path, failure) from failure

    def open(self, path: str) -> SeenFile:
        try:
            return SeenFile(path, os.open(os.path.join(self._root, path), os.O_RDONLY | os.O_CLOEXEC))
        except OSError as failure:
            raise failed(path, failure) from failure

    def size(self, file: Readable) -> int:
        assert isinstance(file, SeenFile)
        try:
            return os.fstat(file.fd).st_size
        except OSError as failure:
            raise failed(file.path, failure) from failure

    def read_file(self, path: str) -> bytes:
        try:
            return Path(self._root, path).read_bytes()
        except OSError as failure:
            raise failed(path, failure) from failure
