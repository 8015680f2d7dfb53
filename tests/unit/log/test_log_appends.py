"""Appending: offsets, times, sequences, sizes, segments, and a disk that refuses."""

from __future__ import annotations

import pytest

from ottla.log.config import LOG_APPEND_TIME
from ottla.log.log import Appended, Log, LogConfig
from ottla.log.producer_state.producers import Producers
from ottla.ports import Now, StorageFailed, SyncFailed
from ottla.records.batches.builder import build
from ottla.records.batches.header import crc_is_valid, read_header
from ottla.sim.disk import IO_ERROR, NO_SPACE, SimDisk
from ottla.wire.errors import INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, RECORD_LIST_TOO_LARGE
from tests.unit.log.batches import NOW, append, make_batch, read_all, sync


def opened(config: LogConfig | None = None, disk: SimDisk | None = None) -> Log:
    return Log.open(disk or SimDisk(), "t-0", config or LogConfig(), NOW)


def test_batches_get_the_next_offsets_and_the_leader_epoch() -> None:
    log = opened()
    assert append(log, make_batch(3)) == Appended(0, 0, 2, -1, False)
    assert append(log, make_batch(2) + make_batch(1), leader_epoch=4) == Appended(0, 3, 5, -1, False)
    assert [(header.base_offset, header.leader_epoch) for header, _ in read_all(log)] == [(0, 0), (3, 4), (5, 4)]
    assert (log.log_end_offset, log.leader_epoch) == (6, 4)


def test_log_append_time_is_written_into_the_batch() -> None:
    log = opened(LogConfig(message_timestamp_type=LOG_APPEND_TIME))
    assert append(log, make_batch(3, timestamp=5), now=Now(77_000, 0)).log_append_time_ms == 77_000
    [(header, data)] = read_all(log)
    assert (header.max_timestamp, header.timestamp_type) == (77_000, 1)
    assert crc_is_valid(memoryview(data))
    assert log.offset_for_timestamp(70_000) == (77_000, 0)


def test_more_than_a_segment_holds_is_refused() -> None:
    log = opened(LogConfig(segment_bytes=500))
    assert append(log, make_batch(1, 440)).error_code == RECORD_LIST_TOO_LARGE
    assert append(log, make_batch(1, 439)).error_code == 0


@pytest.mark.parametrize(
    ("config", "step_ms", "expected"),
    [
        (LogConfig(segment_bytes=400), 0, [0, 3, 6, 9]),
        (LogConfig(segment_ms=100), 30, [0, 4, 8]),
        (LogConfig(index_interval_bytes=0, segment_index_bytes=36), 1, [0, 4, 8]),
        (LogConfig(), 10**6, [0]),
    ],
)
def test_segments_roll_by_size_time_and_index(config: LogConfig, step_ms: int, expected: list[int]) -> None:
    log = opened(config)
    for number in range(10):
        append(log, make_batch(1, 60, NOW.wall_ms + number * step_ms))
    assert [segment.base_offset for segment in log.segments] == expected
    assert log.size_bytes == 10 * 121


def test_a_segment_that_begins_without_times_is_of_no_age() -> None:
    """Clients before 0.10 send none (-1), and whoever then sent one had the log roll."""
    log = opened(LogConfig(segment_ms=100))
    for timestamp in (-1, NOW.wall_ms, -1, NOW.wall_ms):
        append(log, make_batch(1, 60, timestamp))
    assert [segment.base_offset for segment in log.segments] == [0]


def test_a_retry_is_known_by_the_last_five_batches() -> None:
    log = opened()
    for sequence in range(7):
        append(log, make_batch(1, producer_id=9, epoch=0, sequence=sequence))
    for sequence in range(2, 7):
        assert append(log, make_batch(1, producer_id=9, epoch=0, sequence=sequence)) == (0, sequence, sequence, NOW.wall_ms, True)
    assert append(log, make_batch(1, producer_id=9, epoch=0, sequence=1)).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 7


