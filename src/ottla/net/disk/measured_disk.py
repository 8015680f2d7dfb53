"""A disk that measures how long data takes to stable storage. A broker that measures nothing uses `RealDisk` itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Final

from ottla.net.disk.disk import RealDisk
from ottla.net.kernel_meter import StageHistograms
from ottla.ports import Buffer, Done, Room, StorageFailed, Syncable

FILES, JOURNAL = range(2)
KINDS: Final = {"file": FILES, "journal": JOURNAL}


class MeasuredRoom:
    """A room of a `MeasuredDisk`: the file of a journal."""

    def __init__(self, room: Room, syncs: StageHistograms) -> None:
        self._room = room
        self._syncs = syncs
        self.path = room.path
        self.size = room.size
        self.close = room.close

    @property
    def alignment(self) -> int:
        return self._room.alignment

    @property
    def is_direct(self) -> bool:
        return self._room.is_direct

    def write_soon(self, position: int, buffers: Sequence[Buffer], done: Done) -> None:
        self._room.write_soon(position, buffers, partial(_finish, self._syncs, JOURNAL, perf_counter_ns(), done))


class MeasuredDisk(RealDisk):
    """A `RealDisk` with histograms of its syncs and of its writes into journals, by `KINDS`."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]  # those of RealDisk
        self.syncs = StageHistograms(len(KINDS))

    def sync_soon(self, files: Iterable[Syncable], done: Done) -> None:
        super().sync_soon(files, partial(_finish, self.syncs, FILES, perf_counter_ns(), done))

    def make_room(self, path: str, size: int, done: Done) -> Room:  # type: ignore[override]  # a room, as the port of disks has it
        return MeasuredRoom(super().make_room(path, size, done), self.syncs)


def _finish(syncs: StageHistograms, kind: int, began_ns: int, done: Done, failure: StorageFailed | None) -> None:
    syncs.add(kind, perf_counter_ns() - began_ns)
    done(failure)
