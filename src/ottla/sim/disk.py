"""A disk in memory with the faults of real disks: it loses unsynced data, tears writes, fills up, fails and flips bits.

It has the port and the contract tests of the real disk. Every choice comes from the given `random.Random`, so that a failure can be
repeated. Unlike a real disk, this disk loses synced data only by a flipped bit: it has no bad sectors, and `fsck` truncates no
files. After a failed sync, a real kernel can drop a page and then report success to another process. This disk never reports
success for such a page. Operations are atomic: a power cut comes between two of them. Directories removed in the background are
gone at once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

from ottla.log.name_places import NamePlaces
from ottla.ports import Buffer, Done, StorageFailed, Syncable, SyncFailed, TryAgain
from ottla.sim.rooms import SimRoom
from ottla.sim.storage import SECTOR_BYTES, Folder, Inode

NO_SPACE = "No space left on device"
IO_ERROR = "Input/output error"
TOO_MANY_FILES = "Too many open files"
NOT_THERE = "No such file or directory"
UNBOUNDED_BYTES = 1 << 40

OPENING = frozenset(("open", "read_file", "write_file"))
"""The operations that need a file handle. They fail while no handle is free."""


class SimFile:
    """A file of a `SimDisk`. It is unusable after a crash. Like a real file, it can be closed, and opened again by its name."""

    def __init__(self, disk: SimDisk, node: Inode, *, is_new: bool) -> None:
        self.size = len(node.data)
        self.rewrites = 0
        self._disk = disk
        self._node = node
        self._life = disk.life
        self._is_new = is_new
        self._is_open = True
        self._pins = 0
        self._directory: SimDirectory | None = None
        self._failure: str | None = None

    @property
    def path(self) -> str:
        return self._node.path

    @property
    def has_name(self) -> bool:
        self._must_live()
        return self._node.names > 0

    def append(self, buffers: Sequence[Buffer]) -> int:
        size = sum(map(len, buffers))
        self._may("append", size)
        start = self.size
        self._node.write(start, b"".join(buffers))
        self._touch(start + size)
        return start

    def reserve(self, size: int) -> None:
        self._may("reserve")
        if size > self.size:
            self._node.truncate(size)

    def read(self, position: int, size: int) -> bytes:
        self._may("read")
        return bytes(self._node.data[position : position + size])

    def write(self, position: int, data: Buffer) -> None:
        self.rewrites += 1
        self._may("write", max(0, position + len(data) - self.size))
        self._node.write(position, data)
        self._touch(max(self.size, position + len(data)))

    def truncate(self, size: int) -> None:
        self.rewrites += 1
        self._may("truncate")
        self._node.truncate(size)
        self._touch(size)

    def sync(self) -> None:
        """Sync the contents, and also the name if the file is new."""
        if self._pins:
            self._sync()
            return
        self.pin()
        try:
            self._sync()
        finally:
            self.unpin()

    def _sync(self) -> None:
        if self._failure is not None:
            raise SyncFailed(self.path, self._failure)
        self._must_live()
        try:
            self._disk.may_sync("sync", self.path)
            self._node.sync()
            if self._directory is not None:
                self._directory.sync()
                self._is_new = False
        except StorageFailed as failure:
            self._failure = failure.reason  # not the exception: its traceback would keep this file alive
            raise

    def close(self) -> None:
        """Close the file's handle. The next use of the file opens it again, unless its name was removed."""
        self._is_open = self._pins > 0

    def use_copy(self, node: Inode) -> None:
        """Use the copy of the file, which has got the file's name, from now on. Nothing of the copy counts as synced."""
        del self._disk.handles[self._node]
        self._disk.handles[node] = weakref.ref(self)
        self._node, self._is_new, self._failure = node, True, None

    def pin(self) -> None:
        """Keep the file usable, even if its name is removed, until the requested sync is done."""
        self._must_live()
        if not self._pins and not self._node.names:
            raise StorageFailed(self.path, "it is deleted")
        self._open_again()
        if self._is_new and self._directory is None:
            directory = self._disk.directory(_parent(self.path))
            directory.pin()
            self._directory = directory
        self._pins += 1

    def unpin(self) -> None:
        self._pins -= 1
        if not self._pins and self._directory is not None:
            self._directory.unpin()
            self._directory = None

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_pinned(self) -> bool:
        return self._pins > 0

    def _may(self, operation: str, size: int = 0) -> None:
        self._must_live()
        self._open_again()
        self._disk.may(operation, self.path, size)

    def _must_live(self) -> None:
        if self._life != self._disk.life:
            raise StorageFailed(self.path, "the file was open when the disk crashed")

    def _open_again(self) -> None:
        if self._is_open:
            return
        if not self._node.names:
            raise StorageFailed(self.path, "it is deleted")
        self._disk.may("open", self.path)
        self._is_open = True

    def _touch(self, size: int) -> None:
        self.size = size
        self._node.modified_ms = self._disk.wall_ms


