"""The system calls that a data directory uses, behind a protocol, so that tests can make each call fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mmap import mmap
from types import SimpleNamespace
from typing import Protocol, cast

from ottla.ports import Buffer, StorageFailed, TryAgain

SHORTAGES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))
"""The errors that mean missing file handles or missing memory. A call that fails with one of them had no effect."""


class System(Protocol):
    """The functions of `os` that the disk uses. Each can raise OSError."""

    def open(self, path: str, flags: int, mode: int = 0o777) -> int: ...

    def close(self, fd: int, /) -> None: ...

    def pread(self, fd: int, length: int, offset: int, /) -> bytes: ...

    def preadv(self, fd: int, buffers: Sequence[mmap], offset: int, /) -> int: ...

    def pwrite(self, fd: int, data: Buffer | mmap, offset: int, /) -> int: ...

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


def reading_system() -> System:
    """Return the functions of `os`, with an `open` that only reads, because a read-only file system refuses other modes."""

    def open_to_read(path: str, flags: int, mode: int = 0o777) -> int:
        return os.open(path, flags & ~os.O_RDWR | os.O_RDONLY, mode)

    return cast("System", SimpleNamespace(**vars(os) | {"open": open_to_read}))


@contextmanager
def name_errors(path: str) -> Iterator[None]:
    """Turn an OSError inside this context manager into the exception for a system call on `path`."""
    try:
        yield
    except OSError as failure:
        raise failure_of(path, failure) from failure


def failure_of(path: str, failure: OSError) -> StorageFailed:
    """Return the exception for a system call that failed. `path` is relative to the data directory."""
    kind = TryAgain if failure.errno in SHORTAGES else StorageFailed
    return kind(path, failure.strerror or str(failure))
