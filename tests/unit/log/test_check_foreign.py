"""`ottla log check`: snapshots and metadata that are whole, and another log's."""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.check import check, findings, repairs
from ottla.log.check.findings import DERIVED, REFUSED, Known
from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.log.names import SNAPSHOT, file_name
from ottla.log.producer_state.producers import Producers
from ottla.ports import Now
from ottla.records.batches.builder import build
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch, sync

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)
TOPIC, OTHER = bytes(range(16)), bytes(range(1, 17))


def written(disk: SimDisk, path: str, producer_ids: list[int], topic_id: bytes = TOPIC) -> None:
    """One batch of each in turn, some of transactions, and closed in order."""
    log = Log.open(disk, path, CONFIG, NOW, topic_id=topic_id)
    sequences = dict.fromkeys(producer_ids, 0)
    for number in range(30):
        producer_id = producer_ids[number % len(producer_ids)]
        append(log, make_batch(1, 90, producer_id=producer_id, epoch=0, sequence=sequences[producer_id]))
        sequences[producer_id] += 1
    append(log, build([b"k"], [b"v"], NOW.wall_ms, producer_id=99, producer_epoch=0, base_sequence=0, transactional=True))
    log.close()


@pytest.fixture
def disk() -> SimDisk:
    """Two partitions' logs that are as long as each other."""
    disk = SimDisk()
    written(disk, "t-0", [5, 6, 7])
    written(disk, "t-1", [5, 6])
    return disk


def snapshots(disk: SimDisk, path: str) -> list[str]:
    return [name for name in disk.list(path) if name.endswith(SNAPSHOT)]


def found(disk: SimDisk, path: str, known: Known = findings.NOTHING_KNOWN) -> list[tuple[str, str]]:
    return [finding[:2] for finding in check.check_partition(disk, path, known)]


def edit(disk: SimDisk, offset: int, **changes: int) -> None:
    """Let a snapshot say something else of producer 5, with a right CRC."""
    name = f"t-0/{file_name(offset, SNAPSHOT)}"
    producers = Producers.decode(disk.read_file(name))
    assert producers is not None
    state = producers.by_id[5]
    for field, value in changes.items():
        if field in ("epoch", "txn_first_offset"):
            setattr(state, field, value)
        else:
            state.batches = [state.batches[-1]._replace(**{field: value})]
    disk.write_file(name, producers.encode())


def test_what_was_written_is_in_order(disk: SimDisk) -> None:
    assert found(disk, "t-0") == found(disk, "t-1") == []
    assert len(snapshots(disk, "t-0")) > 3


def test_another_partitions_snapshots_are_found_and_replayed(disk: SimDisk) -> None:
    for name in snapshots(disk, "t-0"):
        disk.write_file(f"t-0/{name}", disk.read_file(f"t-1/{name}"))
    assert found(disk, "t-0") == [(DERIVED, f"t-0/{name}") for name in snapshots(disk, "t-0")]
    assert repairs.repair_partition(disk, "t-0", NOW)
    assert found(disk, "t-0") == []
    log = Log.open(disk, "t-0", CONFIG, NOW)
    assert set(log.producers.by_id) == {5, 6, 7, 99}


def test_an_older_snapshot_under_a_later_name_is_found(disk: SimDisk) -> None:
    names = snapshots(disk, "t-0")
    disk.write_file(f"t-0/{names[-1]}", disk.read_file(f"t-0/{names[-2]}"))
    assert found(disk, "t-0") == [(DERIVED, f"t-0/{names[-1]}")]


def test_a_later_snapshot_under_an_older_name_is_found(disk: SimDisk) -> None:
    names = snapshots(disk, "t-0")
    disk.write_file(f"t-0/{names[1]}", disk.read_file(f"t-0/{names[-1]}"))
    assert found(disk, "t-0") == [(DERIVED, f"t-0/{names[1]}")]


@pytest.mark.parametrize(
    "change", [{"epoch": 1}, {"last_sequence": 77}, {"base_offset": 0}, {"last_offset": 28}, {"txn_first_offset": 1}]
)
def test_whatever_is_changed_of_a_producer_is_found(disk: SimDisk, change: dict[str, int]) -> None:
    edit(disk, 31, **change)
    assert found(disk, "t-0") == [(DERIVED, f"t-0/{file_name(31, SNAPSHOT)}")]


@pytest.mark.parametrize("seed", range(10))
def test_no_log_that_lived_is_accused(seed: int) -> None:
    """Transactions, compaction, retention, forgotten producers, and markers of later epochs."""
    random, disk = Random(seed), SimDisk()
    config = LogConfig(
        cleanup_policy="compact,delete",
        segment_bytes=1500,
        index_interval_bytes=200,
        ottla_max_producer_ids=6,
        file_delete_delay_ms=0,
    )
    log = Log.open(disk, "t-0", config, NOW)
    state: dict[int, list[int]] = {producer_id: [0, 0, 0] for producer_id in range(12)}
    for number in range(250):
        now = Now(NOW.wall_ms + number, number)
        producer_id = random.randrange(12)
        epoch, sequence, is_open = state[producer_id]
        if is_open and random.random() < 0.5:
            epoch += random.randrange(2)
            marker = build(
                [bytes(4)], [bytes(6)], now.wall_ms, producer_id=producer_id, producer_epoch=epoch, transactional=True, control=True
            )
            assert append(log, marker, now=now).error_code == 0
            state[producer_id] = [epoch, sequence if epoch == state[producer_id][0] else 0, 0]
        else:
            key = b"key %d" % random.randrange(5)
            batch = build(
                [key],
                [b"%090d" % number],
                now.wall_ms,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=producer_id % 2 == 0,
            )
            assert append(log, batch, now=now).error_code == 0
            state[producer_id] = [epoch, sequence + 1, int(producer_id % 2 == 0)]
        if not number % 60:
            sync(log)
            log.checkpoint()
            for files in Compaction(log, disk, dirtiness(log, 0, now), now, bytes(16)).run():
                for file in files or ():
                    file.sync()
    if seed % 2:
        log.delete_records(log.log_end_offset // 2)
        log.retain(Now(NOW.wall_ms + 10**6, 10**6))
    log.close()
    known = Known(log.log_end_offset, log.log_start_offset)
    assert [finding for finding in check.check_partition(disk, "t-0", known) if finding.path.endswith(SNAPSHOT)] == []


def test_another_topics_directory_is_refused_where_the_registry_knows(disk: SimDisk) -> None:
    assert found(disk, "t-0", Known(topic_id=TOPIC)) == []
    assert found(disk, "t-0", Known(topic_id=OTHER)) == [(REFUSED, "t-0/partition.metadata")]
    assert repairs.repair_partition(disk, "t-0", NOW, Known(topic_id=OTHER)) == []
