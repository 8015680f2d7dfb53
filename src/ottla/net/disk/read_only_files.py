"""The files of another process's data directory, for reading only: the system calls of `live_reader.Files`."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.net.disk.system_calls import name_errors
from ottla.ports import Readable


class SeenFile:
    """One file, open for reading. The file can be read even after its name was removed or reused."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    def read(self, position: int, size: int) -> bytes:
        with name_errors(self.path):
            return os.pread(self.fd, size, position)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class SeenFiles:
    """The files of a data directory at `root`, which are only read."""

    def __init__(self, root: str) -> None:
        self._root = root

    def names(self, path: str) -> dict[str, int]:
        with name_errors(path), os.scandir(os.path.join(self._root, path)) as entries:
            return {entry.name: entry.inode() for entry in entries}

    def open(self, path: str) -> SeenFile:
        with name_errors(path):
            return SeenFile(path, os.open(os.path.join(self._root, path), os.O_RDONLY | os.O_CLOEXEC))

    def size(self, file: Readable) -> int:
        assert isinstance(file, SeenFile)
        with name_errors(file.path):
            return os.fstat(file.fd).st_size

    def read_file(self, path: str) -> bytes:
        with name_errors(path):
            return Path(self._root, path).read_bytes()
