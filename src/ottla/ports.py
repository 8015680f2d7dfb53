"""The ports: protocols for the clock, the disk, threads, the registry and connections, and the values that pass through them.

Pure packages get the ports as arguments, and reach the outside only through them. `ottla.net` implements the ports with the real
clock, disk and registry, and `ottla.sim` with faults that a seed decides. This module imports no other module of the project.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from ottla.values import dataclass

Buffer = bytes | bytearray | memoryview

T = TypeVar("T")


class Now(NamedTuple):
    """One reading of the clock.

    `wall_ms` is the time in milliseconds since 1970. It goes into records and replies, and can jump. `mono_ms` is a number of
    milliseconds that never decreases. Every deadline is a value of `mono_ms`.
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
"""The callback of an operation that completes later. Its argument is the failure, or None after a success."""

Pause = Callable[[Done], None] | None
"""The reason for a pause of `Steps`: None lets other work run, and a callable starts an operation.

The callable gets a `Done` callback. It calls the callback once, after it has returned, when the operation ends. A `StorageFailed`
that the callable itself raises counts as the operation's failure. `partial(disk.sync_soon, files)` is such a callable.
"""

Steps: TypeAlias = Generator[Pause, StorageFailed | None, T]
"""A generator that works in steps. It pauses with `yield`.

At most a few milliseconds of work precede each `yield None`. `yield start`, with a callable of `Pause`, evaluates to the
operation's failure, or to None.
"""

Pauses: TypeAlias = Generator[None, object, T]
"""Steps that pause only to let other work run. They wait for no operation, so a caller can also run them without pauses."""


class TryAgain(StorageFailed):
    """The operating system lacks a resource at the moment, such as file handles. The call had no effect and can be repeated."""


class SyncFailed(StorageFailed):
    """A sync began and failed: no later sync can find out which of its data is on stable storage.

    The operating system reports such a failure once, and may have dropped the pages that it could not write. The contents of this
    file or directory are uncertain until another process has read them from the disk.
    """


class Syncable(Protocol):
    """An object that can be made durable: the contents of a file, or the names in a directory."""

    @property
    def path(self) -> str: ...

    def sync(self) -> None:
        """Return once the contents are durable.

        Raises `SyncFailed` if the sync failed; every later call then raises it, too. Raises `StorageFailed` if the sync could not
        begin.
        """


class Readable(Protocol):
    """A file open for reading. `path` is relative to the data directory. Every method raises `StorageFailed`."""

    @property
    def path(self) -> str: ...

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, or fewer if the file ends before."""

    def close(self) -> None: ...


class File(Syncable, Readable, Protocol):
    """A file open for reading and writing. Positions and sizes are in bytes.

    Every method raises `StorageFailed` where the operating system raises OSError. A closed file is opened again on its next use. If
    a file's name was removed or given to another file, the file can still be read until it is closed, and a sync that was requested
    before still works. All other calls fail.
    """

    @property
    def size(self) -> int: ...

    @property
    def has_name(self) -> bool:
        """Return whether the file still has a name; False if another program removed it."""

    @property
    def rewrites(self) -> int:
        """Return the number of calls of `write` and `truncate`. While it stays the same, all changes are appends."""

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end, in order, and return the position of the first one.

        A failed append does not change `size`.
        """

    def write(self, position: int, data: Buffer) -> None: ...

    def truncate(self, size: int) -> None: ...

    def reserve(self, size: int) -> None:
        """Extend the file on disk to `size` bytes with zeros. `truncate` frees the zeros.

        The attribute `size` does not change, so the next append overwrites the zeros. A file object opened after this call counts
        the zeros as contents.
        """


@dataclass(frozen=True, slots=True)
class FileSlice:
    """`size` bytes of `file` from `position`. The network sends them with sendfile, so Python never copies them."""

    file: File
    position: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        return self.file.read(self.position, self.size)


Part = Buffer | FileSlice
"""One piece of a reply that is to be sent."""