class SimDirectory:
    """One directory of a `SimDisk`, as an object whose names can be synced.

    While pinned, the names can be synced even if the directory is renamed or removed.
    """

    def __init__(self, disk: SimDisk, path: str) -> None:
        self.path = path
        self._disk = disk
        self._held: Sequence[Folder] = ()
        self._pins = 0

    def pin(self) -> None:
        if not self._pins:
            self._held = self._disk.hold(self.path)
        self._pins += 1

    def unpin(self) -> None:
        self._pins -= 1

    def sync(self) -> None:
        """Sync the names in this directory. If the directory or a parent of it is new, sync its name, too."""
        for folder in self._held if self._pins else self._disk.hold(self.path):
            if folder.failure is not None:
                raise SyncFailed(folder.path, folder.failure)
            try:
                self._disk.may_sync("sync_dir", folder.path)
            except SyncFailed as failure:
                folder.fail(failure.reason)
                raise
            folder.sync()


class SimDisk:
    """A `Disk` in memory, with failures that tests order.

    `capacity_bytes` is the size of the disk (None: no limit), and `wall_ms` is the timestamp of files that are written now.
    `operations` is the number of operations since the disk was made. `life` is the number of power cuts and killed processes. While
    `lacks_handles` is set, no file can be opened. Writes to rooms are padded to multiples of `room_alignment`.
    """

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.wall_ms = 0
        self.life = 0
        self.operations = 0
        self.lacks_handles = False
        self.room_alignment = SECTOR_BYTES
        self._root = Folder()
        self._failing: dict[int, str] = {}
        self._failing_names: str | None = None
        self._syncs: list[tuple[Sequence[SimFile | SimDirectory | SimRoom], Done]] = []
        self._removals: list[tuple[Folder, str]] = []
        self._places = NamePlaces()
        self.handles: weakref.WeakKeyDictionary[Inode, weakref.ref[SimFile]] = weakref.WeakKeyDictionary()

    # Faults to order

    def fail(self, after: int, reason: str = IO_ERROR, *, count: int = 1) -> None:
        """Make `count` operations fail, after the next `after` operations.

        With the reason `TOO_MANY_FILES`, only operations that need a file handle fail.
        """
        for number in range(count):
            self._failing[self.operations + after + 1 + number] = reason

    def fail_names(self, reason: str = IO_ERROR) -> None:
        """Make the next sync of a directory fail with `reason`."""
        self._failing_names = reason

    def heal(self) -> None:
        """Cancel the failures that `fail` and `fail_names` have ordered and that have not happened yet."""
        self._failing.clear()
        self._failing_names = None

    @contextmanager
    def suspend_faults(self) -> Iterator[None]:
        """Suspend failures and the count of operations within this context manager, for the simulation's own checks."""
        failing, operations, self._failing = self._failing, self.operations, {}
        try:
            yield
        finally:
            self._failing, self.operations = failing, operations

    def crash(self, random: Random) -> None:
        """Cut the power: unsynced data is lost as a whole, in part or not at all, and open files become unusable."""
        self._die()
        self.heal()
        self._root = self._root.survivor(random, {})

    def kill(self, random: Random | None = None) -> None:
        """End the process. All written data remains, but the next process cannot find out which part of it is synced.

        With `random`, any sectors of the pending write of a room are missing.
        """
        for room in (file for files, _ in self._syncs for file in files if isinstance(file, SimRoom)):
            if random is not None:
                room.tear(random)
        self._die()
        for folder in self._root.folders():
            folder.forget_process()

    def close_handles(self) -> None:
        """Close all files, as the real disk does with files that were not used recently. The next use opens a file again."""
        for file in self.handles.values():
            held = file()
            if held is not None:
                held.close()

    def flip_bit(self, path: str, bit: int) -> None:
        """Flip one bit of a file, in its current and its durable contents."""
        node = self.node(self._places.real(path))
        node.write(bit // 8, bytes([node.data[bit // 8] ^ 1 << bit % 8]))
        node.sync()

    @property
    def used_bytes(self) -> int:
        return sum(node.end for node in self._root.nodes())

    @property
    def has_failed_names(self) -> bool:
        """Return whether a sync of a directory has failed in this process.

        After such a failure it is unknown which names of the directory are durable.
        """
        return any(folder.failure is not None for folder in self._root.folders())

    def run_syncs(self, is_held: Callable[[Sequence[Syncable]], bool] = lambda files: False) -> int:
        """Make the requested removals, syncs, rooms and writes of rooms, and call their callbacks.

        Return the number of the requests with callbacks. A sync stays pending if `is_held` returns True for its files, and work of
        a room if it does so for the room.
        """
        removals, self._removals = self._removals, []
        for folder, name in removals:
            if name in folder.names:
                folder.unlink(name)
        asked, self._syncs = self._syncs, []
        for files, done in asked:
            if is_held(files):
                self._syncs.append((files, done))
                continue
            failure = _sync(files)
            for file in files:
                file.unpin()
            done(failure)
        return len(asked)

    # The port

    def put(self, name: str, directory: str) -> None:
        self._places.put(name, directory)

    def exchange(self, name: str, copy: str) -> None:
        here, there, to = self._places.real(name), self._places.real(copy), self._places.target(copy, name)
        self.may("rename", there)
        old, new = self._folder(here, here), self._folder(there, there)
        files = {key: file for key, node in old.names.items() if (file := self._file(node)) is not None}
        if any(file.is_pinned for file in files.values()):
            raise TryAgain(here, "a sync of its files is running")
        self._move(there, to)
        new.is_new, new.is_known = True, False
        self._places.exchange(name, copy)
        for key, file in files.items():
            file.use_copy(self.node(f"{to}/{key}"))

    def _file(self, node: Inode | Folder) -> SimFile | None:
        """Return the file object of a file, if there is one in this process."""
        known = self.handles.get(node) if isinstance(node, Inode) else None
        file = known() if known is not None else None
        return file if file is not None and file._life == self.life else None

    def open(self, path: str, *, create: bool = False) -> SimFile:
        path = self._places.real(path)
        self.may("open", path)
        entry, is_new = self._find(path), False
        if entry is None:
            if not create:
                raise StorageFailed(path, NOT_THERE)
            entry, is_new = Inode(modified_ms=self.wall_ms), True
            self._folder(_parent(path), path).link(_name(path), entry)
        elif isinstance(entry, Folder):
            raise StorageFailed(path, "Is a directory")
        file = self._file(entry)
        if file is None:
            file = SimFile(self, entry, is_new=is_new or not self._folder(_parent(path), path).is_known)
            self.handles[entry] = weakref.ref(file)
        return file

    def exists(self, path: str) -> bool:
        path = self._places.real(path)
        self.may("exists", path)
        return self._find(path) is not None

    def list(self, path: str) -> list[str]:
        path = self._places.real(path)
        entry = self._find(path)
        if isinstance(entry, Inode):
            raise StorageFailed(path, "Not a directory")
        return sorted(entry.names) if entry is not None else []

    def size(self, path: str) -> int:
        return len(self.node(self._places.real(path)).data)

    def modified_ms(self, path: str) -> int:
        return self.node(self._places.real(path)).modified_ms

    def make_dir(self, path: str) -> None:
        path = self._places.real(path)
        above = _parent(path)
        if above and not self.exists(above):
            self.make_dir(above)
        self.may("make_dir", path)
        folder = self._folder(above, path)
        if _name(path) not in folder.names:
            made = Folder()
            made.is_new = True
            folder.link(_name(path), made)

    def rename(self, path: str, to: str, *, sync: bool = True) -> None:
        real, target = self._places.real(path), self._places.target(path, to)
        self.may("rename", real)
        self._move(real, target)
        self._places.rename(path, to)
        path, to = real, target
        if sync:
            self.sync_dir(_parent(to))
            if _parent(path) != _parent(to):
                self.sync_dir(_parent(path))

    def _move(self, path: str, to: str) -> None:
        entry, replaced = self._find(path), self._find(to)
        if entry is None:
            raise StorageFailed(path, NOT_THERE)
        if isinstance(replaced, Folder) and replaced.names:
            raise StorageFailed(path, "Directory not empty")
        source, target = self._folder(_parent(path), path), self._folder(_parent(to), path)
        if source is target:
            source.move(_name(path), _name(to))
        else:
            source.unlink(_name(path))
            target.link(_name(to), entry)

    def remove(self, path: str) -> None:
        path = self._places.real(path)
        self.may("remove", path)
        self.node(path)
        self._folder(_parent(path), path).unlink(_name(path))

    def remove_soon(self, path: str) -> None:
        path = self._places.real(path)
        file = self._file(self.node(path))
        if file is not None and file.is_open:
            self.remove(path)
        else:
            self._removals.append((self._folder(_parent(path), path), _name(path)))

    def remove_tree(self, path: str) -> None:
        name, path = path, self._places.real(path)
        self.may("remove_tree", path)
        folder = self._find(path)
        if isinstance(folder, Inode):
            raise StorageFailed(path, "Not a directory")
        if folder is not None:
            self._clear(folder)
            self._folder(_parent(path), path).unlink(_name(path))
        self._places.remove(name)

    def _clear(self, folder: Folder) -> None:
        for name, entry in tuple(folder.names.items()):
            if isinstance(entry, Folder):
                self._clear(entry)
            folder.unlink(name)

    def remove_tree_soon(self, path: str) -> None:
        self.remove_tree(path)

    def read_file(self, path: str) -> bytes:
        path = self._places.real(path)
        self.may("read_file", path)
        return bytes(self.node(path).data)

    def write_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        path = self._places.real(path)
        folder, name, temporary = self._folder(_parent(path), path), _name(path), _name(path) + ".tmp"
        try:
            self.may("write_file", path, len(data))
            node = Inode(modified_ms=self.wall_ms)
            folder.link(temporary, node)
            node.write(0, data)
            if sync:
                self.may("sync", path)
                node.sync()
            self.may("rename", path)
            folder.move(temporary, name)
        except StorageFailed:
            if temporary in folder.names:
                folder.unlink(temporary)
            raise
        if sync:
            self.sync_dir(_parent(path))

    def sync_dir(self, path: str) -> None:
        self.directory(path).sync()

    def room(self, path: str = "") -> tuple[int, int]:
        path = self._places.real(path)
        self.may("room", path)
        total = UNBOUNDED_BYTES if self.capacity_bytes is None else self.capacity_bytes
        return total, max(0, total - self.used_bytes)

    def directory(self, path: str) -> SimDirectory:
        return SimDirectory(self, self._places.real(path))

    def sync_soon(self, files: Iterable[Syncable], done: Done) -> None:
        asked = [_own(file) for file in files]
        pinned: list[SimFile | SimDirectory] = []
        try:
            for file in asked:
                file.pin()
                pinned.append(file)
        except StorageFailed:
            for file in pinned:
                file.unpin()
            raise
        self.add_pending(asked, done)

    def make_room(self, path: str, size: int, done: Done) -> SimRoom:
        room = SimRoom(self, path, self._places.real(path), size)
        self.add_pending([room], done)
        return room

    # For its files and rooms

    def add_pending(self, files: Sequence[SimFile | SimDirectory | SimRoom], done: Done) -> None:
        """Add pinned files, or a room, whose sync `run_syncs` makes."""
        self._syncs.append((files, done))

    def may(self, operation: str, path: str, size: int = 0) -> None:
        """Count an operation. Raises `StorageFailed` if the operation must fail, or if the disk is full.

        Raises `TryAgain` if the operation needs a file handle and none is free.
        """
        self.operations += 1
        reason = self._failing.pop(self.operations, None)
        if operation == "sync_dir" and self._failing_names is not None:
            reason, self._failing_names = self._failing_names, None
        if self.lacks_handles and operation in OPENING:
            raise TryAgain(path, f"{TOO_MANY_FILES} ({operation})")
        if reason == TOO_MANY_FILES:
            if operation in OPENING:
                raise TryAgain(path, f"{reason} ({operation})")
            self._failing.setdefault(self.operations + 1, reason)
            reason = None
        if reason is None and size and self.capacity_bytes is not None and self.used_bytes + size > self.capacity_bytes:
            reason = NO_SPACE
        if reason is not None:
            raise StorageFailed(path, f"{reason} ({operation})" if reason != NO_SPACE else reason)

    def may_sync(self, operation: str, path: str) -> None:
        """Count a sync. Raises `SyncFailed` if the sync was ordered to fail."""
        try:
            self.may(operation, path)
        except StorageFailed as failure:
            raise SyncFailed(path, failure.reason) from failure

    def hold(self, path: str) -> Sequence[Folder]:
        """Return the directory `path` and its new ancestors. Their names must be synced together with the directory."""
        self.may("open", path)
        folder = self._folder(path, path)
        held = [folder]
        while folder.parent is not None and (folder.is_new or not folder.parent.is_known):
            folder = folder.parent
            held.append(folder)
        return held

    def _die(self) -> None:
        self.life += 1
        self._syncs.clear()
        self._removals.clear()
        self.handles.clear()
        self._places.clear()

    def _find(self, path: str) -> Inode | Folder | None:
        entry: Inode | Folder | None = self._root
        for name in path.split("/") if path else ():
            entry = entry.names.get(name) if isinstance(entry, Folder) else None
        return entry

    def _folder(self, path: str, asked: str) -> Folder:
        """Return the directory `path`. Raises `StorageFailed`, with the path `asked`, if the directory does not exist."""
        folder = self._find(path)
        if not isinstance(folder, Folder):
            raise StorageFailed(asked, NOT_THERE if folder is None else "Not a directory")
        return folder

    def node(self, path: str) -> Inode:
        node = self._find(path)
        if not isinstance(node, Inode):
            raise StorageFailed(path, NOT_THERE if node is None else "Is a directory")
        return node


def _own(file: Syncable) -> SimFile | SimDirectory:
    """Return `file` as a file or directory of a `SimDisk`. Raises TypeError for a file of another disk, which this disk cannot
    sync.
    """
    if not isinstance(file, SimFile | SimDirectory):
        raise TypeError(f"{file!r} is not of this disk")
    return file


def _sync(files: Sequence[SimFile | SimDirectory | SimRoom]) -> StorageFailed | None:
    """Sync every file, also after a failure, as the real disk's threads do. Return the first failure, or None."""
    first: StorageFailed | None = None
    for file in files:
        try:
            file.sync()
        except StorageFailed as failure:
            first = first or failure.with_traceback(None)
    return first


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _name(path: str) -> str:
    return path.rpartition("/")[2]
