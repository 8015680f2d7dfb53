"""The four ports: everything the world can do to Ottla, and Ottla to the world.

Pure packages take these as arguments and know no other way to the outside. `ottla.net` implements them with the real clock,
disk, sockets and registry; `ottla.sim` implements them with seeded faults. This module knows nothing else of the project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class Now(NamedTuple):
    """One reading of the clock.

    `wall_ms` (Unix epoch) goes into records and replies; it may jump. `mono_ms` never goes back: deadlines rest on it alone.
    """

    wall_ms: int
    mono_ms: int


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> Now: ...


class StorageFailed(Exception):
    """The disk refused. `path` is relative to the data directory, `reason` is the system's own word (such as "No space left")."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class TryAgain(StorageFailed):
    """The system is short of something for the moment, such as handles: nothing was done or lost, and it can be asked again."""


class Syncable(Protocol):
    """What a sync puts on stable storage: what a file holds, or which names a directory holds."""

    @property
    def path(self) -> str: ...

    def sync(self) -> None:
        """Return once it is on stable storage. Raises `StorageFailed`."""


class File(Syncable, Protocol):
    """A file. Positions and sizes are bytes; every method raises `StorageFailed` where the system raises OSError.

    One that was closed is opened again when it is used. One whose name was removed, or given to another file, can be read until it
    is closed, and is refused everything afterwards; so is a sync that was not asked for before. After a failed sync all later ones
    of this object fail: what is on stable storage is not known any more.
    """

    @property
    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end, in order, and return where they start. A failed append leaves the size unchanged."""

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer at the end of the file."""

    def write(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size: int) -> None: ...

    def reserve(self, size: int) -> None:
        """Let the file be `size` bytes long on the disk, with zeros behind what was written; `truncate` gives the rest back.

        `size` of this object, and with it where appends go, stays. Who opens the file anew sees the zeros.
        """

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FileSlice:
    """`size` bytes of `file` from `position`: sent by the network as it is (sendfile), never copied in Python."""

    file: File
    position: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        return self.file.read(self.position, self.size)


Part = Buffer | FileSlice
"""One piece of a reply on its way out."""


class Disk(Protocol):
    """A directory tree. Paths are relative to the data directory and use "/"; errors are `StorageFailed`."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; none if it does not exist."""

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """When a file was last written, in milliseconds since 1970."""

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents; durable with the first thing in it that is synced, be it in a later attempt."""

    def rename(self, path: str, to: str, *, sync: bool = True) -> None:
        """Atomically, replacing what was there; durable when it returns, or without `sync` when the directory has been synced."""

    def remove(self, path: str) -> None: ...

    def remove_soon(self, path: str) -> None:
        """Remove a file some time: nobody waits for what that takes. What a stop or a crash leaves is there at the next start."""

    def remove_tree(self, path: str) -> None: ...

    def remove_tree_soon(self, path: str) -> None:
        """Remove a directory some time: large files take long. What a stop or a crash leaves of it is there at the next start."""

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """Replace a whole small file atomically (temporary file, sync, rename)."""

    def sync_dir(self, path: str) -> None:
        """Return once the names in a directory are on stable storage."""

    def directory(self, path: str) -> Syncable:
        """The names in a directory, to be synced by `sync_soon`: nobody waits for what `sync_dir` would take."""

    def room(self) -> tuple[int, int]:
        """(bytes of the file system in all, bytes that can still be written)."""

    def sync_soon(self, files: Iterable[Syncable], done: Callable[[StorageFailed | None], None]) -> None:
        """Ask for a sync of all that was written to `files` so far; what becomes of their names meanwhile does not matter.

        Raises `StorageFailed` where it cannot begin, `TryAgain` where it can be asked again: nothing was synced then, and `done` is
        not called. Raises TypeError for what this disk did not give out.

        `done` is called later, never from within this call, on the thread that the broker runs on: with None, or with the failure.
        """


class EntryExists(Exception):
    """A registry entry was to be made and is there already."""


class NoEntry(Exception):
    """A registry entry is not there."""


class VersionConflict(Exception):
    """A compare-and-set found another version than the one expected."""


class Entry(NamedTuple):
    """What a registry has at a path; `version` grows by one with every new value, from 0 on."""

    value: bytes
    version: int


NEW = -1
"""The version of an entry that must not be there yet."""


class Change(NamedTuple):
    """One change of a registry entry: its new value, or None to remove it and all below it.

    `version` is what the entry must have: a number from `Entry.version`, `NEW`, or None for any. An `ephemeral` one, if it is
    made by this change, goes when the session ends.
    """

    path: str
    value: bytes | None
    version: int | None = None
    ephemeral: bool = False


class Registry(Protocol):
    """What brokers agree on: a tree of small values with versions, compare-and-set and ephemeral entries.

    Paths are absolute and use "/", as ZooKeeper's. A change is durable when its call returns.
    """

    def get(self, path: str) -> Entry | None:
        """None if there is no such entry."""

    def children(self, path: str) -> list[str]:
        """Names of the direct children, sorted; none if the entry does not exist."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Make all changes or, raising `EntryExists`, `NoEntry` or `VersionConflict`, none; parents are made as needed."""

    def close(self) -> None: ...
