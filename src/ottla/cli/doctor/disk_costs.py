"""The measurement of ways to make small writes durable, in a directory of their own on the user's disk."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from ottla.net.disk.room_files import NEW, RoomFile
from ottla.net.disk.sync_workers import SYNCS_SIDE_BY_SIDE
from ottla.net.kernel_sync import sync_each

FILES = 50
"""The number of files that stand for partitions with one new batch each."""

BATCH_BYTES = 1024
ROOM_BYTES = 4 << 20
FILE_BYTES = ROOM_BYTES
"""The size at which a file begins again, in bytes. So a file system that syncs in a microsecond is not filled."""

SMALL_FILE_BYTES = 4 * FILE_BYTES // FILES
"""The same of each of the `FILES` files."""

APPEND, ROOM, DIRECT = "append, fdatasync", "zeroed room, fdatasync", "zeroed room, direct"
ONE_BY_ONE, THREADS = f"{FILES} files, one by one", f"{FILES} files, {SYNCS_SIDE_BY_SIDE} threads"
WAYS = (APPEND, ROOM, DIRECT, ONE_BY_ONE, THREADS)
"""The ways in the order of the measurement. The last two make one append to each file durable."""


class DiskCost(NamedTuple):
    """The cost of one way: the median and the 99th percentile of all repetitions, in ms."""

    way: str
    p50_ms: float
    p99_ms: float
    repetitions: int


class MeasurementStopped(Exception):
    """The user has stopped the measurement."""


def measure(directory: str, seconds: float, stop: threading.Event) -> Iterator[DiskCost]:
    """Yield the cost of each way, after an equal part of the time. A way that the file system refuses is left out.

    All files are in a new directory inside `directory`, which is removed at the end. Raises OSError, `StorageFailed` for a full
    disk, and `MeasurementStopped` once `stop` is set.
    """
    with ExitStack() as held:
        path = tempfile.mkdtemp(prefix="ottla-doctor-", dir=directory)
        held.callback(shutil.rmtree, path, ignore_errors=True)
        place = DiskTrial(path, stop, held)
        for way, work in place.ways():
            yield _cost(way, work, seconds / len(WAYS), stop)


class DiskTrial:
    """The files of a measurement. All handles are closed by `held`."""

    def __init__(self, path: str, stop: threading.Event, held: ExitStack) -> None:
        self._held = held
        self._batch = os.urandom(BATCH_BYTES)
        room = RoomFile(os, os.path.join(path, "room"), path, ROOM_BYTES, stop)
        held.callback(room.close)
        room.make()
        self._room = room
        self._synced_room = self._open(os.path.join(path, "room" + NEW))
        self._block = held.enter_context(mmap.mmap(-1, room.alignment))
        self._block[:BATCH_BYTES] = self._batch
        self._files = array("i", [self._open(os.path.join(path, f"log-{number}")) for number in range(FILES)])
        self._pool = held.enter_context(ThreadPoolExecutor(SYNCS_SIDE_BY_SIDE))
        self._append_to_all()

    def ways(self) -> Iterator[tuple[str, Callable[[int], None]]]:
        """Yield each way with a function that repeats it once more; its argument is the number of repetitions before."""
        yield APPEND, self._append
        yield ROOM, partial(self._write, self._synced_room, is_direct=False)
        if self._room.is_direct:
            yield DIRECT, partial(self._write, self._room.fd, is_direct=True)
        yield ONE_BY_ONE, self._append_to_all
        yield THREADS, partial(self._append_to_all, threads=SYNCS_SIDE_BY_SIDE)

    def _open(self, path: str) -> int:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._held.callback(os.close, handle)
        return handle

    def _append(self, number: int) -> None:
        self._extend(self._files[0], FILE_BYTES)
        os.fdatasync(self._files[0])

    def _extend(self, handle: int, most_bytes: int) -> None:
        if os.lseek(handle, 0, os.SEEK_END) >= most_bytes:
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, self._batch)

    def _write(self, handle: int, number: int, *, is_direct: bool) -> None:
        size = len(self._block)
        os.pwrite(handle, self._block, number * size % ROOM_BYTES)
        if not is_direct:
            os.fdatasync(handle)

    def _append_to_all(self, number: int = 0, threads: int = 1) -> None:
        for handle in self._files:
            self._extend(handle, SMALL_FILE_BYTES)
        parts = [self._files[first::threads] for first in range(threads)]
        if threads == 1:
            _sync(parts[0])
        else:
            list(self._pool.map(_sync, parts))


def _sync(handles: array[int]) -> None:
    """Sync files by the loop that the broker uses. Raises OSError."""
    outcomes = array("i", bytes(len(handles) * handles.itemsize))
    sync_each(handles, outcomes)
    for code in outcomes:
        if code > 0:
            raise OSError(code, os.strerror(code))


def _cost(way: str, work: Callable[[int], None], seconds: float, stop: threading.Event) -> DiskCost:
    """Repeat a way for some time, once at least."""
    took_ms: list[float] = []
    end = time.perf_counter() + seconds
    while not took_ms or time.perf_counter() < end:
        if stop.is_set():
            raise MeasurementStopped
        began = time.perf_counter()
        work(len(took_ms))
        took_ms.append((time.perf_counter() - began) * 1000)
    took_ms.sort()
    return DiskCost(way, _rank(took_ms, 50), _rank(took_ms, 99), len(took_ms))


def _rank(ordered: Sequence[float], percent: int) -> float:
    """Return a percentile of ordered numbers, the one of the nearest rank."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