def test_sequences_and_epochs_are_checked() -> None:
    log = opened()

    def produce(epoch: int, sequence: int, count: int = 1) -> int:
        return append(log, make_batch(count, producer_id=9, epoch=epoch, sequence=sequence)).error_code

    assert produce(1, 50) == 0, "a producer that is not known here may begin anywhere"
    assert produce(1, 52) == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(0, 51) == INVALID_PRODUCER_EPOCH
    assert produce(2, 51) == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(2, 0) == 0
    assert log.log_end_offset == 2


def test_sequences_wrap() -> None:
    log = opened()
    assert append(log, make_batch(4, producer_id=9, epoch=0, sequence=2**31 - 2)).error_code == 0
    assert append(log, make_batch(1, producer_id=9, epoch=0, sequence=2)).error_code == 0
    assert log.producers.by_id[9].batches[0].last_sequence == 1


def test_several_batches_must_follow_one_another() -> None:
    log = opened()
    good = make_batch(2, producer_id=9, epoch=0, sequence=0) + make_batch(1, producer_id=9, epoch=0, sequence=2)
    assert append(log, good).error_code == 0
    gap = make_batch(2, producer_id=9, epoch=0, sequence=3) + make_batch(1, producer_id=9, epoch=0, sequence=6)
    assert append(log, gap).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 3


def test_what_the_broker_writes_itself_is_not_checked_but_remembered() -> None:
    log = opened()
    for sequence in (5, 3):
        assert append(log, make_batch(producer_id=9, epoch=0, sequence=sequence), origin_client=False).error_code == 0
    assert len(log.producers.by_id[9].batches) == 2


@pytest.mark.parametrize("clean", [True, False])
def test_a_retry_is_still_known_after_a_restart(clean: bool) -> None:
    disk = SimDisk()
    log = opened(disk=disk)
    for sequence in range(6):
        append(log, make_batch(1, producer_id=9, epoch=0, sequence=sequence))
    if clean:
        log.close()
    log = Log.open(disk, "t-0", LogConfig(), NOW, clean=clean)
    for sequence in range(1, 6):
        assert append(log, make_batch(1, producer_id=9, epoch=0, sequence=sequence)).duplicate
    assert append(log, make_batch(1, producer_id=9, epoch=0, sequence=6)) == (0, 6, 6, -1, False)


def test_producers_expire() -> None:
    disk = SimDisk()
    log = opened(LogConfig(producer_id_expiration_ms=1000), disk)
    append(log, make_batch(1, timestamp=5, producer_id=9, epoch=0, sequence=0))
    log.retain(Now(NOW.wall_ms + 1000, 0))
    assert 9 in log.producers.by_id
    log.retain(Now(NOW.wall_ms + 1001, 0))
    assert 9 not in log.producers.by_id
    later = Now(NOW.wall_ms + 2000, 0)
    assert Log.open(disk, "t-0", LogConfig(producer_id_expiration_ms=1000), later).producers.by_id == {}


def test_a_snapshot_that_is_not_whole_is_known() -> None:
    producers = Producers()
    for number in range(3):
        producers.note(read_header(make_batch(2, producer_id=number, epoch=1, sequence=0)), 10 * number)
    whole = producers.encode()
    loaded = Producers.decode(whole)
    assert loaded is not None
    assert loaded.by_id == producers.by_id
    assert all(Producers.decode(whole[:size]) is None for size in range(len(whole)))
    for at in range(2, len(whole)):
        assert Producers.decode(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]) is None


def test_open_transactions_are_remembered() -> None:
    header = read_header(make_batch(1, producer_id=3, epoch=0, sequence=0))
    producers = Producers()
    producers.note(header._replace(attributes=0x10), 7)
    producers.note(header._replace(attributes=0x10, base_sequence=1), 8)
    assert producers.first_unstable_offset() == 7
    producers.expire(NOW.wall_ms + 1)
    loaded = Producers.decode(producers.encode())
    assert loaded is not None
    assert loaded.first_unstable_offset() == 7
    producers.note(header._replace(attributes=0x30), 9)
    assert producers.first_unstable_offset() is None