class Room(Protocol):
    """A preallocated file for synchronous writes of whole blocks, past the page cache where the file system allows that.

    `path` is the path given to `make_room`, and `size` the file's size in bytes. Positions are multiples of `alignment`, which is a
    power of two from 512 bytes up. `is_direct` is False where the file system refuses direct writes, so that each write is followed
    by a sync. `alignment` and `is_direct` are valid once `done(None)` of `make_room` was called.
    """

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def alignment(self) -> int: ...

    @property
    def is_direct(self) -> bool: ...

    def write_soon(self, position: int, buffers: Sequence[Buffer], done: Done) -> None:
        """Start a write of all buffers, in order, at `position`, padded with zeros to a multiple of `alignment`.

        The buffers are copied before this call returns. `done` is called after this call has returned, on the broker's thread:
        with None when everything is on stable storage, or with the failure. After a failure the contents of the written range are
        uncertain, and every later write fails with `SyncFailed`. The caller waits for `done` before it writes again, and stays
        within `size`; an AssertionError reports a caller that does not.
        """

    def close(self) -> None:
        """Wait for the write under way, then release the file. Its `done` is called all the same.

        If the room is not ready, the `done` of `make_room` is called with a failure.
        """


class Disk(Protocol):
    """A directory tree. Paths are relative to the data directory and use "/". Every method raises `StorageFailed`.

    The directories of `log.dirs` outside of the data directory have absolute paths. They exist when the disk is made. A name at the
    top of the data directory, such as that of a partition's directory, can be put into one of them: see `put`.
    """

    def open(self, path: str, *, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool:
        """Return whether a file or directory has this name. Raises `StorageFailed` if the disk does not answer."""

    def list(self, path: str) -> list[str]:
        """Return the sorted names in a directory, or an empty list if the directory does not exist."""

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """Return the time of a file's last write, in milliseconds since 1970."""

    def put(self, name: str, directory: str) -> None:
        """Let a name without "/" be in another directory from now on; "" is the data directory.

        The name, and every path that begins with it, then means a file or directory there. Nothing on the disk changes. A rename to
        another such name stays in the directory, and a removal of the tree ends this.
        """

    def exchange(self, name: str, copy: str) -> None:
        """Let `copy`, a directory with the same contents, become `name`, and let `copy` mean the former directory of `name`.

        On the disk, `copy` is renamed within its directory; the new name is durable after the next sync of a file in it or of the
        directory with it. Open files below `name` are those of the copy from now on, and nothing of them is synced. Files of `copy`
        must not be used any more. Raises `TryAgain` while a sync of a file below `name` is running.
        """

    def make_dir(self, path: str) -> None:
        """Make a directory and its missing parents.

        The new names become durable with the first sync of an entry in the directory.
        """

    def rename(self, path: str, to: str, *, sync: bool = True) -> None:
        """Rename atomically, and replace any file named `to`.

        With `sync`, the new name is durable on return; without it, after the next sync of the directory.
        """

    def remove(self, path: str) -> None: ...

    def remove_soon(self, path: str) -> None:
        """Remove a file in the background. If the process ends before the removal, the file exists at the next start."""

    def remove_tree(self, path: str) -> None: ...

    def remove_tree_soon(self, path: str) -> None:
        """Remove a directory in the background, because freeing large files takes long.

        If the process ends before the removal, the remaining files exist at the next start.
        """

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        """Replace a small file as a whole and atomically: write a temporary file, sync it, rename it."""

    def sync_dir(self, path: str) -> None:
        """Return once the names in a directory are durable.

        Raises `SyncFailed` if the sync failed; every later call then raises it, too.
        """

    def directory(self, path: str) -> Syncable:
        """Return a directory as an argument for `sync_soon`, which does not block as `sync_dir` does."""

    def room(self, path: str = "") -> tuple[int, int]:
        """Return (the size of a directory's file system in bytes, the number of bytes that can still be written).

        Raises `StorageFailed` also if a log directory is not the one that was there at the start, because its disk was unmounted.
        """

    def make_room(self, path: str, size: int, done: Done) -> Room:
        """Open or make a room of `size` bytes, a multiple of 4096, in the background.

        The room is usable once `done(None)` was called, on the broker's thread, after this call has returned; until then nothing
        may be written. An existing file of this size keeps its contents, which are durable then. Otherwise a file of zeros replaces
        the file of this name, atomically and durably; missing directories are made. If that fails, as on a full disk, `done` is
        called with the failure, and the former file remains. No other file object of this name may be used for writing.
        """

    def sync_soon(self, files: Iterable[Syncable], done: Done) -> None:
        """Start a sync of everything written to `files` so far.

        Renaming or removing a file before the sync ends does not affect the sync. `done` is called after this call has returned, on
        the broker's thread, with None or with the failure. Raises `StorageFailed` if the sync cannot begin, and `TryAgain` if the
        caller can repeat the request. In both cases nothing is synced and `done` is not called. Raises TypeError for an object that
        does not come from this disk.
        """


class Workers(Protocol):
    """Threads for work that uses only the processor."""

    def run(self, work: Callable[[], None], done: Done, *, is_large: bool) -> None:
        """Run `work` on another thread. `work` must not raise, and must not touch state that other threads change while it runs.

        `done(None)` is called after this call has returned, on the broker's thread. Work runs in the order of these calls, with one
        exception: small work does not wait for large work (`is_large`).
        """


class Loggers(Protocol):
    """The loggers of the broker's process, named in a dotted hierarchy. Levels are Python's numbers."""

    def levels(self) -> dict[str, int]:
        """Return the effective level of each logger: its own level, or the level of the nearest parent that has one.

        The first is `root`.
        """

    def set_level(self, name: str, level: int | None) -> None:
        """Set the level of an existing logger. None removes the level, so that the level of the nearest parent applies."""


class DuplicateEntry(Exception):
    """A commit would have created a registry entry that exists already."""


class NoEntry(Exception):
    """The registry entry does not exist."""


class VersionConflict(Exception):
    """A compare-and-set found a version other than the expected one."""


class RegistryDamaged(Exception):
    """The registry or one of its entries is unusable. The message names the damaged part and says what to do."""


class Entry(NamedTuple):
    """One entry of the registry: its value and version. `version` is 0 at first and grows by one with every change.

    `created` is the number of the transaction that created the entry. Transactions of a shared registry have increasing numbers.
    """

    value: bytes
    version: int
    created: int = 0


NEW = -1
"""The version, in a `Change` or a `Condition`, of an entry that must not exist."""


class Change(NamedTuple):
    """One change of a registry entry: its new value, or None to remove the entry and everything below it.

    `version` is the version that the entry must have: a number from `Entry.version`, `NEW`, or None for any version. An `ephemeral`
    entry is removed when the session that created it ends. The path of a `sequential` change is a prefix: a shared registry appends
    ten digits, so that the path is always new. `may_use_spare` lets the change use a full disk's reserve, because deletions depend
    on the change.
    """

    path: str
    value: bytes | None
    version: int | None = None
    ephemeral: bool = False
    sequential: bool = False
    may_use_spare: bool = False


class Condition(NamedTuple):
    """A condition of a commit on an entry that the commit does not change.

    `version` is the version that the entry must have, or `NEW` if the entry must not exist.
    """

    path: str
    version: int


class Entries(Protocol):
    """The reading methods of a registry. Paths are absolute and use "/", as in ZooKeeper."""

    def get(self, path: str) -> Entry | None:
        """Return the entry at a path, or None if it does not exist."""

    def children(self, path: str) -> list[str]:
        """Return the sorted names of the direct children, or an empty list if the entry does not exist."""


CommitSteps: TypeAlias = Steps[None]
"""A commit in progress.

If the generator is abandoned, the commit may or may not be made, as after a crash. The next commit finds out.
"""


class Registry(Entries, Protocol):
    """The durable state of a lone broker, which survives restarts: a tree of small values with versions and compare-and-set."""

    def commit(self, changes: Sequence[Change]) -> None:
        """Make all changes or none; they are durable on return. Missing parents are created.

        Raises `DuplicateEntry`, `NoEntry`, `VersionConflict` and `StorageFailed`.
        """

    @property
    def commits(self) -> int:
        """Return the number of all commits so far, including the commits of previous runs."""

    def commit_slowly(self, changes: Sequence[Change]) -> CommitSteps:
        """Make the changes of a commit as `commit` does, but without blocking the caller's thread on the disk.

        The changes are durable when the generator ends. Readers can see the changes before they are durable. If another commit
        begins before the generator ends, that commit first finishes this one on its caller's thread.
        """

    def close(self) -> None: ...


class RegistryAway(StorageFailed):
    """The shared registry is unreachable, or the session has ended. Whether a commit was made is unknown."""


class RegistryRefused(StorageFailed):
    """The shared registry rejects a call permanently because of rights, sizes or its own quotas. Nothing was changed."""


Post: TypeAlias = Callable[[Callable[[], None]], None]
"""A function that schedules a call on the broker's thread. Any other thread may call it."""


class SessionEvent(Enum):
    """A change in a broker's session with the shared registry."""

    BEGUN = "begun"
    """A session began. Ephemeral entries and watches of every previous session are gone."""

    AWAY = "away"
    """The connection to the registry is lost. The session may still be alive. Watches may have missed a change."""

    BACK = "back"
    """The connection is back, and the session survived."""

    ENDED = "ended"
    """The session has ended. A new session begins automatically once the registry can be reached."""


class SharedRegistry(Protocol):
    """The state that brokers share: a tree of small values with versions, compare-and-set, ephemeral entries and watches.

    The registry is reached over a network. Only `close` blocks. Every callback is called on the broker's thread, after the method
    that registered it has returned. All steps raise `RegistryAway` while the registry is unreachable, and `RegistryRefused` if the
    registry rejects a call (rights, sizes).
    """

    @property
    def timeout_ms(self) -> int:
        """Return the session timeout in milliseconds, as negotiated with the registry."""

    def read(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> Steps[list[Entry | None]]:
        """Return the current entries in the order of `paths`, with None for each entry that does not exist.

        With `changed`, each path gets a watch. A watch calls `changed(path)` once: when the entry is created, changed or removed,
        or when the connection broke and a change may have been missed. If a path is read twice with the same function, the function
        is called once.
        """

    def list(self, paths: Sequence[str], *, changed: Callable[[str], None] | None = None) -> Steps[list[list[str] | None]]:
        """Return for each path the sorted names of the entry's children, or None if the entry does not exist.

        With `changed`, each path gets a watch. A watch calls `changed(path)` once: when a child is created or removed, or when the
        entry itself is created or removed.
        """

    def commit(self, changes: Sequence[Change | Condition]) -> CommitSteps:
        """Make all changes or none. Missing parents are created.

        Raises `DuplicateEntry`, `NoEntry` and `VersionConflict`. Raises `RegistryAway` if their outcome is unknown.
        """

    def session_end_ms(self) -> int:
        """Return the monotonic time, in ms, before which the registry cannot end this session; 0 while there is no session."""

    def on_session(self, told: Callable[[SessionEvent], None]) -> None:
        """Register a callback for every later `SessionEvent`, including the `BEGUN` of the first session."""

    def close(self) -> None:
        """End the session. If the registry can be reached, block until the session's ephemeral entries are removed."""


class BrokerLink(Protocol):
    """Requests to one broker, in order, over a connection that opens on first use and opens again after it broke."""

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: Callable[[memoryview | None], None]) -> None:
        """Send one request. `frame` consists of the parts of the request's frame, including its length.

        `answered` is called later with the response's frame, without its length. It is called with None if the connection broke or
        was refused, or if no response came within `timeout_ms`. Whether the broker handled the request is then unknown.
        """

    def close(self) -> None:
        """Close the connection, and call `answered(None)` of every pending request."""


class Links(Protocol):
    """A factory of connections from this broker to other brokers, with the security protocol of the inter-broker listener."""

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> BrokerLink:
        """Return a link that connects on first use.

        If `receive_buffer_bytes` is below 1, the operating system chooses the size of the connection's receive buffer.
        """
