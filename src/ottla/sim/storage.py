"""The contents of a simulated disk, their durable part, and the effects of a power cut.

Files consist of sectors, directories of names. A power cut leaves each sector of a file with any contents that it had since the
last sync, or with a mixture of two of them. The file gets any size that it had since the last sync. Each unsynced change of a
directory's names takes effect or not, independently of earlier changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from ottla.ports import Buffer

SECTOR_BYTES = 512

NOTHING, ALL, ANY = range(3)
"""The part of the unsynced data that survives a power cut: nothing, everything, or any part."""


class Inode:
    """A file: its contents (`data`), its durable contents (`stable`), and the writes since the last sync (`pending`).

    A write is (position, data), or (size, None) for a truncation. `names` is the number of the file's names. `end` is the end of
    the last write. `parent` and `name` are its directory and its name there.
    """

    __slots__ = ("__weakref__", "data", "end", "modified_ms", "name", "names", "parent", "pending", "stable")

    def __init__(self, data: bytes = b"", modified_ms: int = 0) -> None:
        self.data = bytearray(data)
        self.stable = bytearray(data)
        self.pending: list[tuple[int, bytes | None]] = []
        self.modified_ms = modified_ms
        self.end = len(data)
        self.names = 0
        self.name = ""
        self.parent: Folder | None = None

    @property
    def path(self) -> str:
        return _path(self)

    def write(self, position: int, data: Buffer) -> None:
        _write(self.data, position, data)
        self.end = max(self.end, position + len(data))
        self.pending.append((position, bytes(data)))

    def truncate(self, size: int) -> None:
        _resize(self.data, size)
        self.end = min(self.end, size)
        self.pending.append((size, None))

    def sync(self) -> None:
        for position, data in self.pending:  # less work than a copy of a whole room for each of its blocks
            if data is None:
                _resize(self.stable, position)
            else:
                _write(self.stable, position, data)
        self.pending.clear()

    def survivor(self, random: Random) -> Inode:
        """Return the file as a power cut leaves it, by random choice."""
        fate = random.choice((NOTHING, ALL, ANY, ANY)) if self.pending else NOTHING
        if fate != ANY:
            return Inode(bytes(self.stable if fate == NOTHING else self.data), self.modified_ms)
        sizes, sectors = self._history()
        after = bytearray(self.stable)
        _resize(after, max(sizes))
        for number, contents in sectors.items():
            content = random.choice(contents)
            if random.random() < 0.1:  # torn
                at = random.randrange(SECTOR_BYTES + 1)
                content = content[:at] + random.choice(contents)[at:]
            start = number * SECTOR_BYTES
            after[start : start + SECTOR_BYTES] = content[: len(after) - start]
        _resize(after, random.choice(sizes))
        return Inode(bytes(after), self.modified_ms)

    def _history(self) -> tuple[list[int], dict[int, list[bytes]]]:
        """Return (the sizes since the last sync, the contents of each written sector since then).

        The contents are padded with zeros to whole sectors.
        """
        image, sizes = bytearray(self.stable), [len(self.stable)]
        sectors: dict[int, list[bytes]] = {}
        for position, data in self.pending:
            before = bytes(image)
            if data is None:
                first, last = sorted((position, len(image)))
                _resize(image, position)
            else:
                first, last = min(position, len(image)), position + len(data)
                _write(image, position, data)
            for number in range(first // SECTOR_BYTES, -(-last // SECTOR_BYTES)):
                sectors.setdefault(number, [_sector(before, number)]).append(_sector(image, number))
            sizes.append(len(image))
        return sizes, sectors


class NameChange(NamedTuple):
    """A change of a directory's names: `entry` is renamed from `name` to `to`.

    `name` is None if the entry is new, and `to` is None if the entry is removed.
    """

    name: str | None
    to: str | None
    entry: Inode | Folder


@dataclass(slots=True, eq=False)
class Folder:
    """A directory: its names, its durable names (`stable`), and the changes since the last sync (`pending`).

    `is_new` is whether the process that made the directory has not yet synced the directory's own name. `is_known` is whether this
    process has synced the names in the directory. `failure` is the reason of a sync that failed in this process, or None. The
    changes of the failed sync are `dropped`: no later sync writes them.
    """

    names: dict[str, Inode | Folder] = field(default_factory=dict)
    stable: dict[str, Inode | Folder] = field(default_factory=dict)
    pending: list[NameChange] = field(default_factory=list)
    parent: Folder | None = None
    name: str = ""
    is_new: bool = False
    is_known: bool = False
    failure: str | None = None
    dropped: list[NameChange] = field(default_factory=list)

    @property
    def path(self) -> str:
        return _path(self)

    def nodes(self) -> Iterator[Inode]:
        """Yield all files in this directory and below."""
        for entry in self.names.values():
            if isinstance(entry, Inode):
                yield entry
            else:
                yield from entry.nodes()

    def folders(self) -> Iterator[Folder]:
        """Yield this directory and all directories below."""
        yield self
        for entry in self.names.values():
            if isinstance(entry, Folder):
                yield from entry.folders()

    def link(self, name: str, entry: Inode | Folder) -> None:
        self._change(NameChange(None, name, entry))

    def unlink(self, name: str) -> None:
        self._change(NameChange(name, None, self.names[name]))

    def move(self, name: str, to: str) -> None:
        """Rename an entry. If an entry has the name `to` already, it is replaced."""
        self._change(NameChange(name, to, self.names[name]))

    def _change(self, change: NameChange) -> None:
        for gone in (change.name, change.to):
            entry = self.names.pop(gone, None) if gone is not None else None
            if isinstance(entry, Inode):
                entry.names -= 1
        self._place(change.to, change.entry)
        self.pending.append(change)

    def _place(self, name: str | None, entry: Inode | Folder) -> None:
        if name is not None:
            self.names[name] = entry
            entry.parent, entry.name = self, name
            if isinstance(entry, Inode):
                entry.names += 1

    def sync(self) -> None:
        for change in self.pending:
            for name in (change.name, change.to):
                if name is not None:
                    self._keep(name)
        self.pending.clear()
        self.is_known = True

    def fail(self, reason: str) -> None:
        """Fail a sync with `reason`. As in the kernel, the failed changes then count as written."""
        self.failure = reason
        self.dropped += self.pending
        self.pending.clear()

    def forget_process(self) -> None:
        """Reset the state that belongs to one process."""
        self.is_new = self.is_known = False
        self.failure = None
        self.pending = self.dropped + self.pending
        self.dropped = []

    def _keep(self, name: str) -> None:
        entry = self.names.get(name)
        if entry is None:
            self.stable.pop(name, None)
            return
        self.stable[name] = entry
        if isinstance(entry, Folder):
            entry.is_new = False

    def survivor(self, random: Random, known: dict[Inode | Folder, Inode | Folder]) -> Folder:
        """Return the directory as a power cut leaves it, with everything below it.

        `known` contains the survivors made so far, by file or directory.
        """
        after = Folder()
        fate = random.choice((NOTHING, ALL, ANY, ANY)) if self.pending or self.dropped else ALL
        for name, entry in (self.names if fate == ALL else self._survivors(random, fate)).items():
            if entry not in known:
                known[entry] = entry.survivor(random) if isinstance(entry, Inode) else entry.survivor(random, known)
            after._place(name, known[entry])
        after.stable = dict(after.names)
        return after

    def _survivors(self, random: Random, fate: int) -> dict[str, Inode | Folder]:
        names = dict(self.stable)
        for change in self.dropped + self.pending if fate == ANY else ():
            if random.random() < 0.5:
                continue
            leaves_both = change.to is not None and isinstance(change.entry, Inode) and random.random() < 0.2
            if change.name is not None and names.get(change.name) is change.entry and not leaves_both:
                del names[change.name]
            if change.to is not None:
                names[change.to] = change.entry
        return names


def _path(entry: Inode | Folder) -> str:
    names = []
    above: Inode | Folder | None = entry
    while above is not None and above.parent is not None:
        names.append(above.name)
        above = above.parent
    return "/".join(reversed(names))


def _write(image: bytearray, position: int, data: Buffer) -> None:
    if position > len(image):
        _resize(image, position)
    image[position : position + len(data)] = data


def _resize(image: bytearray, size: int) -> None:
    del image[size:]
    image.extend(bytes(size - len(image)))


def _sector(image: Buffer, number: int) -> bytes:
    return bytes(image[number * SECTOR_BYTES : (number + 1) * SECTOR_BYTES]).ljust(SECTOR_BYTES, b"\0")
