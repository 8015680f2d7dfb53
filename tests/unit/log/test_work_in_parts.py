"""What has to be looked at in a large segment is looked at in parts: batches are counted, however large the segment is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.errors import Unfinished
from ottla.log.log import Log, LogConfig
from ottla.log.segments import segment as segments
from ottla.log.segments import soundness
from ottla.log.segments.segment import Segment
from ottla.log.slice_reader import FirstPart
from ottla.ports import FileSlice
from ottla.records.batches.builder import build
from ottla.records.batches.header import BatchHeader, batches
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, index_faults, make_batch, read_all, sync

CONFIG = LogConfig(index_interval_bytes=150)
COUNT = 200
INDEX = "t-0/00000000000000000000.index"
TIMES = "t-0/00000000000000000000.timeindex"


def written(disk: SimDisk, config: LogConfig = CONFIG) -> None:
    """Two segments of `COUNT` batches of one record each, closed in order."""
    log = Log.open(disk, "t-0", config, NOW)
    for number in range(2 * COUNT):
        if number == COUNT:
            log.roll()
        append(log, make_batch(1, 39, timestamp=NOW.wall_ms + number))
    sync(log)
    log.close()


def opened(disk: SimDisk, config: LogConfig = CONFIG) -> Log:
    return Log.open(disk, "t-0", config, NOW, clean=True, recovery_point=2 * COUNT, is_noted=True)


def read(log: Log, offset: int, max_bytes: int = 300) -> FileSlice:
    """A part of the first segment, perhaps an empty one: then the next call goes on."""
    part = log.read(offset, max_bytes, until_offset=COUNT, min_one_batch=True)
    assert part is not None
    assert part.size or isinstance(part, FirstPart)
    return part


def spoil(disk: SimDisk, path: str, entry: int) -> None:
    """Have an entry of an index say something else in its last four bytes."""
    size = 8 if path.endswith(".index") else 12
    disk.open(path).write((entry + 1) * size - 4, (77).to_bytes(4, "big"))


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches were indexed since it was cleared. Few at once are allowed."""
    monkeypatch.setattr(segments, "REINDEXED_AT_ONCE", 10)
    found: list[int] = []
    note = Segment.note

    def counted(self: Segment, header: BatchHeader, position: int, interval: int) -> None:
        found.append(position)
        note(self, header, position, interval)

    monkeypatch.setattr(Segment, "note", counted)
    return found


def calls(look: Callable[[], object], noted: list[int]) -> int:
    """How often it has to be called until it finds what it looks for; each time little is done."""
    for number in range(1, 1000):
        noted.clear()
        try:
            look()
        except Unfinished:
            assert len(noted) <= 20
            continue
        assert len(noted) <= 20
        return number
    raise AssertionError("it never ends")


def test_a_read_that_meets_a_wrong_index_has_it_built_anew_in_parts(noted: list[int]) -> None:
    disk = SimDisk()
    written(disk)
    for entry in range(70, 80):
        spoil(disk, INDEX, entry)
    log = opened(disk)
    empty = 0
    while not (part := read(log, 150)).size:
        assert len(noted) <= 20
        noted.clear()
        empty += 1
    assert len(noted) <= 20
    assert empty > 5
    assert [header.base_offset for _, header in batches(part.read())] == [150, 151, 152]
    assert len(read_all(log)) == 2 * COUNT
    assert index_faults(log, disk) == []


def test_a_request_that_has_cost_enough_builds_no_index(noted: list[int]) -> None:
    disk = SimDisk()
    written(disk)
    log = opened(disk)
    log.segments[0].reindex()
    noted.clear()
    part = log.read(150, 300, until_offset=COUNT, may_check=False)
    assert isinstance(part, FirstPart)
    assert (part.size, noted, log.check_cost) == (0, [], 0)


@pytest.mark.parametrize("what", ["time", "newest", "retention", "compaction"])
def test_whoever_asks_for_times_waits_in_parts(noted: list[int], what: str) -> None:
    disk = SimDisk()
    config = replace(CONFIG, retention_ms=10_000, min_compaction_lag_ms=0, cleanup_policy="compact,delete")
    written(disk, config)
    last = disk.size(TIMES) // 12 - 1
    spoil(disk, TIMES, last)
    log = opened(disk, config)
    later = NOW._replace(wall_ms=NOW.wall_ms + 5000)
    found = {
        "time": lambda: log.offset_for_timestamp(NOW.wall_ms + 190),
        "newest": lambda: log.max_timestamp(log.segments[0]),
        "retention": lambda: log.retain(later),
        "compaction": lambda: dirtiness(log, 0, later),
    }[what]
    assert calls(found, noted) > 5
    assert log.offset_for_timestamp(NOW.wall_ms + 190) == (NOW.wall_ms + 190, 190)
    assert log.max_timestamp(log.segments[0]) == NOW.wall_ms + COUNT - 1
    assert (log.log_start_offset, dirtiness(log, 0, later).end_offset) == (0, COUNT)


