"""The system calls of a data directory, behind a protocol so that tests can make each of them fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Protocol

from ottla.ports import Buffer, StorageFailed, TryAgain

SHORTAGES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))
"""The errors of missing file handles or memory: the call was refused before it had an effect."""


class System(Protocol):
    """The used functions of `os`. Each may raise OSError."""

    def open(self, path: str, flags: int, mode: int = 0o777) -> int: ...

    def close(self, fd: int, /) -> None: ...

    def pread(self, fd: int, length: int, offset: int, /) -> bytes: ...

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> int: ...

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int, /) -> int: ...

    def ftruncate(self, fd: int, length: int, /) -> None: ...

    def fdatasync(self, fd: int) -> None: ...

    def fsync(self, fd: int) -> None: ...

    def fstat(self, fd: int) -> os.stat_result: ...

    def stat(self, path: str) -> os.stat_result: ...

    def statvfs(self, path: str) -> os.statvfs_result: ...

    def listdir(self, path: str) -> list[str]: ...

    def mkdir(self, path: str, mode: int = 0o777) -> None: ...

    def replace(self, src: str, dst: str) -> None: ...

    def unlink(self, path: str) -> None: ...


def failed(path: str, failure: OSError) -> StorageFailed:
    """Return the exception for a refused call; `path` is relative to the data directory."""
    kind = TryAgain if failure.errno in SHORTAGES else StorageFailed
    return kind(path, failure.strerror or str(failure))
