"""The rooms of a simulated disk: preallocated files whose writes stay pending until the disk runs its syncs.

Until the end of a write, a power cut can leave each of its sectors old, new or torn, in any order. What a killed process leaves of
a write under way is as uncertain. Afterwards the contents are stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Protocol

from ottla.log.name_places import parent
from ottla.ports import Buffer, Disk, Done, StorageFailed, SyncFailed
from ottla.sim.storage import SECTOR_BYTES, Inode

SLICE_BYTES = 1 << 18
"""The number of zeros, in bytes, that are written to a new room at once."""

NEW = ".new"
"""The suffix of a room that is not completely filled with zeros yet."""


class RoomDisk(Disk, Protocol):
    """The methods of a `SimDisk` that its rooms use."""

    life: int
    room_alignment: int

    def may(self, operation: str, path: str, size: int = 0) -> None: ...

    def may_sync(self, operation: str, path: str) -> None: ...

    def node(self, path: str) -> Inode: ...

    def add_pending(self, files: Sequence[SimRoom], done: Done) -> None: ...


class SimRoom:
    """A room of a `SimDisk`, unusable after a crash. Its making and its writes end with `sync`, as the syncs of files do."""

    is_direct = True

    def __init__(self, disk: RoomDisk, path: str, real: str, size: int) -> None:
        assert size % 4096 == 0 < size, "the size of a room is a multiple of 4096"
        self.path = path
        self.size = size
        self.alignment = disk.room_alignment
        self._disk = disk
        self._real = real
        self._life = disk.life
        self._node: Inode | None = None
        self._failure: str | None = None
        self._before: tuple[int, bytes] | None = None
        self._is_closed = False

    def write_soon(self, position: int, buffers: Sequence[Buffer], done: Done) -> None:
        data = b"".join(buffers)
        data += bytes(-len(data) % self.alignment)
        node = self._node
        assert node is not None, "a room is used once it is made"
        assert not self._is_closed, "a closed room is not written to"
        assert self._before is None, "one write at a time"
        assert position % self.alignment == 0, "a position is a multiple of the alignment"
        assert 0 <= position <= self.size - len(data), "a write is within its room"
        if self._life != self._disk.life:
            raise StorageFailed(self._real, "the room was open when the disk crashed")
        self._before = position, bytes(node.data[position : position + len(data)])
        if self._failure is None:
            try:
                self._disk.may("write_room", self._real)
                node.write(position, data)
            except StorageFailed as failure:
                self._failure = failure.reason
        self._disk.add_pending([self], done)

    def close(self) -> None:
        self._is_closed = True

    def tear(self, random: Random) -> None:
        """Let each sector of the pending write be written or not, as the end of the process may leave it."""
        if self._node is None or self._before is None:
            return
        position, before = self._before
        for at in range(0, len(before), SECTOR_BYTES):
            if random.random() < 0.5:
                self._node.write(position + at, before[at : at + SECTOR_BYTES])

    # For the disk, as of a file that is synced

    def pin(self) -> None:
        pass

    def unpin(self) -> None:
        self._before = None

    def sync(self) -> None:
        """End the pending work: make the room, or make its last write durable. Raises `StorageFailed`."""
        if self._node is None:
            if self._is_closed:
                raise StorageFailed(self._real, "the room was closed before it was ready")
            self._make()
            self._node = self._disk.node(self._real)
            return
        if self._failure is None:
            try:
                self._disk.may_sync("sync_room", self._real)
                self._node.sync()
                return
            except SyncFailed as failure:
                self._failure = failure.reason
        raise SyncFailed(self._real, self._failure)

    def _make(self) -> None:
        disk, path = self._disk, self.path
        if not disk.exists(parent(path)):
            disk.make_dir(parent(path))
        if disk.exists(path) and disk.size(path) == self.size:
            if disk.exists(path + NEW):
                disk.remove(path + NEW)
            disk.open(path).sync()
            return
        try:
            file = disk.open(path + NEW, create=True)
            file.truncate(0)
            for at in range(0, self.size, SLICE_BYTES):
                file.append([bytes(min(SLICE_BYTES, self.size - at))])
            file.sync()
            disk.rename(path + NEW, path)
        except StorageFailed:
            with suppress(StorageFailed):
                disk.remove(path + NEW)
            raise
