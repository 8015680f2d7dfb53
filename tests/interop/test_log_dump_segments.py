"""Apache Kafka's `DumpLogSegments` reads every file that the log writes, finds nothing wrong in it, and sees what we know."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.net.disk.disk import RealDisk
from ottla.ports import Now
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header
from ottla.sim.invariants import stored_batches, stored_records
from ottla.wire import encode
from ottla.wire.data.transaction_log import TransactionLogKey, TransactionLogValue
from tests.support.java import run
from tests.unit.log.batches import NOW, append
from tests.unit.log.test_log_transactions import end

DUMP = "org.apache.kafka.tools.DumpLogSegments"
COMPLAINTS = (
    "Mismatch",
    "mismatch",
    "Missing",
    "not found",
    "out of order",
    "corrupt",
    "Exception",
    "isvalid: false",
    "non-consec",
)
EVERY = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")

pytestmark = [pytest.mark.java, pytest.mark.slow]


@contextmanager
def opened(home: Path, config: LogConfig, directory: str = "t-0") -> Iterator[tuple[Log, RealDisk]]:
    """A new log on a real disk, closed in order when the block ends."""
    disk = RealDisk(str(home), lambda call: call())
    log = Log.open(disk, directory, config, NOW, topic_id=bytes(range(16)))
    yield log, disk
    log.close()
    disk.close()


def dumped(directory: Path, *options: str, endings: tuple[str, ...] = EVERY) -> str:
    """What Apache Kafka's tool says of a directory's files, which must not be a complaint."""
    files = sorted(file for file in directory.iterdir() if file.suffix in endings)
    said = run(DUMP, *options, "--files", ",".join(map(str, files)))
    assert [line for line in said.splitlines() if any(complaint in line for complaint in COMPLAINTS)] == []
    return said


def find_sane(directory: Path) -> None:
    """A short segment's index may be empty, as Apache Kafka's own are."""
    said = dumped(directory, "--index-sanity-check", endings=(".index", ".timeindex"))
    for file in (*directory.glob("*.index"), *directory.glob("*.timeindex")):
        assert f"{file} {'passed sanity check' if file.stat().st_size else 'is empty'}." in said


def numbers(pattern: str, said: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, found.groups())) for found in re.finditer(pattern, said, re.MULTILINE)]


def fill(log: Log, count: int = 300, step_ms: int = 10) -> int:
    """Batches of all codecs, every other one of an idempotent producer; its next sequence."""
    sequence = 0
    for number in range(count):
        values = [b"%d/%d " % (number, at) * 20 for at in range(1 + number % 7)]
        times = [NOW.wall_ms + number * step_ms + at - (number % 3) * 50 for at in range(len(values))]
        idempotent = number % 2
        producer_id, epoch, first = (7, 0, sequence) if idempotent else (-1, -1, -1)
        keys = [b"key"] * len(values)
        batch = build(keys, values, times, codec=number % 5, producer_id=producer_id, producer_epoch=epoch, base_sequence=first)
        sequence += len(values) if idempotent else 0
        assert append(log, batch, leader_epoch=number // 100).error_code == 0
    return sequence


@pytest.mark.rows(2, seconds=2)
@pytest.mark.parametrize(
    "config",
    [
        LogConfig(segment_bytes=15_000, index_interval_bytes=1000),
        LogConfig(segment_ms=500, index_interval_bytes=0),
        LogConfig(segment_index_bytes=240, index_interval_bytes=100),
        LogConfig(segment_bytes=15_000, index_interval_bytes=1000, preallocate=True),
        LogConfig(segment_bytes=15_000, index_interval_bytes=1000, message_timestamp_type="LogAppendTime"),
    ],
    ids=["rolled by bytes", "rolled by time", "rolled by its indexes", "preallocated", "append time"],
)
def test_every_file_of_a_log_is_read_without_complaint(tmp_path: Path, config: LogConfig) -> None:
    with opened(tmp_path, config) as (log, _):
        sequence = fill(log)
        known = [(header.base_offset, header.last_offset) for header in map(read_header, stored_batches(log))]
        assert len(log.segments) > 3
    said = dumped(tmp_path / "t-0", "--deep-iteration")
    assert numbers(r"^baseOffset: (\d+) lastOffset: (\d+) .*isvalid: true$", said) == known
    assert numbers(r"^producerId: (\d+) producerEpoch: (\d+) .*lastSequence: (\d+)", said)[-1] == (7, 0, sequence - 1)
    find_sane(tmp_path / "t-0")


def transact(log: Log, producer_id: int, keys: list[bytes], sequence: int) -> None:
    batch = build(
        keys,
        [b"value"] * len(keys),
        NOW.wall_ms,
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=sequence,
        transactional=True,
    )
    assert append(log, batch).error_code == 0


def test_transactions_and_the_index_of_aborted_ones_are_read_without_complaint(tmp_path: Path) -> None:
    with opened(tmp_path, LogConfig(segment_bytes=700, index_interval_bytes=200)) as (log, _):
        for number in range(12):
            transact(log, 1, [b"a", b"b"], 2 * number)
            transact(log, 2, [b"c"], number)
            assert end(log, 1, ABORT if number % 2 else COMMIT, epoch=3, coordinator_epoch=4) == 0
            assert end(log, 2, COMMIT if number % 3 else ABORT, epoch=3, coordinator_epoch=5) == 0
        transact(log, 2, [b"open"], 12)
        aborted = log.aborted_transactions(0, log.log_end_offset)
        open_from = log.last_stable_offset
        assert len({segment.base_offset for segment in log.segments if segment.transactions.entries}) > 2
    said = dumped(tmp_path / "t-0", "--deep-iteration")
    found = numbers(r"^version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", said)
    assert found == [tuple(entry) for entry in aborted]
    assert said.count("endTxnMarker: ABORT") == len(aborted) == 10
    assert said.count("endTxnMarker: COMMIT") == 14
    found = numbers(r"^producerId: (\d+) .* coordinatorEpoch: (\d+) currentTxnFirstOffset: OptionalLong\[(\d+)\]", said)
    assert found == [(2, 5, open_from)]


def compact(log: Log, disk: RealDisk, now: Now) -> None:
    compaction = Compaction(log, disk, dirtiness(log, 0, now), now, bytes(16))
    for files in compaction.run():
        for file in files or ():
            file.sync()


def test_compacted_segments_are_read_without_complaint(tmp_path: Path) -> None:
    config = LogConfig(cleanup_policy="compact", segment_bytes=6000, index_interval_bytes=300, delete_retention_ms=1000)
    with opened(tmp_path, config) as (log, disk):
        for number in range(200):
            keys = [b"key %d" % (number * at % 37) for at in range(1, 6)]
            values = [None if (number + at) % 11 == 0 else b"%d" % number * 9 for at in range(5)]
            append(log, build(keys, values, NOW.wall_ms + number, codec=number % 5))
            transact(log, 1, [b"t %d" % (number % 5)], number)
            end(log, 1, ABORT if number % 7 else COMMIT, epoch=3)
        log.roll()
        compact(log, disk, Now(NOW.wall_ms + 500, 500))
        compact(log, disk, Now(NOW.wall_ms + 2000, 2000))
        append(log, build([b"new"], [None], NOW.wall_ms))
        log.roll()
        compact(log, disk, Now(NOW.wall_ms + 3000, 3000))
        known = [record.offset for record in stored_records(log)]
        horizons = [horizon for batch in stored_batches(log) if (horizon := read_header(batch).delete_horizon_ms) is not None]
        assert horizons
        assert 30 < len(known) < 100
    said = dumped(tmp_path / "t-0", "--deep-iteration", "--print-data-log")
    assert [offset for (offset,) in numbers(r"^\| offset: (\d+) (?!.*endTxnMarker)", said)] == known
    assert [horizon for (horizon,) in numbers(r"deleteHorizonMs: OptionalLong\[(\d+)\]", said)] == horizons
    find_sane(tmp_path / "t-0")


def test_the_states_of_transactions_are_read_by_their_decoder(tmp_path: Path) -> None:
    with opened(tmp_path, LogConfig(cleanup_policy="compact"), "__transaction_state-0") as (log, _):
        for version in (0, 1):
            key = b"\0\0" + encode(TransactionLogKey(transactional_id=f"id {version}"), 0)
            append(log, build([key], [version.to_bytes(2, "big") + encode(state(version), version)], NOW.wall_ms))
        append(log, build([key], [None], NOW.wall_ms))
    said = dumped(tmp_path / "__transaction_state-0", "--transaction-log-decoder")
    found = re.findall(r" key: (\{.*\}) payload: (.*)$", said, re.MULTILINE)
    assert [json.loads(key)["data"]["transactionalId"] for key, _ in found] == ["id 0", "id 1", "id 1"]
    for version, (_, payload) in enumerate(found[:2]):
        row = json.loads(payload)
        assert row["version"] == str(version)
        assert (row["data"]["producerId"], row["data"]["transactionStatus"]) == (7, 4)
        assert row["data"]["transactionPartitions"] == [{"topic": "t", "partitionIds": [0, 3]}]
    assert found[2][1] == "<DELETE>"


def state(version: int) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=4,
        transaction_partitions=[TransactionLogValue.PartitionsSchema(topic="t", partition_ids=[0, 3])],
        transaction_last_update_timestamp_ms=NOW.wall_ms,
        transaction_start_timestamp_ms=NOW.wall_ms - 5,
        client_transaction_version=2 * version,
    )
