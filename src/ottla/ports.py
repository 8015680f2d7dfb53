"""The ports: everything the world can do to Ottla, and Ottla to the world.

Pure packages take these as arguments and have no other way out. `ottla.net` implements them with the real clock, disk and registry,
`ottla.sim` with seeded faults. This module knows nothing else of the project.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

Buffer = bytes | bytearray | memoryview

T = TypeVar("T")


class Now(NamedTuple):
    """One reading of the clock.

    `wall_ms` (Unix epoch) goes into records and replies, and may jump. `mono_ms` never goes back: deadlines rest on it alone.
    """

    wall_ms: int
    mono_ms: int


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> Now: ...


class StorageFailed(Exception):
    """The disk refused. `path` is relative to the data directory; `reason` is the system's own message, such as "No space left"."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class TryAgain(StorageFailed):
    """The system is short of something for now, such as file handles. Nothing was done or lost: the call can be repeated."""


class SyncFailed(StorageFailed):
    """A sync was begun and failed: what of it is on stable storage is not known, and no later sync of it can tell.

    The system reports such a failure once, and may have dropped what it could not write. So everything that relies on this file or
    directory is uncertain until another process has looked at what the disk holds.
    """


class Syncable(Protocol):
    """Something to make durable: the contents of a file, or the names in a directory."""

    @property
    def path(self) -> str: ...

    def sync(self) -> None:
        """Return once it is durable. Raises `SyncFailed`, from then on each time, and `StorageFailed` where it could not begin."""


class Readable(Protocol):
    """A file that is read. `path` is relative to the data directory. Errors are `StorageFailed`."""

    @property
    def path(self) -> str: ...

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer at the end of the file."""

    def close(self) -> None: ...


class File(Syncable, Readable, Protocol):
    """A file. Positions and sizes are bytes. Every method raises `StorageFailed` where the system raises OSError.

    A closed file is opened again when it is used. After its name was removed or given to another file, it can be read until it is
    closed; everything else is refused, except a sync asked for before.
    """

    @property
    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end, in order; returns where they start. A failed append leaves the size unchanged."""

    def write(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size: int) -> None: ...

    def reserve(self, size: int) -> None:
        """Extend the file on disk to `size` bytes, padded with zeros; `truncate` gives them back.

        The `size` of this object stays the same, so appends go where they went before. Whoever opens the file anew sees the zeros.
        """


@dataclass(frozen=True, slots=True)
class FileSlice:
    """`size` bytes of `file` from `position`, which the network sends with sendfile: they are never copied in Python."""

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
    """A directory tree. Paths are relative to the data directory and use "/". Errors are `StorageFailed`."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this name. Raises `StorageFailed` if the disk does not say."""

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none if it does not exist."""

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """Return when a file was last written, in milliseconds since 1970."""

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents. They become durable with the first sync of something in them."""

    def rename(self, path: str, to: str, *, sync: bool = True) -> None:
        """Rename atomically, replacing what has the name `to`. Durable on return; without `sync`, once the directory was synced."""

    def remove(self, path: str) -> None: ...

    def remove_soon(self, path: str) -> None:
        """Remove a file in the background. What a stop or a crash leaves of it is still there at the next start."""

    def remove_tree(self, path: str) -> None: ...

    def remove_tree_soon(self, path: str) -> None:
        """Remove a directory in the background: large files take long.

        What a stop or a crash leaves of it is still there at the next start.
        """

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """Replace a whole small file atomically (temporary file, sync, rename)."""

    def sync_dir(self, path: str) -> None:
        """Return once the names in a directory are durable. Raises `SyncFailed`, from then on each time."""

    def directory(self, path: str) -> Syncable:
        """Return a directory's names as something for `sync_soon`, which does not block as `sync_dir` does."""

    def room(self) -> tuple[int, int]:
        """Return (bytes of the file system in all, bytes that can still be written)."""

    def sync_soon(self, files: Iterable[Syncable], done: Callable[[StorageFailed | None], None]) -> None:
        """Ask for a sync of everything written to `files` so far, whatever happens to their names meanwhile.

        `done` is called later on the broker's thread, never from within this call, with None or with the failure. Raises
        `StorageFailed` where the sync cannot begin, and `TryAgain` where it can be asked for again; nothing was synced then, and
        `done` is not called. Raises TypeError for anything this disk did not give out.
        """


class Workers(Protocol):
    """Threads for work that takes the processor and nothing else."""

    def run(self, work: Callable[[], None], done: Callable[[StorageFailed | None], None], *, is_large: bool) -> None:
        """Have `work` done by another thread. It must touch nothing that others change meanwhile, and raise nothing.

        `done(None)` is called later on the broker's thread, never from within this call. Work is done in the order in which it was
        asked for; but nothing waits for large work except large work.
        """


class EntryExists(Exception):
    """A registry entry that was to be created exists."""


class NoEntry(Exception):
    """A registry entry does not exist."""


class VersionConflict(Exception):
    """A compare-and-set found another version than expected."""


class RegistryDamaged(Exception):
    """The registry, or one of its entries, can't be used: one sentence that says which, and what to do."""


class Entry(NamedTuple):
    """A registry's value at a path. `version` starts at 0 and grows by one with every change.

    `created` is the number of the transaction that made the entry: it grows over the whole of a registry that brokers share.
    """

    value: bytes
    version: int
    created: int = 0


