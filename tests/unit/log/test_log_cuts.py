"""Cuts of a follower's log: refused, killed and cut off at every operation of the disk, beside compaction, and taken up again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import pytest

from ottla.log import log as log_module
from ottla.log import maintenance
from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.log.producer_state import snapshots
from ottla.log.producer_state.producers import Producers
from ottla.log.producer_state.snapshots import run_to_end
from ottla.ports import StorageFailed, SyncFailed
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Record
from ottla.records.batches.header import batches
from ottla.sim import invariants
from ottla.sim.power import CutDisk, PowerCut
from tests.unit.log.batches import NOW, append, make_batch, read_all, sync

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=0, file_delete_delay_ms=0)
COMPACTED = LogConfig(cleanup_policy="compact", segment_bytes=1000, index_interval_bytes=0, file_delete_delay_ms=0)
PLAIN, IDEMPOTENT, TRANSACTIONAL, OTHER = -1, 1, 2, 3
COMMIT, ABORT = 1, 0
MOST_OPERATIONS = 200


class Leader:
    """Batches as another broker wrote them: the same offsets always have the same batches in one leader epoch."""

    def __init__(self, leader_epoch: int, begin: int = 0, sequence: int = 0) -> None:
        self.leader_epoch = leader_epoch
        self.end = begin
        self.sequence = sequence

    def plain(self, key: bytes = b"k") -> bytearray:
        return self._batch(key, PLAIN)

    def idempotent(self) -> bytearray:
        batch = self._batch(b"i", IDEMPOTENT, sequence=self.sequence)
        self.sequence += 1
        return batch

    def transactional(self, producer_id: int, sequence: int) -> bytearray:
        return self._batch(b"t", producer_id, sequence=sequence, transactional=True)

    def marker(self, producer_id: int, kind: int) -> bytearray:
        batch = build(
            [b"\0\0" + kind.to_bytes(2, "big")],
            [b"\0\0" + bytes(4)],
            NOW.wall_ms,
            producer_id=producer_id,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
        return self._stamped(batch)

    def _batch(self, key: bytes, producer_id: int, *, sequence: int = -1, transactional: bool = False) -> bytearray:
        value = b"%d in epoch %d" % (self.end, self.leader_epoch)
        producer_epoch = 0 if producer_id >= 0 else -1
        return self._stamped(
            build(
                [key],
                [value],
                NOW.wall_ms - 1000 + self.end,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
        )

    def _stamped(self, batch: bytearray) -> bytearray:
        batch[0:8] = self.end.to_bytes(8, "big")
        batch[12:16] = self.leader_epoch.to_bytes(4, "big")
        self.end += 1
        return batch


def take(log: Log, *found: bytearray) -> None:
    for batch in found:
        log.append_as_follower(memoryview(batch), [header for _, header in batches(batch)], NOW)


def filled(disk: CutDisk, config: LogConfig = CONFIG) -> Log:
    """Two rounds of all kinds of batches, in epochs 3 and 5, with snapshots and a checkpoint in between; ends at 24.

    Offsets 2 to 7 are a committed transaction, 4 to 9 an aborted one, and so 14 to 19 and 16 to 21.
    """
    log = open_log(disk, config)
    for leader in (Leader(3), Leader(5, 12, 2)):
        first = 0 if leader.leader_epoch == 3 else 4
        take(log, leader.plain(), leader.idempotent())
        take(log, leader.transactional(TRANSACTIONAL, first), leader.transactional(TRANSACTIONAL, first + 1))
        take(log, leader.transactional(OTHER, first), leader.transactional(OTHER, first + 1), leader.plain(b"a"))
        take(log, leader.marker(TRANSACTIONAL, COMMIT), leader.plain(b"b"), leader.marker(OTHER, ABORT))
        take(log, leader.idempotent(), leader.plain(b"c"))
        sync(log)
        log.checkpoint()
    return log


def open_log(disk: CutDisk, config: LogConfig = CONFIG, *, clean: bool = False, **known: int | bool) -> Log:
    return Log.open(disk, "t-0", config, NOW, clean=clean, is_noted=True, **known)  # type: ignore[arg-type]  # as named


def state(log: Log) -> tuple[object, ...]:
    """What a log holds, and what it knows of those who wrote it."""
    producers = {id: (p.epoch, [batch[:4] for batch in p.batches[-1:]]) for id, p in log.producers.by_id.items() if p.batches}
    aborted = log.aborted_transactions(0, log.log_end_offset)
    held = [(header.base_offset, header.leader_epoch) for header, _ in read_all(log)]
    return log.log_start_offset, log.log_end_offset, held, log.epochs.entries, producers, log.producers.open_transactions, aborted


@cache
def state_after(offset: int) -> tuple[object, ...]:
    """The same of a log that never had more than what is before an offset."""
    disk = CutDisk()
    whole, log = filled(CutDisk()), open_log(disk)
    for header, batch in read_all(whole):
        if header.base_offset < offset:
            take(log, bytearray(batch))
    return state(log)


def faults(log: Log, disk: CutDisk) -> list[str]:
    return (
        invariants.offsets_grow(log)
        + invariants.sizes_add_up(log)
        + invariants.indexes_point_at_batches(log, disk)
        + invariants.leader_epochs_fit_the_batches(log)
        + invariants.producers_equal_a_replay(log)
        + invariants.transactions_equal_a_replay(log)
    )


def cut_to(offset: int) -> Callable[[Log], None]:
    return lambda log: log.truncate_to(offset)


def restart(log: Log) -> None:
    log.restart_at(1000)


CUTS = {"within a segment": cut_to(5), "at its end": cut_to(23), "to nothing": cut_to(0), "middle": cut_to(15), "anew": restart}
ENDS = {"within a segment": 5, "at its end": 23, "to nothing": 0, "middle": 15}


def wanted(name: str) -> tuple[object, ...]:
    return (1000, 1000, [], [], {}, {}, []) if name == "anew" else state_after(ENDS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", CUTS)
def test_a_cut_that_the_disk_refuses_at_any_operation_is_made_when_it_is_tried_again(name: str) -> None:
    refused = 0
    for after in range(MOST_OPERATIONS):
        disk = CutDisk()
        log = filled(disk)
        disk.fail(after)
        try:
            CUTS[name](log)
        except SyncFailed:
            continue  # the partition goes offline, and what it holds is for the next start to find out
        except StorageFailed:
            refused += 1
            CUTS[name](log)
        if disk.operations < after:
            break
        disk.heal()
        assert state(log) == wanted(name), after
        assert faults(log, disk) == []
        leader = Leader(7, log.log_end_offset)
        take(log, leader.plain(), leader.transactional(OTHER, 0))
        before = state(log)
        disk.kill()
        again = open_log(disk, was_killed=True)
        assert (state(again), faults(again, disk)) == (before, []), after
    assert refused > 3


@pytest.mark.parametrize("name", CUTS)
def test_after_a_refused_cut_a_log_goes_on_as_what_it_says_it_is(name: str) -> None:
    """The leader may have changed meanwhile, so that nobody wants the cut any more."""
    for after in range(MOST_OPERATIONS):
        disk = CutDisk()
        log = filled(disk)
        disk.fail(after)
        try:
            CUTS[name](log)
            break
        except SyncFailed:
            continue
        except StorageFailed:
            pass
        leader = Leader(7, log.log_end_offset)
        take(log, leader.plain(), leader.transactional(OTHER, 0))
        before = state(log)
        assert before[1] == leader.end
        disk.kill()
        again = open_log(disk, was_killed=True)
        assert (state(again), faults(again, disk)) == (before, []), after
    assert after > 10


@pytest.mark.slow
@pytest.mark.parametrize("end", ["kill", "power cut"])
@pytest.mark.parametrize("name", CUTS)
def test_a_process_that_dies_at_any_operation_of_a_cut_leaves_a_log_that_opens(name: str, end: str) -> None:
    """As it was, or as it was to be, or something between: its leader says again where it is to be cut."""
    ends = set()
    for at in range(MOST_OPERATIONS):
        disk, random = CutDisk(), Random(at)
        log = filled(disk)
        disk.cut_at = disk.operations + at
        try:
            CUTS[name](log)
            break
        except PowerCut:
            pass
        if end == "kill":
            disk.cut_at, disk.is_off = -1, False
            disk.kill()
        else:
            disk.crash(random)
        again = open_log(disk, was_killed=end == "kill", recovery_point=0)
        again.check_whole()
        assert faults(again, disk) == [], at
        assert again.log_end_offset == 1000 or state(again) == state_after(again.log_end_offset), at
        ends.add(again.log_end_offset)
        CUTS[name](again)
        assert state(again) == wanted(name), at
    assert at > 10
    assert end == "power cut" or {24, 1000 if name == "anew" else ENDS[name]} <= ends


def test_a_cut_is_durable_before_anything_is_appended_behind_it() -> None:
    for seed in range(40):
        disk = CutDisk()
        log = filled(disk)
        log.truncate_to(15)
        take(log, Leader(7, 15).plain())
        sync(log)
        disk.crash(Random(seed))
        again = open_log(disk, recovery_point=15)
        assert [header.leader_epoch for header, _ in read_all(again)] == [3] * 12 + [5] * 3 + [7]


# Compaction


def many(log: Log, leader: Leader, count: int, keys: int = 3) -> None:
    for number in range(count):
        take(log, leader.plain(b"key %d" % (number % keys)))


def records(log: Log) -> list[Record]:
    return invariants.stored_records(log)


@pytest.mark.slow
@pytest.mark.parametrize("keys", [3, 17, 40])
@pytest.mark.parametrize("offset", [0, 5, 17, 35])
def test_a_compaction_that_began_before_a_cut_brings_nothing_back(offset: int, keys: int) -> None:
    """The same segments may be there again, with other batches."""
    for pause in range(60):
        disk = CutDisk()
        log = open_log(disk, COMPACTED)
        many(log, Leader(3), 40, keys)
        take(log, Leader(3, 40).plain(b"key 1"))
        log.roll()
        sync(log)
        run = Compaction(log, disk, dirtiness(log, 0, NOW), NOW, bytes(16)).run()
        is_over = False
        for _ in range(pause):
            files = next(run, None)
            is_over |= files is None and log.is_swapping
            for file in files or ():
                file.sync()
        log.truncate_to(offset)
        left, end = records(log), log.log_end_offset
        leader = Leader(5, end)
        many(log, leader, 40, keys)
        expected = left + [record for record in records(log) if record.offset >= end]
        try:
            for files in run:
                for file in files or ():
                    file.sync()
        except StorageFailed:
            pass
        assert records(log) == expected, pause
        assert expected[-1].value == b"%d in epoch 5" % (leader.end - 1)


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_a_log_that_is_cut_within_a_segment_that_it_had_compacted_can_be_read(stop: str) -> None:
    for offset in range(41):
        disk = CutDisk()
        log = open_log(disk, COMPACTED)
        many(log, Leader(3), 40)
        log.roll()
        sync(log)
        for files in Compaction(log, disk, dirtiness(log, 0, NOW), NOW, bytes(16)).run():
            for file in files or ():
                file.sync()
        assert len(records(log)) < 40
        log.truncate_to(offset)
        many(log, Leader(5, log.log_end_offset), 3)
        expected = records(log)
        sync(log)
        if stop == "clean":
            log.close()
        disk.kill()
        end = log.log_end_offset
        again = open_log(disk, COMPACTED, clean=stop == "clean", was_killed=True, recovery_point=end if stop == "clean" else 0)
        again.check_whole()
        assert records(again) == expected, offset


# What a segment knows of itself


def test_the_age_of_a_segment_that_was_cut_to_nothing_begins_again() -> None:
    """Or the next append would roll it at once, or never."""
    log = Log.open(CutDisk(), "t-0", LogConfig(segment_ms=1000), NOW)
    append(log, make_batch(timestamp=NOW.wall_ms - 1_000_000))
    assert log.segments[0].first_timestamp == NOW.wall_ms - 1_000_000
    log.truncate_to(0)
    append(log, make_batch(timestamp=NOW.wall_ms))
    append(log, make_batch(timestamp=NOW.wall_ms))
    assert log.segments[0].first_timestamp == NOW.wall_ms
    assert len(log.segments) == 1


@pytest.mark.parametrize("offset", [5, 11, 12, 19])
@pytest.mark.parametrize("wrong", ["earlier", "later", "nowhere", "another batch"])
def test_a_wrong_entry_of_an_index_has_no_other_batches_cut(offset: int, wrong: str) -> None:
    disk = CutDisk()
    config = LogConfig(index_interval_bytes=200)
    log = Log.open(disk, "t-0", config, NOW)
    for number in range(20):
        append(log, make_batch(1, 39, NOW.wall_ms + number))
    log.close()
    path = "t-0/00000000000000000000.index"
    data = bytearray(disk.read_file(path))
    relative, position = {"earlier": (10, 300), "later": (1, 1500), "nowhere": (10, 1033), "another batch": (10, 1200)}[wrong]
    data[8:16] = relative.to_bytes(4, "big") + position.to_bytes(4, "big")
    disk.write_file(path, data)
    again = Log.open(disk, "t-0", config, NOW, clean=True, is_noted=True, recovery_point=20)
    again.truncate_to(offset)
    assert again.log_end_offset == offset
    assert [header.base_offset for header, _ in read_all(again)] == list(range(offset))
    assert invariants.indexes_point_at_batches(again, disk) == []


def test_a_log_that_begins_anew_where_it_began_knows_no_producers_of_before() -> None:
    disk = CutDisk()
    log = filled(disk)
    log.delete_records(24)
    log.retain(NOW)
    base = log.segments[0].base_offset
    log.restart_at(base)
    assert (log.log_start_offset, log.log_end_offset, log.producers.by_id) == (base, base, {})
    disk.kill()
    assert open_log(disk, was_killed=True).producers.by_id == {}


def test_a_compacted_segment_that_is_the_last_one_after_a_kill_does_not_grow() -> None:
    """Its size is what tells that compaction wrote it, and the kill came before anything else was noted of it."""
    disk = CutDisk()
    log = open_log(disk, COMPACTED)
    many(log, Leader(3), 40)
    log.roll()
    sync(log)
    for files in Compaction(log, disk, dirtiness(log, 0, NOW), NOW, bytes(16)).run():
        for file in files or ():
            file.sync()
    take(log, Leader(3, 40).plain())
    expected = records(log)[:-1]
    for name in disk.list("t-0"):
        if name.startswith("00000000000000000040"):
            disk.remove(f"t-0/{name}")
    disk.kill()
    for _ in range(2):
        log = open_log(disk, COMPACTED, was_killed=True)
        assert records(log) == expected
        take(log, Leader(5, log.log_end_offset).plain())
        expected = records(log)
        disk.kill()
    assert records(open_log(disk, COMPACTED, was_killed=True)) == expected


@pytest.mark.parametrize("offset", [3, 8, 11, 12])
def test_a_log_that_begins_beyond_the_end_of_its_leader_begins_there(offset: int) -> None:
    """Or it would be told so again and again."""
    disk = CutDisk()
    log = filled(disk)
    log.delete_records(13)
    log.retain(NOW)
    log.truncate_to(offset)
    assert (log.log_start_offset, log.log_end_offset) == (offset, offset)
    take(log, Leader(7, offset).plain())
    disk.kill()
    again = open_log(disk, was_killed=True)
    assert (again.log_start_offset, again.log_end_offset) == (offset, offset + 1)


def last_batches(producers: Producers) -> dict[int, tuple[int, ...]]:
    return {producer_id: state.batches[-1][:4] for producer_id, state in producers.by_id.items()}


def test_a_cut_in_one_of_the_newest_segments_replays_no_more_than_from_the_last_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots stay within segments, so that a cut need not begin where a segment does."""
    monkeypatch.setattr(maintenance, "RUNG_BYTES", 2000)
    monkeypatch.setattr(log_module, "RUNG_BYTES", 2000)
    monkeypatch.setattr(snapshots, "AT_ONCE", 1)
    monkeypatch.setattr(snapshots, "REFILL_BYTES", 1)
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=0)
    disk = CutDisk()
    log = Log.open(disk, "t-0", config, NOW)
    for number in range(300):
        assert append(log, make_batch(producer_id=number % 7, epoch=0, sequence=number // 7)).error_code == 0
        if not number % 50:
            sync(log)
            log.checkpoint()
    assert len(log.segments) == 2
    rungs = len(disk.list("t-0"))
    most = 0
    while log.log_end_offset > 100:
        offset = log.log_end_offset - 17
        planned, steps = log.plan_cut(offset), 0
        while True:
            try:
                next(planned)
                steps += 1
            except StopIteration as over:
                log.cut(over.value)
                break
        most = max(most, steps)
        spans = [(segment, segment.size) for segment in log.segments]
        replayed = run_to_end(snapshots.producers_at(disk, "t-0", [], spans, 100))
        assert last_batches(log.producers) == last_batches(replayed)
    assert most <= 2 * 2000 // 101
    assert rungs < 60
    assert len([name for name in disk.list("t-0") if name.endswith(".snapshot")]) < 30


def test_starts_leave_no_more_snapshots_than_some() -> None:
    disk = CutDisk()
    for number in range(200):
        log = Log.open(disk, "t-0", LogConfig(), NOW, clean=bool(number), recovery_point=number)
        assert append(log, make_batch(producer_id=1, epoch=0, sequence=number)).error_code == 0
        log.close()
    assert len([name for name in disk.list("t-0") if name.endswith(".snapshot")]) <= snapshots.MOST_KEPT * 2
