"""The ports: protocols for the clock, the disk, threads, the registry and connections, and the values that pass through them.

Pure packages take these as arguments and reach the outside in no other way. `ottla.net` implements them with the real clock, disk
and registry, `ottla.sim` with seeded faults. This module imports nothing else of the project.
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

    `wall_ms`, in milliseconds since 1970, goes into records and replies, and may jump. `mono_ms` never goes back: every deadline is
    in its milliseconds.
    """

    wall_ms: int
    mono_ms: int


class Clock(Protocol):
    """The source of time."""

    def now(self) -> Now: ...


class StorageFailed(Exception):
    """A call to the disk failed.

    `path` is relative to the data directory. `reason` is the message of the operating system, such as "No space left".
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


Done = Callable[[StorageFailed | None], None]
"""The callback of what completes later: it gets the failure, or None."""

Pause = Callable[[Done], None] | None
"""Why steps pause: None lets other work run; a callable starts an operation and calls its argument once, later, at the end of it.

A `StorageFailed` that the callable raises counts as the result. `partial(disk.sync_soon, files)` is such a callable.
"""

Steps: TypeAlias = Generator[Pause, StorageFailed | None, T]
"""Work as a generator. Each `yield None` follows at most a few milliseconds of work; `yield start` returns the failure or None."""

Pauses: TypeAlias = Generator[None, object, T]
"""Steps that wait for nothing: they pause only so that other work may run, and can be run at once."""


class TryAgain(StorageFailed):
    """The operating system lacks a resource for now, such as file handles. Nothing was done or lost: the call can be repeated."""


class SyncFailed(StorageFailed):
    """A sync began and failed: which of its data is on stable storage is unknown, and no later sync can find out.

    The operating system reports such a failure once, and may have dropped the pages that it could not write. Everything that relies
    on this file or directory is uncertain until another process has read what the disk holds.
    """


class Syncable(Protocol):
    """An object that can be made durable: the contents of a file, or the names in a directory."""

    @property
    def path(self) -> str: ...

    def sync(self) -> None:
        """Return once the contents are durable.

        Raises `SyncFailed` if the sync failed, and again on every later call, and `StorageFailed` if it could not begin.
        """


class Readable(Protocol):
    """A file open for reading. `path` is relative to the data directory. Every method raises `StorageFailed`."""

    @property
    def path(self) -> str: ...

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer at the end of the file."""

    def close(self) -> None: ...


class File(Syncable, Readable, Protocol):
    """A file open for reading and writing. Positions and sizes are bytes.

    Every method raises `StorageFailed` where the operating system raises OSError. A closed file is opened again on its next use.
    After its name was removed or given to another file, it can be read until it is closed. Every other call on it fails then,
    except a sync that was requested earlier.
    """

    @property
    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end, in order, and return the position of the first.

        A failed append leaves the size unchanged.
        """

    def write(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size: int) -> None: ...

    def reserve(self, size: int) -> None:
        """Extend the file on disk to `size` bytes with zeros; `truncate` frees them again.

        `size` of this object stays the same, so the next append goes where it would have gone before. A file object opened later
        counts the zeros as contents.
        """


@dataclass(frozen=True, slots=True)
class FileSlice:
    """`size` bytes of `file` from `position`. The network sends them with sendfile: they are never copied in Python."""

    file: File
    position: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        return self.file.read(self.position, self.size)


Part = Buffer | FileSlice
"""One piece of a reply that is to be sent."""


class Disk(Protocol):
    """A directory tree. Paths are relative to the data directory and use "/". Every method raises `StorageFailed`."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this name. Raises `StorageFailed` if the disk does not answer."""

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; an empty list if it does not exist."""

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """Return the time of a file's last write, in milliseconds since 1970."""

    def make_dir(self, path: str) -> None:
        """Make a directory and its missing parents. They become durable with the first sync of an entry in them."""

    def rename(self, path: str, to: str, *, sync: bool = True) -> None:
        """Rename atomically, and replace any file named `to`.

        The new name is durable on return; without `sync`, once the directory was synced.
        """

    def remove(self, path: str) -> None: ...

    def remove_soon(self, path: str) -> None:
        """Remove a file in the background. A file that a stop or a crash leaves undeleted is still there at the next start."""

    def remove_tree(self, path: str) -> None: ...

    def remove_tree_soon(self, path: str) -> None:
        """Remove a directory in the background, because large files take long.

        Files that a stop or a crash leaves undeleted are still there at the next start.
        """

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """Replace a small file as a whole and atomically: write a temporary file, sync it, rename it."""

    def sync_dir(self, path: str) -> None:
        """Return once the names in a directory are durable. Raises `SyncFailed` if that failed, and again on every later call."""

    def directory(self, path: str) -> Syncable:
        """Return a directory as an argument for `sync_soon`, which unlike `sync_dir` does not block."""

    def room(self) -> tuple[int, int]:
        """Return (the size of the file system in bytes, the bytes that can still be written)."""

    def sync_soon(self, files: Iterable[Syncable], done: Done) -> None:
        """Start a sync of everything written to `files` up to now, even if they are renamed or removed before it ends.

        `done` is called later on the broker's thread, never from within this call, with None or with the failure. Raises
        `StorageFailed` if the sync cannot begin, and `TryAgain` if it can be requested again. Nothing was synced in either case,
        and `done` is not called. Raises TypeError for an object that does not come from this disk.
        """