NEW = -1
"""The version of an entry that must not exist yet."""


class Change(NamedTuple):
    """One change of a registry entry: its new value, or None to remove it and everything below it.

    `version` is the one that the entry must have: a number from `Entry.version`, `NEW`, or None for any. An `ephemeral` entry, if
    this change creates it, is removed when the session ends. The path of a `sequential` one is a prefix to which a registry that
    brokers share adds ten digits, so that it is always new.
    """

    path: str
    value: bytes | None
    version: int | None = None
    ephemeral: bool = False
    sequential: bool = False


class Condition(NamedTuple):
    """A condition of a commit: an entry that is not changed has this version, or with `NEW` is not there."""

    path: str
    version: int


class Entries(Protocol):
    """What can be read of a registry. Paths are absolute and use "/", as in ZooKeeper."""

    def get(self, path: str) -> Entry | None:
        """Return None if there is no such entry."""

    def children(self, path: str) -> list[str]:
        """Return the names of the direct children, sorted; none if the entry does not exist."""


RegistrySteps: TypeAlias = Generator[Callable[[Callable[[StorageFailed | None], None]], None] | None, StorageFailed | None, T]
"""Work of a registry that is under way, and what it comes to. After None it goes on when others had their turn; a callable starts
what it waits for, and it is resumed with what that came to."""

CommitSteps: TypeAlias = RegistrySteps[None]
"""A commit under way. One that is not resumed has been made or not, as after a crash; the next commit finds out."""


class Registry(Entries, Protocol):
    """What one broker agrees on with its own next life: a tree of small values with versions and compare-and-set."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Make all changes or none, durable on return. Parents are created as needed.

        Raises `EntryExists`, `NoEntry`, `VersionConflict` and `StorageFailed`.
        """

    def commit_slowly(self, changes: Sequence[Change]) -> CommitSteps:
        """The same without waiting for the disk on the caller's thread: durable when the steps are over.

        Whoever reads meanwhile may see the changes already. Another commit waits for this one, `commit` on the caller's thread.
        """

    def close(self) -> None: ...


class RegistryAway(StorageFailed):
    """A registry that brokers share is not reached now, or the session has ended. Whether a commit was made is unknown."""


class SessionEvent(Enum):
    """What became of a broker's session with the registry that brokers share."""

    BEGUN = "begun"
    """A session began, the first or another one: ephemeral entries and watches of an earlier one are gone."""

    AWAY = "away"
    """The registry is not reached. The session may live on; watches may have missed something."""

    BACK = "back"
    """The registry is reached again, and the session lived on."""

    ENDED = "ended"
    """The session is over. Another one begins by itself once the registry is reached."""


class SharedRegistry(Protocol):
    """What brokers agree on: a tree of small values with versions, compare-and-set, ephemeral entries and watches.

    It is reached over a network, so nothing here blocks, and whatever is called back is called later, on the broker's thread. All
    steps raise `RegistryAway` while it is not reached, and `StorageFailed` where it refuses (rights, sizes).
    """

    @property
    def timeout_ms(self) -> int:
        """How long a session lives on unheard, as agreed with the registry."""

    def read(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> RegistrySteps[list[Entry | None]]:
        """Return the current entries, None where there is none.

        With `changed` each path leaves a watch: `changed(path)` is called once, when the entry is made, changed or removed, or when
        the connection broke so that this may have been missed. Each path and function is called once, however often it was read.
        """

    def list(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> RegistrySteps[list[list[str] | None]]:
        """Return the sorted names of each entry's children, None where there is no such entry.

        The watch of `changed` tells, once, of children that come and go, and that the entry itself is removed. Where there is no
        entry, it tells that it is made.
        """

    def commit(self, changes: Sequence[Change | Condition]) -> CommitSteps:
        """Make all changes or none. Parents are created as needed.

        Raises `EntryExists`, `NoEntry` and `VersionConflict`, and `RegistryAway` where it is unknown whether the changes were made.
        """

    def lives_until_ms(self) -> int:
        """The monotonic time until which this session cannot have ended elsewhere; 0 while there is none."""

    def on_session(self, told: Callable[[SessionEvent], None]) -> None:
        """Have `told` called with what becomes of the session, from its beginning on."""

    def close(self) -> None:
        """End the session now: its ephemeral entries are gone when this returns, if the registry is reached."""


class BrokerLink(Protocol):
    """Requests to one broker, in order, over a connection that is made when it is needed, and made anew after it broke."""

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: Callable[[memoryview | None], None]) -> None:
        """Send the parts of one request's frame, its length included.

        `answered` is called later with the response's frame, without its length. None: the connection broke, was refused, or
        nothing came in time, and nothing is known of what became of the request.
        """

    def close(self) -> None:
        """Close the connection; whoever waits is answered None."""


class Links(Protocol):
    """How this broker reaches others. Whoever implements it knows the security of the listener between brokers."""

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> BrokerLink:
        """Return a link; nothing is connected yet. The system sizes the receive buffer of its socket where that is below 1."""


class ClusterPorts(NamedTuple):
    """What a broker of a cluster has that a lone one has not."""

    registry: SharedRegistry
    links: Links
