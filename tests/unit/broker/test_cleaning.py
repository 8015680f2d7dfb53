"""Compaction as users see it: through topics' settings and fetches, in the background, over restarts."""

from __future__ import annotations

import pytest

from ottla.log.checkpoints import CLEANED_OFFSETS
from ottla.ports import StorageFailed
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Record, open_batches
from ottla.records.batches.header import batches
from ottla.records.compression.codecs import ZSTD
from ottla.wire.api.create_topics import CreateTopicsRequest
from tests.support.machine import Machine
from tests.support.producing import delete
from tests.unit.broker.test_long_produce import Threaded

SETTINGS = {"log.cleaner.backoff.ms": "100"}
COMPACT = {"cleanup.policy": "compact", "internal.segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}


def create(machine: Machine, topic_name: str = "t", **settings: str) -> None:
    configs = COMPACT | {name.replace("_", "."): value for name, value in settings.items()}
    of = CreateTopicsRequest
    topic = of.CreatableTopic(
        name=topic_name,
        num_partitions=1,
        replication_factor=1,
        configs=[of.CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    assert [one.error_code for one in machine.ask(19, 7, of(topics=[topic])).topics] == [0]


def append(machine: Machine, keys: list[bytes], value: bytes | None, topic_name: str = "t") -> None:
    partition = machine.broker.partitions.get(topic_name, 0)
    assert partition is not None
    now = machine.clock.now()
    batch = build(keys, [value] * len(keys), now.wall_ms)
    assert partition.append(batch, [header for _, header in batches(batch)], now).error_code == 0


def fill(machine: Machine, rounds: int = 60, topic_name: str = "t") -> dict[bytes, bytes]:
    """Write the same twenty keys again and again; returns what is newest."""
    keys = [b"key-%d" % number for number in range(20)]
    for number in range(rounds):
        append(machine, keys, b"%d" % number, topic_name)
    return dict.fromkeys(keys, b"%d" % (rounds - 1))


def records(machine: Machine) -> list[Record]:
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    log = partition.log
    found: list[Record] = []
    offset = log.log_start_offset
    while (part := log.read(offset, 1 << 20, until_offset=log.log_end_offset, min_one_batch=True)) is not None:
        columns = open_batches(part.read())
        found += columns.records()
        offset = columns.next_offset
    return found


def pass_time(machine: Machine, ms: int) -> None:
    for _ in range(ms // 50):
        machine.pass_time(50)


def test_a_compacted_topic_keeps_the_newest_record_of_each_key() -> None:
    machine = Machine(**SETTINGS)
    create(machine)
    newest = fill(machine)
    before = records(machine)
    pass_time(machine, 2000)
    after = records(machine)
    assert len(after) < len(before) / 3
    assert {record.key: record.value for record in after} == newest
    assert after == [record for record in before if record in set(after)]


def test_a_topic_that_only_deletes_is_left_alone() -> None:
    machine = Machine(**SETTINGS)
    create(machine, cleanup_policy="delete")
    fill(machine)
    before = records(machine)
    pass_time(machine, 2000)
    assert records(machine) == before


def test_the_cleaner_can_be_switched_off() -> None:
    machine = Machine(**SETTINGS, log_cleaner_enable="false")
    create(machine)
    fill(machine)
    before = records(machine)
    pass_time(machine, 2000)
    assert records(machine) == before


def test_keys_beyond_the_memory_take_more_passes() -> None:
    machine = Machine(**SETTINGS, log_cleaner_dedupe_buffer_size="1024")
    create(machine)
    for number in range(3):
        for start in range(0, 200, 10):
            append(machine, [b"key-%d" % (start + at) for at in range(10)], b"%d" % number)
    pass_time(machine, 20_000)
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    sealed = [record for record in records(machine) if record.offset < partition.log.segments[-1].base_offset]
    assert len({record.key for record in sealed}) == len(sealed)


def test_how_far_a_log_is_compacted_survives_a_restart() -> None:
    machine = Machine(**SETTINGS)
    create(machine)
    fill(machine)
    pass_time(machine, 2000)
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    cleaned = machine.broker.cleaner.cleaned_offset(partition)
    assert cleaned > 0
    assert machine.disk.read_file(CLEANED_OFFSETS).split() == f"0 1 t 0 {cleaned}".encode().split()
    machine.restart()
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    assert machine.broker.cleaner.cleaned_offset(partition) == cleaned


def test_a_topic_that_is_deleted_while_it_is_compacted_ends_the_pass() -> None:
    machine = Machine(**SETTINGS)
    create(machine)
    fill(machine, 2000)
    machine.broker.run_timers(machine.clock.advance(100))
    delete(machine, "t")
    pass_time(machine, 500)
    assert machine.broker.partitions.get("t", 0) is None


def test_deleted_keys_are_forgotten_after_delete_retention_ms() -> None:
    machine = Machine(**SETTINGS)
    create(machine, delete_retention_ms="5000")
    fill(machine, 10)
    append(machine, [b"key-%d" % number for number in range(20)], None)
    newest = fill_others(machine)
    pass_time(machine, 2000)
    assert sum(record.value is None for record in records(machine)) == 20
    pass_time(machine, 6000)
    newest |= fill_others(machine)
    pass_time(machine, 2000)
    assert {record.key: record.value for record in records(machine)} == newest


def fill_others(machine: Machine) -> dict[bytes, bytes]:
    for number in range(40):
        append(machine, [b"other-%d" % at for at in range(20)], b"%d" % number)
    return {b"other-%d" % at: b"39" for at in range(20)}


def test_max_compaction_lag_goes_before_the_ratio_and_seals_the_newest_segment() -> None:
    machine = Machine(**SETTINGS)
    create(machine, max_compaction_lag_ms="10000", min_cleanable_dirty_ratio="1", internal_segment_bytes="1000000")
    newest = fill(machine)
    pass_time(machine, 5000)
    assert len(records(machine)) == 60 * 20
    pass_time(machine, 7000)
    after = records(machine)
    assert len(after) == 20
    assert {record.key: record.value for record in after} == newest


def test_min_compaction_lag_keeps_young_records() -> None:
    machine = Machine(**SETTINGS)
    create(machine, min_compaction_lag_ms="60000")
    fill(machine)
    pass_time(machine, 3000)
    assert len(records(machine)) == 60 * 20
    pass_time(machine, 60_000)
    assert len(records(machine)) < 60 * 10


def test_large_batches_are_compacted_on_another_thread() -> None:
    machine = Threaded(**{"log.cleaner.backoff.ms": "100"})
    machine.set_topic("t", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "max.message.bytes": str(8 << 20)})
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    for value in (b"old", b"new"):
        batch = build([b"a", b"b"], [bytes(6 << 20), value], machine.clock.now().wall_ms, codec=ZSTD)
        assert partition.append(batch, [header for _, header in batches(batch)], machine.clock.now()).error_code == 0
    partition.log.roll()
    large = 0
    for _ in range(100):
        machine.pass_time(50)
        while machine.threads.turns:
            large += machine.threads.turns[0][2]
            assert machine.broker.cleaner.cleaned_offset(partition) == 0
            machine.threads.one()
            machine.pass_time(1)
    assert machine.broker.cleaner.cleaned_offset(partition) == 4
    assert large == 4, "each of two batches is opened twice"
    assert [record.offset for record in records(machine)] == [2, 3]


def test_a_partition_may_go_while_a_large_batch_of_it_is_compacted() -> None:
    machine = Threaded(**{"log.cleaner.backoff.ms": "100"})
    machine.set_topic("t", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "max.message.bytes": str(8 << 20)})
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    batch = build([b"a"], [bytes(6 << 20)], machine.clock.now().wall_ms, codec=ZSTD)
    assert partition.append(batch, [header for _, header in batches(batch)], machine.clock.now()).error_code == 0
    partition.log.roll()
    for _ in range(100):
        machine.pass_time(50)
        if machine.threads.turns:
            break
    assert machine.threads.turns
    delete(machine, "t")
    machine.work()
    machine.pass_time(1000)
    assert machine.broker.checks.memory_of_large.free_bytes > 0
    assert not machine.threads.turns


def cleaned_offset(machine: Machine, topic_name: str) -> int:
    partition = machine.broker.partitions.get(topic_name, 0)
    assert partition is not None
    return machine.broker.cleaner.cleaned_offset(partition)


def test_a_log_that_the_disk_refuses_to_compact_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(**SETTINGS)
    create(machine, "bad")
    create(machine, "good")
    fill(machine, 90, "bad")
    fill(machine, 60, "good")
    may = machine.disk.may

    def refuse_bad(operation: str, path: str, size: int = 0) -> None:
        if path.startswith("bad-0/") and ".cleaned" in path:
            raise StorageFailed(path, "No space left on device")
        may(operation, path, size)

    with monkeypatch.context() as patch:
        patch.setattr(machine.disk, "may", refuse_bad)
        pass_time(machine, 10_000)
    assert cleaned_offset(machine, "good") > 0
    assert cleaned_offset(machine, "bad") == 0
    refusals = [record for record in caplog.records if "bad-0 could not be compacted" in record.message]
    assert 3 <= len(refusals) < 9, "each pause is twice as long as the one before"
    pass_time(machine, 20_000)
    assert cleaned_offset(machine, "bad") > 0


def test_a_refused_compaction_pauses_also_where_logs_are_looked_at_all_the_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(**{"log.cleaner.backoff.ms": "0"})
    create(machine)
    fill(machine, 90)
    may = machine.disk.may

    def refuse(operation: str, path: str, size: int = 0) -> None:
        if ".cleaned" in path:
            raise StorageFailed(path, "No space left on device")
        may(operation, path, size)

    with monkeypatch.context() as patch:
        patch.setattr(machine.disk, "may", refuse)
        pass_time(machine, 5_000)
    assert 1 <= len([message for message in caplog.messages if "could not be compacted" in message]) <= 4
    pass_time(machine, 20_000)
    assert cleaned_offset(machine, "t") > 0


def test_records_without_timestamps_are_sealed_once_for_max_compaction_lag() -> None:
    machine = Machine(**SETTINGS)
    create(machine, max_compaction_lag_ms="1000", min_cleanable_dirty_ratio="1", internal_segment_bytes="1000000")
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    for number in range(5):
        batch = build([b"key"], [b"%d" % number], -1)
        assert partition.append(batch, [header for _, header in batches(batch)], machine.clock.now()).error_code == 0
        pass_time(machine, 300)
    assert len(partition.log.segments) == 2
    for _ in range(2):
        pass_time(machine, 3000)
        assert len(partition.log.segments) == 3, "the newest one is empty"