class Workers(Protocol):
    """Threads for work that needs only the processor."""

    def run(self, work: Callable[[], None], done: Done, *, is_large: bool) -> None:
        """Run `work` on another thread. It must touch no state that other threads change meanwhile, and must raise nothing.

        `done(None)` is called later on the broker's thread, never from within this call. Work runs in the order of these calls,
        except that small work does not wait for large work (`is_large`).
        """


class EntryExists(Exception):
    """The registry entry that a commit was to create exists."""


class NoEntry(Exception):
    """The registry entry does not exist."""


class VersionConflict(Exception):
    """A compare-and-set found a version other than the expected one."""


class RegistryDamaged(Exception):
    """The registry or one of its entries can't be used: one sentence that names the part and says what to do."""


class Entry(NamedTuple):
    """The value of the registry at one path. `version` starts at 0 and grows by one with every change.

    `created` is the number of the transaction that made the entry. These numbers grow over the whole of a shared registry.
    """

    value: bytes
    version: int
    created: int = 0


NEW = -1
"""The version, in a `Change` or a `Condition`, of an entry that must not exist yet."""


class Change(NamedTuple):
    """One change of a registry entry: its new value, or None to remove the entry and everything below it.

    `version` is the version that the entry must have: a number from `Entry.version`, `NEW`, or None for any. An `ephemeral` entry
    is removed when the session that created it ends. The path of a `sequential` change is a prefix. A shared registry adds ten
    digits to it, so that the path is always new.
    """

    path: str
    value: bytes | None
    version: int | None = None
    ephemeral: bool = False
    sequential: bool = False


class Condition(NamedTuple):
    """A condition of a commit on an entry that the commit does not change: its `version`, or `NEW` if it must not exist."""

    path: str
    version: int


class Entries(Protocol):
    """The reading methods of a registry. Paths are absolute and use "/", as in ZooKeeper."""

    def get(self, path: str) -> Entry | None:
        """Return the entry at a path, or None if it does not exist."""

    def children(self, path: str) -> list[str]:
        """Return the names of the direct children, sorted; an empty list if the entry does not exist."""


CommitSteps: TypeAlias = Steps[None]
"""A commit in progress. One that is never resumed may or may not have been made, as after a crash; the next commit finds out."""


