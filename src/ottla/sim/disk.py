"""A disk in memory that fails as real ones do: it forgets what was not synced, tears writes, runs full, breaks and flips bits.

Same port as `ottla.net.disk`. Every choice it makes comes from the `random.Random` it is given, so that a failure can be replayed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ottla.ports import Buffer, StorageFailed, Syncable

NO_SPACE = "No space left on device"
IO_ERROR = "Input/output error"
UNBOUNDED_BYTES = 1 << 40

Done = Callable[[StorageFailed | None], None]


@dataclass(slots=True, eq=False)
class Node:
    """What a file holds now, what of it is stable, and what was written since: (position, data), or (size, None) for a cut.

    `end` is where appends go in a file that room was reserved for. `names`: how many it has; a power cut may leave two.
    """

    data: bytearray = field(default_factory=bytearray)
    stable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    modified_ms: int = 0
    end: int | None = None
    names: int = 0

    def write(self, position: int, data: Buffer) -> None:
        if position > len(self.data):
            self.data.extend(bytes(position - len(self.data)))
        self.data[position : position + len(data)] = data
        self.pending.append((position, bytes(data)))

    def truncate(self, size: int) -> None:
        del self.data[size:]
        self.data.extend(bytes(size - len(self.data)))
        self.pending.append((size, None))

    def sync(self) -> None:
        self.stable = bytes(self.data)
        self.pending.clear()

    def survivor(self, random: random.Random) -> Node:
        """The file after a power cut: of what was not synced any part may be there, and each write may be torn."""
        after = Node(bytearray(self.stable), self.stable, [], self.modified_ms)
        for position, data in self.pending:
            fate = random.random()
            if data is None:
                if fate < 0.5:
                    after.truncate(position)
            elif fate < 0.6:
                after.write(position, data if fate < 0.3 else data[: random.randrange(len(data) + 1)])
        after.sync()
        return after


class SimFile:
    """A file of a `SimDisk`; dead after a crash.

    As a real one, it is a name that can be opened again: once the name is gone, it can be read until it is closed, and a sync of it
    is refused that was not asked for before.
    """

    def __init__(self, disk: SimDisk, path: str, node: Node) -> None:
        self.path = path
        self._disk = disk
        self._node = node
        self._life = disk.life
        self._is_open = True
        self._pins = 0

    @property
    def size(self) -> int:
        return len(self._node.data) if self._node.end is None else self._node.end

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._may("append", sum(map(len, buffers)))
        position = self.size
        for buffer in buffers:
            self._node.write(position, buffer)
            position += len(buffer)
        if self._node.end is not None:
            self._node.end = position if position < len(self._node.data) else None
        self._touch()
        return position - sum(map(len, buffers))

    def reserve(self, size: int) -> None:
        self._may("reserve")
        if size > self.size:
            self._node.end = self.size
            self._node.truncate(size)

    def read(self, position: int, size: int) -> bytes:
        self._may("read")
        return bytes(self._node.data[position : position + size])

    def write(self, position: int, data: Buffer) -> None:
        self._may("write", max(0, position + len(data) - self.size))
        self._node.write(position, data)
        self._touch()

    def truncate(self, size: int) -> None:
        self._may("truncate")
        self._node.truncate(size)
        self._node.end = None
        self._touch()

    def sync(self) -> None:
        self._may("sync")
        self._node.sync()
        self._disk.keep_entry(self._node)

    def close(self) -> None:
        self._is_open = False

    def pin(self) -> None:
        """A sync of it was asked for: what becomes of its name does not matter until it is made."""
        self._must_be_there("sync")
        self._pins += 1

    def unpin(self) -> None:
        self._pins -= 1

    def _may(self, operation: str, size: int = 0) -> None:
        self._must_be_there(operation)
        self._is_open = True
        self._disk.may(operation, self.path, size)

    def _must_be_there(self, operation: str) -> None:
        if self._life != self._disk.life:
            raise StorageFailed(self.path, "the file was open when the disk crashed")
        if not self._node.names and not self._pins and (operation == "sync" or not self._is_open):
            raise StorageFailed(self.path, "it is deleted")

    def _touch(self) -> None:
        self._node.modified_ms = self._disk.wall_ms


@dataclass(frozen=True, slots=True)
class SimDirectory:
    """The names in one directory, as something to be synced."""

    disk: SimDisk
    path: str

    def sync(self) -> None:
        self.disk.sync_dir(self.path)

    def pin(self) -> None:
        """Nothing is held open between syncs."""

    def unpin(self) -> None: ...


class SimDisk:
    """A `Disk` in memory. `capacity_bytes` bounds it; `wall_ms` is the time that files are stamped with."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.wall_ms = 0
        self.life = 0
        self.operations = 0
        self._files: dict[str, Node] = {}
        self._dirs: set[str] = {""}
        self._stable_files: dict[str, Node] = {}
        self._failing: dict[int, str] = {}
        self._renames: list[tuple[str, str]] = []
        self._syncs: list[tuple[list[SimFile | SimDirectory], Done]] = []

    # Faults to order

    def fail(self, after: int, reason: str = IO_ERROR, *, count: int = 1) -> None:
        """Let `count` operations fail, after the next `after` ones."""
        for number in range(count):
            self._failing[self.operations + after + 1 + number] = reason

    def heal(self) -> None:
        """Forget the failures that were ordered and have not come yet."""
        self._failing.clear()

    def crash(self, random: random.Random) -> None:
        """A power cut: what was not synced is lost, in any part; open files are dead."""
        self.life += 1
        self._syncs.clear()
        self._failing.clear()
        after: dict[str, Node] = {}
        survivors: dict[Node, Node] = {}
        for path, node in self._files.items():
            if self._stable_files.get(path) is node or random.random() < 0.5:
                after[path] = survivors.setdefault(node, node.survivor(random))
        for path, node in self._stable_files.items():
            if path not in after and (path in self._files or random.random() < 0.5):
                after[path] = survivors.setdefault(node, node.survivor(random))
        for path, to in self._renames:
            if path not in after and to not in after and path in self._stable_files:  # a rename may be lost, but never both names
                node = self._stable_files[path]
                after[random.choice((path, to))] = survivors.setdefault(node, node.survivor(random))
        self._renames.clear()
        self._files, self._stable_files = {}, dict(after)
        for path, node in after.items():
            self._name(path, node)

    def flip_bit(self, path: str, bit: int) -> None:
        """Change one bit of a file, on stable storage too."""
        node = self._node(path)
        node.data[bit // 8] ^= 1 << bit % 8
        node.sync()

    @property
    def used_bytes(self) -> int:
        return sum(len(node.data) if node.end is None else node.end for node in self._files.values())

    def run_syncs(self) -> int:
        """Make the syncs that were asked for and call back; returns how many asked."""
        asked, self._syncs = self._syncs, []
        for files, done in asked:
            failure = _sync(files)
            for file in files:
                file.unpin()
            done(failure)
        return len(asked)

    # The port

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.may("open", path)
        if path not in self._files:
            if not create or path.rpartition("/")[0] not in self._dirs:
                raise StorageFailed(path, "No such file or directory")
            self._name(path, Node(modified_ms=self.wall_ms))
        return SimFile(self, path, self._files[path])

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._dirs

    def list(self, path: str) -> list[str]:
        prefix = f"{path}/" if path else ""
        names = {name[len(prefix) :].partition("/")[0] for name in (*self._files, *self._dirs) if name.startswith(prefix)}
        return sorted(names - {""})

    def size(self, path: str) -> int:
        return len(self._node(path).data)

    def modified_ms(self, path: str) -> int:
        return self._node(path).modified_ms

    def make_dir(self, path: str) -> None:
        self.may("make_dir", path)
        while path:
            self._dirs.add(path)
            path = path.rpartition("/")[0]

    def make_dirs(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.make_dir(path)

    def rename(self, path: str, to: str, *, sync: bool = True) -> None:
        self.may("rename", path)
        if not sync:
            self._renames += [(name, to + name[len(path) :]) for name in _at_or_below(self._files, path)]
        for name in _at_or_below(self._files, path):
            self._name(to + name[len(path) :], self._unname(name))
        for name in _at_or_below(self._stable_files, path) if sync else ():
            self._stable_files[to + name[len(path) :]] = self._stable_files.pop(name)
        moved = list(_at_or_below(self._dirs, path))
        self._dirs.difference_update(moved)
        self._dirs.update(to + name[len(path) :] for name in moved)
        if sync:
            self.sync_dir(to.rpartition("/")[0])

    def remove(self, path: str) -> None:
        self.may("remove", path)
        self._node(path)
        self._unname(path)

    def remove_soon(self, path: str) -> None:
        self.remove(path)

    def remove_tree(self, path: str) -> None:
        self.may("remove_tree", path)
        for name in _at_or_below(self._files, path):
            self._unname(name)
        for name in _at_or_below(self._stable_files, path):
            del self._stable_files[name]
        self._dirs.difference_update(list(_at_or_below(self._dirs, path)))

    def remove_tree_soon(self, path: str) -> None:
        self.remove_tree(path)

    def read_file(self, path: str) -> bytes:
        self.may("read_file", path)
        return bytes(self._node(path).data)

    def write_file(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        self.may("write_file", path, len(data))
        node = Node(modified_ms=self.wall_ms)
        node.write(0, data)
        self._name(path, node)
        if sync:
            node.sync()
            self._stable_files[path] = node

    def sync_dir(self, path: str) -> None:
        self.may("sync_dir", path)
        prefix = f"{path}/" if path else ""
        self._renames = [pair for pair in self._renames if not pair[0].startswith(prefix)]
        for name in [name for name in self._stable_files if name.startswith(prefix) and name not in self._files]:
            del self._stable_files[name]
        self._stable_files.update((name, node) for name, node in self._files.items() if name.startswith(prefix))

    def room(self) -> tuple[int, int]:
        self.may("room", "")
        total = UNBOUNDED_BYTES if self.capacity_bytes is None else self.capacity_bytes
        return total, max(0, total - self.used_bytes)

    def directory(self, path: str) -> SimDirectory:
        return SimDirectory(self, path)

    def sync_soon(self, files: Iterable[Syncable], done: Done) -> None:
        own = [_own(file) for file in files]
        for file in own:
            file.pin()
        self._syncs.append((own, done))

    # For its files

    def may(self, operation: str, path: str, size: int = 0) -> None:
        """Count an operation, and raise `StorageFailed` if it was ordered to fail or there is no room."""
        self.operations += 1
        reason = self._failing.pop(self.operations, None)
        if reason is None and size and self.capacity_bytes is not None and self.used_bytes + size > self.capacity_bytes:
            reason = NO_SPACE
        if reason is not None:
            raise StorageFailed(path, f"{reason} ({operation})" if reason != NO_SPACE else reason)

    def keep_entry(self, node: Node) -> None:
        """The directory entry of a synced file is on stable storage too."""
        self._stable_files.update((path, other) for path, other in self._files.items() if other is node)

    def _name(self, path: str, node: Node) -> None:
        if path in self._files:
            self._unname(path)
        self._files[path] = node
        node.names += 1

    def _unname(self, path: str) -> Node:
        node = self._files.pop(path)
        node.names -= 1
        return node

    def _node(self, path: str) -> Node:
        if path not in self._files:
            raise StorageFailed(path, "No such file or directory")
        return self._files[path]


def _own(file: Syncable) -> SimFile | SimDirectory:
    """Only what this disk gave out can be synced by it: anything else would be promised and not kept."""
    if not isinstance(file, SimFile | SimDirectory):
        raise TypeError(f"{file!r} is not of this disk")
    return file


def _sync(files: Sequence[Syncable]) -> StorageFailed | None:
    try:
        for file in files:
            file.sync()
    except StorageFailed as failure:
        return failure
    return None


def _at_or_below(names: Iterable[str], path: str) -> Iterator[str]:
    return iter([name for name in names if name == path or name.startswith(path + "/")])