def test_a_segment_goes_on_while_its_indexes_are_built_anew(noted: list[int]) -> None:
    log = Log.open(disk := SimDisk(), "t-0", CONFIG, NOW)
    for number in range(COUNT):
        append(log, make_batch(1, 39, timestamp=NOW.wall_ms + number))
    log.segments[0].reindex()
    for number in range(COUNT, COUNT + 30):
        append(log, make_batch(1, 39, timestamp=NOW.wall_ms + number))
        log.read(log.log_end_offset - 100, 300, until_offset=log.log_end_offset)
    log.checkpoint()
    log.roll()
    append(log, make_batch(1, 39))
    assert log.offset_for_timestamp(NOW.wall_ms + COUNT + 29) == (NOW.wall_ms + COUNT + 29, COUNT + 29)
    assert len(read_all(log)) == COUNT + 31
    assert index_faults(log, disk) == []
    assert log.max_timestamp(log.segments[0]) == NOW.wall_ms + COUNT + 29


@pytest.mark.parametrize("ends", ["close", "kill", "roll and kill"])
@pytest.mark.parametrize("parts", [1, 5, 40])
def test_indexes_that_are_not_whole_yet_are_missed_by_the_next_start(ends: str, parts: int) -> None:
    disk = SimDisk()
    written(disk)
    log = opened(disk)
    for segment in log.segments:
        segment.reindex()
        for _ in range(parts):
            segment.continue_reindexing()
    if ends == "roll and kill":
        log.roll()
    if ends == "close":
        log.close()
    else:
        disk.kill()
    log = Log.open(disk, "t-0", CONFIG, NOW, clean=ends == "close", recovery_point=2 * COUNT, is_noted=True)
    assert [log.max_timestamp(segment) for segment in log.segments[:2]] == [NOW.wall_ms + COUNT - 1, NOW.wall_ms + 2 * COUNT - 1]
    assert len(read_all(log)) == 2 * COUNT
    assert index_faults(log, disk) == []


def test_a_log_is_cut_while_its_indexes_are_built_anew(noted: list[int]) -> None:
    disk = SimDisk()
    written(disk)
    log = opened(disk)
    log.segments[0].reindex()
    log.truncate_to(50)
    append(log, make_batch(1, 39))
    assert [header.base_offset for header, _ in read_all(log)] == list(range(51))
    assert index_faults(log, disk) == []


def test_damage_far_behind_what_was_checked_is_looked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index leads astray, so that everything before has to be checked: no more than a little in each call."""
    monkeypatch.setattr(soundness, "MOST_BATCHES", 10)
    disk = SimDisk()
    written(disk)
    for entry in range(80):
        spoil(disk, INDEX, entry)
    log = opened(disk)
    empty = cost = 0
    while not (part := read(log, 150)).size:
        assert log.check_cost - cost < 3000
        cost = log.check_cost
        empty += 1
    assert empty > 1
    assert [header.base_offset for _, header in batches(part.read())] == [150, 151, 152]


def test_a_compaction_checks_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soundness, "MOST_BATCHES", 10)
    disk = SimDisk()
    config = replace(CONFIG, cleanup_policy="compact")
    log = Log.open(disk, "t-0", config, NOW)
    for number in range(2 * COUNT):
        if number == COUNT:
            log.roll()
        append(log, bytearray(build([b"key-%d" % (number % 7)], [bytes(20)], NOW.wall_ms)))
    sync(log)
    log.close()
    log = opened(disk, config)
    found = dirtiness(log, 0, NOW._replace(wall_ms=NOW.wall_ms + 5000))
    pauses = Compaction(log, disk, found, NOW, bytes(16)).run()
    cost, most = log.check_cost, 0
    for _ in pauses:
        most, cost = max(most, log.check_cost - cost), log.check_cost
    assert 0 < most < 200
    assert len(read_all(log)) == COUNT + 7


def test_many_readers_of_one_segment_all_get_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """More stretches than are remembered: what one reader has just had checked is not forgotten before it is read."""
    monkeypatch.setattr(soundness, "MOST_INTERVALS", 4)
    disk = SimDisk()
    written(disk)
    log = opened(disk)
    for first in (0, 30, 60, 90, 120, 150, 180):
        size = 1500 if first < 120 else 300
        part = read(log, first, size)
        assert part.size
        assert next(batches(part.read()))[1].base_offset == first