class Registry(Entries, Protocol):
    """The durable state of a lone broker, kept over restarts: a tree of small values with versions and compare-and-set."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Make all changes or none, durable on return. Missing parents are created.

        Raises `EntryExists`, `NoEntry`, `VersionConflict` and `StorageFailed`.
        """

    @property
    def commits(self) -> int:
        """Return how many commits were ever made: a number that grows over restarts."""

    def commit_slowly(self, changes: Sequence[Change]) -> CommitSteps:
        """Commit as `commit` does, without waiting for the disk on the caller's thread: durable when the generator ends.

        Readers may see the changes before they are durable. The next commit finishes this one first, and blocks its caller for
        that.
        """

    def close(self) -> None: ...


class RegistryAway(StorageFailed):
    """A shared registry cannot be reached now, or the session has ended. Whether a commit was made is unknown."""


class RegistryRefused(StorageFailed):
    """A shared registry refuses a call for good: rights, sizes, quotas of its own. Nothing was changed."""


class SessionEvent(Enum):
    """A change in a broker's session with the shared registry."""

    BEGUN = "begun"
    """A session began, the first or a later one. Ephemeral entries and watches of an earlier session are gone."""

    AWAY = "away"
    """The connection to the registry is lost. The session may still be alive; watches may have missed a change."""

    BACK = "back"
    """The connection is back, and the session survived."""

    ENDED = "ended"
    """The session is over. A new one begins without a call once the registry can be reached."""


class SharedRegistry(Protocol):
    """The state that brokers share: a tree of small values with versions, compare-and-set, ephemeral entries and watches.

    It is reached over a network, so no method but `close` blocks, and every callback is called later, on the broker's thread. All
    steps raise `RegistryAway` while the registry cannot be reached, and `RegistryRefused` if it refuses a call (rights, sizes).
    """

    @property
    def timeout_ms(self) -> int:
        """Return the session timeout in milliseconds, as negotiated with the registry."""

    def read(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> Steps[list[Entry | None]]:
        """Return the current entries in the order of `paths`, None for each that does not exist.

        With `changed`, each path gets a watch. `changed(path)` is called once: when the entry is made, changed or removed, or when
        the connection broke so that a change may have been missed. A path read twice with the same function gets one call.
        """

    def list(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> Steps[list[list[str] | None]]:
        """Return for each path the sorted names of the entry's children, or None if it does not exist.

        With `changed`, each path gets a watch: `changed(path)` is called once, when a child is made or removed or the entry itself
        is removed. If the entry does not exist, it is called when the entry is made.
        """

    def commit(self, changes: Sequence[Change | Condition]) -> CommitSteps:
        """Make all changes or none. Missing parents are created.

        Raises `EntryExists`, `NoEntry` and `VersionConflict`, and `RegistryAway` if it is unknown whether the changes were made.
        """

    def lives_until_ms(self) -> int:
        """Return the monotonic time in ms until which the registry cannot have ended this session; 0 while there is no session."""

    def on_session(self, told: Callable[[SessionEvent], None]) -> None:
        """Register a callback for every later `SessionEvent`, from the beginning of the first session on."""

    def close(self) -> None:
        """End the session now, and block until its ephemeral entries are gone, if the registry can be reached."""


class BrokerLink(Protocol):
    """Requests to one broker, in order, over a connection that is opened on first use and reopened after it broke."""

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: Callable[[memoryview | None], None]) -> None:
        """Send one request: the parts of its frame, including the length.

        `answered` is called later with the response's frame, without its length. It is called with None if the connection broke or
        was refused, or no response came within `timeout_ms`; whether the broker handled the request is unknown then.
        """

    def close(self) -> None:
        """Close the connection, and call `answered(None)` for every pending request."""


class Links(Protocol):
    """Connections from this broker to others, with the security protocol of the inter-broker listener."""

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> BrokerLink:
        """Return a link that connects on first use.

        The operating system sizes its receive buffer if `receive_buffer_bytes` is below 1.
        """


class ClusterPorts(NamedTuple):
    """The ports that only a broker of a cluster has."""

    registry: SharedRegistry
    links: Links
