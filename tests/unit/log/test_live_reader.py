"""Who reads a partition's files beside its broker sees what a fetch would, whatever the broker does between two system calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from ottla.client.consumer.visible_batches import AbortedTransaction, visible
from ottla.log.check.live_reader import LiveBatches, LiveReader
from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.ports import Now, Readable, StorageFailed
from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, sync

CONFIG = LogConfig(segment_bytes=1000, file_delete_delay_ms=0, index_interval_bytes=200)
COMPACTED = LogConfig(cleanup_policy="compact", delete_retention_ms=0, segment_bytes=2000, file_delete_delay_ms=0)


def nothing() -> None: ...


class Seen:
    """A simulated disk as an onlooker sees it; `between` is called before each look."""

    def __init__(self, disk: SimDisk, between: Callable[[], None] = nothing) -> None:
        self._disk = disk
        self._between = between
        self.opened: list[str] = []
        self.held: list[Readable] = []

    def names(self, path: str) -> dict[str, int]:
        self._between()
        files = {name: self._disk.open(f"{path}/{name}") for name in self._disk.list(path)}
        self.held += files.values()  # while it is held, its number is nobody else's
        return {name: id(file._node) for name, file in files.items()}

    def open(self, path: str) -> Readable:
        self._between()
        if not self._disk.exists(path):
            raise StorageFailed(path, "No such file or directory")
        self.opened.append(path)
        return self._disk.open(path)

    def size(self, file: Readable) -> int:
        return file.size  # type: ignore[attr-defined,no-any-return]  # the simulated one has it

    def read_file(self, path: str) -> bytes:
        self._between()
        return self._disk.read_file(path)


def look(seen: Seen, start: int, end: int, *, read_committed: bool = False, chunk_bytes: int = 4096) -> Iterator[LiveBatches]:
    return LiveReader(seen, "t-0", start, end, read_committed=read_committed, chunk_bytes=chunk_bytes).chunks()


def offsets(chunks: Iterator[LiveBatches], start: int, end: int) -> list[int]:
    found: list[int] = []
    for chunk in chunks:
        found += open_batches(chunk.records, from_offset=start, until_offset=end, check_crcs=True).offsets
    return found


def fill(log: Log, count: int, size: int = 3) -> None:
    for number in range(count):
        keys = [b"%d" % (number % 5)] * size
        append(log, build(keys, [b"%030d" % number] * size, NOW.wall_ms))


def log_of(disk: SimDisk, config: LogConfig = CONFIG) -> Log:
    return Log.open(disk, "t-0", config, NOW)


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("chunk_bytes", [100, 700, 1 << 20])
def test_every_range_is_read_exactly_with_the_offset_index_and_without(flushed: bool, chunk_bytes: int) -> None:
    disk = SimDisk()
    log = log_of(disk)
    fill(log, 60)
    if flushed:
        for segment in log.segments:
            segment.index.flush()
    for start, end in ((0, 180), (1, 2), (0, 1), (17, 90), (89, 91), (177, 180), (50, 50)):
        assert offsets(look(Seen(disk), start, end, chunk_bytes=chunk_bytes), start, end) == list(range(start, end))


def test_a_position_is_found_by_the_index_and_not_by_reading() -> None:
    disk = SimDisk()
    log = log_of(disk, LogConfig(segment_bytes=1 << 20, index_interval_bytes=200))
    fill(log, 2_000)
    log.segments[0].index.flush()
    read = 0

    class Counting:
        def __init__(self, file: Readable) -> None:
            self._file = file
            self.path = file.path

        def read(self, position: int, size: int) -> bytes:
            nonlocal read
            read += size
            return self._file.read(position, size)

        def close(self) -> None:
            self._file.close()

    class CountingFiles(Seen):
        def open(self, path: str) -> Readable:
            return Counting(super().open(path))

        def size(self, file: Readable) -> int:
            return disk.size(file.path)

    assert offsets(look(CountingFiles(disk), 5_000, 5_001, chunk_bytes=500), 5_000, 5_001) == [5_000]
    assert read < 6_000 < disk.size("t-0/00000000000000000000.log") // 10


def test_room_reserved_at_the_end_of_files_is_no_end_of_the_log() -> None:
    disk = SimDisk()
    log = log_of(disk)
    fill(log, 5)
    for segment in log.segments:
        segment.index.flush()
    active = log.segments[-1]
    disk.open(active.path(".index")).append([bytes(800)])  # as Apache Kafka's index of an active segment
    active.file.reserve(active.size + 5_000)
    start = active.base_offset
    assert offsets(look(Seen(disk), start, 15), start, 15) == list(range(start, 15))


def test_files_that_end_or_begin_elsewhere_and_other_formats_are_for_the_broker_to_explain() -> None:
    disk = SimDisk()
    log = log_of(disk)
    fill(log, 10)
    with pytest.raises(StorageFailed, match="files end at offset 30, before 31"):
        list(look(Seen(disk), 0, 31))
    log.segments[0].file.close()
    disk.remove("t-0/00000000000000000000.log")
    with pytest.raises(StorageFailed, match="files begin behind offset 0"):
        list(look(Seen(disk), 0, 30))
    with pytest.raises(StorageFailed):
        list(LiveReader(Seen(disk), "u-0", 0, 30, read_committed=False).chunks())


def test_a_segment_that_takes_the_place_of_others_is_read_before_they_are_gone() -> None:
    """Apache Kafka removes the old files one by one, and then gives the new one its name."""
    disk = SimDisk()
    log = log_of(disk)
    fill(log, 30)
    log.roll()
    first, second, third = log.segments[:3]
    joined = disk.open(first.path(".log") + ".swap", create=True)
    joined.append([segment.file.read(0, segment.size) for segment in (first, second)])
    for gone in (second, first):
        disk.rename(gone.path(".log"), gone.path(".log") + ".deleted")
        assert offsets(look(Seen(disk), 0, third.base_offset), 0, third.base_offset) == list(range(third.base_offset))


def write(log: Log, producer_id: int, key: bytes, sequence: int) -> None:
    batch = build(
        [key],
        [b"%d" % producer_id],
        NOW.wall_ms,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    assert append(log, batch).error_code == 0


def end(log: Log, producer_id: int, kind: int) -> None:
    key, value = b"\0\0" + kind.to_bytes(2, "big"), b"\0\0" + bytes(4)
    batch = build([key], [value], NOW.wall_ms, producer_id=producer_id, producer_epoch=0, transactional=True, control=True)
    assert append(log, batch, origin_client=False).error_code == 0


class Life:
    """A compacted partition with transactions, to which something happens at each step. `committed`: offsets to be read."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.disk = SimDisk()
        self.log = log_of(self.disk, COMPACTED)
        self.compaction: Iterator[object] | None = None
        self.sequences: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        self.committed: set[int] = set()
        self.aborted: set[int] = set()

    def step(self) -> None:
        self.random.choice([self.write, self.write, self.end, self.compact, self.compact, self.compact])()

    def write(self) -> None:
        producer_id = self.random.randrange(4)
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + 1
        key = b"%d" % self.random.randrange(40)
        self.open.setdefault(producer_id, []).append(self.log.log_end_offset)
        write(self.log, producer_id, key, sequence)

    def end(self) -> None:
        if not self.open:
            return
        producer_id = self.random.choice(sorted(self.open))
        kind = self.random.choice([ABORT, COMMIT])
        own = self.open.pop(producer_id)
        if kind == COMMIT:
            self.committed |= set(own)
        else:
            self.aborted |= set(own)
        end(self.log, producer_id, kind)

    def compact(self) -> None:
        if self.compaction is None:
            sync(self.log)
            now = Now(NOW.wall_ms + 10_000, 10_000)
            self.compaction = Compaction(self.log, self.disk, dirtiness(self.log, 0, now), now, bytes(16)).run()
        try:
            for file in next(self.compaction) or ():  # type: ignore[attr-defined]  # files to sync
                file.sync()
        except StopIteration:
            self.compaction = None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_nothing_committed_is_missed_and_nothing_aborted_is_seen_while_compaction_replaces_files(seed: int) -> None:
    life = Life(seed)
    for _ in range(life.random.randrange(50, 300)):
        life.step()
    until = life.log.last_stable_offset
    seen = Seen(life.disk, life.step)
    found: list[int] = []
    for chunk in look(seen, 0, until, read_committed=True, chunk_bytes=life.random.choice([200, 1000, 100_000])):
        aborted = [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in chunk.aborted]
        for piece in visible(chunk.records, aborted).pieces:
            found += open_batches(piece, until_offset=until).offsets
    assert found == sorted(set(found))
    assert not life.aborted & set(found)
    assert set(found) <= life.committed
    assert held(life, until) <= set(found)


def held(life: Life, until: int) -> set[int]:
    """Committed offsets that the log still holds: compaction removes more and more of what a reader may miss."""
    found: set[int] = set()
    for segment in life.log.segments:
        found |= set(open_batches(segment.file.read(0, segment.size), until_offset=until).offsets)
    return found & life.committed