def test_a_full_disk_refuses_appends_and_nothing_else() -> None:
    disk = SimDisk(capacity_bytes=1000)
    log = opened(LogConfig(segment_bytes=600), disk)
    with pytest.raises(StorageFailed, match="No space left"):
        [append(log, make_batch(1, 39)) for _ in range(20)]
    before = read_all(log)
    written = len(before)
    assert 0 < written < 10
    for _ in range(3):
        with pytest.raises(StorageFailed):
            append(log, make_batch(1, 300))
    assert (read_all(log), log.log_end_offset) == (before, written)
    disk.capacity_bytes = None
    assert append(log, make_batch(1, 300)).base_offset == written
    sync(log)
    assert len(read_all(Log.open(disk, "t-0", LogConfig(), NOW))) == written + 1


@pytest.mark.parametrize("reason", [IO_ERROR, NO_SPACE])
@pytest.mark.parametrize("after", range(8))
def test_whichever_operation_fails_the_append_can_be_made_again(after: int, reason: str) -> None:
    disk = SimDisk()
    log = opened(LogConfig(segment_bytes=200, index_interval_bytes=0), disk)
    append(log, make_batch(1, 60))
    append(log, make_batch(1, 10))
    disk.fail(after, reason)
    batch = make_batch(1, 80, producer_id=4, epoch=0, sequence=0)
    try:
        assert append(log, batch, leader_epoch=3).error_code == 0
    except StorageFailed as failure:
        assert (log.log_end_offset, log.leader_epoch, log.producers.by_id) == (2, 0, {})
        disk.heal()
        if isinstance(failure, SyncFailed):  # the partition is offline then
            disk.kill()
            log = opened(LogConfig(segment_bytes=200, index_interval_bytes=0), disk)
        assert append(log, batch, leader_epoch=3) == (0, 2, 2, -1, False)
    disk.heal()
    assert [header.base_offset for header, _ in read_all(log)] == [0, 1, 2]
    assert log.epochs.entries == [(0, 0), (3, 2)]


def test_what_is_synced_is_what_was_there_when_asked() -> None:
    log = opened(LogConfig(segment_bytes=200))
    assert (log.dirty_files(), log.synced_offset) == ([], 0)
    append(log, make_batch(1, 100))
    [first] = log.dirty_files()
    append(log, make_batch(1, 100))
    log.mark_synced(1)
    assert log.synced_offset == 1
    assert {file.path for file in log.dirty_files()} > {"t-0/00000000000000000001.log"}
    assert first not in log.dirty_files()
    sync(log)
    assert log.synced_offset == 2
    assert log.dirty_files() == []


def test_segments_of_logs_that_began_together_roll_at_different_times() -> None:
    def rolled_after(path: str, segment_jitter_ms: int = 0) -> int:
        log = Log.open(SimDisk(), path, LogConfig(segment_ms=1000, segment_jitter_ms=segment_jitter_ms), NOW)
        age = 0
        while len(log.segments) == 1:
            append(log, make_batch(timestamp=NOW.wall_ms + age))
            age += 1
        return age - 1

    assert {rolled_after(f"t-{index}") for index in range(5)} == {1001}
    ages = {rolled_after(f"t-{index}", segment_jitter_ms=400) for index in range(10)}
    assert len(ages) > 5
    assert all(601 < age <= 1001 for age in ages)
    assert rolled_after("t-0", segment_jitter_ms=5000) <= 1001


def test_made_up_producer_ids_push_out_idle_ones_and_neither_the_active_nor_open_transactions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimDisk()
    log = opened(LogConfig(ottla_max_producer_ids=50), disk)
    transactional = build([b"k"], [b"v"], NOW.wall_ms, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert append(log, transactional).error_code == 0
    assert append(log, make_batch(producer_id=2, epoch=0, sequence=0)).error_code == 0
    for number in range(500):
        later = Now(NOW.wall_ms + number, number)
        assert append(log, make_batch(producer_id=1000 + number, epoch=0, sequence=0), now=later).error_code == 0
        if not number % 10:
            assert append(log, make_batch(producer_id=3, epoch=0, sequence=number // 10), now=later).error_code == 0
        assert len(log.producers.by_id) <= 50
    assert 1 in log.producers.by_id
    assert 2 not in log.producers.by_id
    assert append(log, make_batch(producer_id=3, epoch=0, sequence=49)).duplicate
    assert log.last_stable_offset == 0
    assert caplog.messages[0].startswith("t-0: 4 producer ids were expired")
    assert "Raise the setting" in caplog.messages[0]
