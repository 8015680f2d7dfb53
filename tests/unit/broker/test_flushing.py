"""Which replies wait for stable storage, and which syncs a topic's settings ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.purgatory import DelayedReply
from ottla.sim.disk import SimDirectory
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.errors import KAFKA_STORAGE_ERROR
from tests.support.machine import Machine
from tests.support.producing import begin, create, delete, produce


def synced(machine: Machine) -> int:
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    return partition.log.durable_offset


class Looked(dict[Partition, None]):
    """Counts how often all that is in it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[Partition]:
        self.times += 1
        return super().__iter__()


def test_the_end_of_one_sync_does_not_look_at_all_the_others_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    create(machine, "t", 100)
    pending = [begin(machine, b"x", index=index) for _ in range(2) for index in range(100)]
    assert all(isinstance(each, DelayedReply) for each in pending), "the second one waits until the first is synced"
    wanted = Looked(machine.broker.partitions.syncs._wanted)
    monkeypatch.setattr(machine.broker.partitions.syncs, "_wanted", wanted)
    machine.settle()
    assert all(each.done for each in pending)
    assert wanted.times < 10


@pytest.mark.parametrize(
    ("acks", "sync", "waits"), [(-1, "true", True), (-1, "false", False), (1, "true", False), (1, "false", False)]
)
def test_acks_all_waits_for_stable_storage_unless_the_topic_promises_the_page_cache_only(acks: int, sync: str, waits: bool) -> None:
    machine = Machine()
    create(machine, "t", ottla_acks_all_sync=sync)
    assert isinstance(begin(machine, b"x", acks=acks), DelayedReply) == waits
    machine.settle()
    assert synced(machine) == int(waits)


def test_the_broker_setting_is_the_default_of_its_topics_and_of_group_offsets() -> None:
    machine = Machine(ottla_acks_all_sync="false", offsets_topic_num_partitions=1)
    create(machine, "t")
    assert not isinstance(begin(machine, b"x"), DelayedReply)
    assert not machine.create_internal("__consumer_offsets").error_code
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    body = OffsetCommitRequest(group_id="g", topics=[topic(name="t", partitions=[partition])])
    assert machine.ask(8, 7, body).topics[0].partitions[0].error_code == 0
    stored = machine.broker.partitions.get("__consumer_offsets", 0)
    assert stored is not None
    assert (stored.log.log_end_offset, stored.log.synced_offset) == (1, 0)


def test_flush_messages_lets_no_more_records_than_that_be_acknowledged_unsynced() -> None:
    machine = Machine()
    create(machine, "t", flush_messages=3)
    assert not isinstance(begin(machine, b"1", b"2", acks=1), DelayedReply)
    machine.settle()
    assert synced(machine) == 0
    assert isinstance(begin(machine, b"3", acks=1), DelayedReply)
    machine.settle()
    assert synced(machine) == 3


def test_flush_messages_holds_for_producers_that_want_no_answer() -> None:
    machine = Machine(log_flush_interval_messages=1)
    create(machine, "t")
    assert begin(machine, b"1", acks=0) is None
    machine.settle()
    assert synced(machine) == 1


def test_flush_messages_holds_where_acks_all_promises_the_page_cache_only() -> None:
    machine = Machine(ottla_acks_all_sync="false")
    create(machine, "t", flush_messages=1)
    assert isinstance(begin(machine, b"1"), DelayedReply)


def test_flush_ms_syncs_what_has_waited_for_so_long() -> None:
    machine = Machine()
    create(machine, "t", flush_ms=500)
    produce(machine, b"1", acks=1)
    machine.pass_time(300)
    produce(machine, b"2", acks=1)
    assert synced(machine) == 0
    machine.pass_time(200)
    assert synced(machine) == 2
    produce(machine, b"3", acks=1)
    machine.pass_time(499)
    assert synced(machine) == 2
    machine.pass_time(1)
    assert synced(machine) == 3


def test_a_topic_that_goes_takes_its_flushes_with_it() -> None:
    machine = Machine()
    create(machine, "t", flush_ms=500)
    produce(machine, b"1", acks=1)
    delete(machine, "t")
    create(machine, "t")
    produce(machine, b"1", acks=1)
    machine.pass_time(1000)
    assert synced(machine) == 0


def change(machine: Machine, name: str, value: str) -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    (changed,) = machine.ask(44, 1, IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert changed.error_code == 0


@pytest.mark.parametrize("before", [{}, {"flush_ms": 3_600_000}])
def test_flush_ms_holds_for_what_was_written_before_it_was_set(before: dict[str, int]) -> None:
    machine = Machine()
    create(machine, "t", **before)
    produce(machine, b"1", acks=1)
    change(machine, "flush.ms", "1000")
    machine.pass_time(999)
    assert synced(machine) == 0
    machine.pass_time(1)
    assert synced(machine) == 1


def test_flush_messages_holds_for_what_was_written_before_it_was_set() -> None:
    machine = Machine()
    create(machine, "t")
    produce(machine, b"1", b"2", acks=1)
    change(machine, "flush.messages", "2")
    machine.settle()
    assert synced(machine) == 2


@pytest.mark.expects_errors("Input/output error")
def test_a_failed_sync_of_names_when_a_segment_is_rolled_takes_the_partition_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying again would succeed, and acknowledge records in a file whose name a power cut takes."""
    machine = Machine(ottla_journal_bytes=0)  # with one, the records are in the journal
    create(machine, "t", internal_segment_bytes=200)
    assert produce(machine, b"x" * 100).error_code == 0
    sync = SimDirectory.sync

    def failing(self: SimDirectory) -> None:
        self._disk.fail(1)
        sync(self)

    with monkeypatch.context() as patch:
        patch.setattr(SimDirectory, "sync", failing)
        assert produce(machine, b"y" * 100).error_code == KAFKA_STORAGE_ERROR
    machine.disk.heal()
    assert produce(machine, b"y" * 100).error_code == KAFKA_STORAGE_ERROR
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    assert "Input/output error" in (partition.offline or "")
    machine.kill()
    assert produce(machine, b"y" * 100).base_offset == 2  # what was refused had been written, and a kill takes nothing of that


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.expects_errors("Input/output error")
def test_records_in_the_journal_outlive_a_segment_whose_name_could_not_be_synced(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(ottla_journal_bytes=65536)
    create(machine, "t", internal_segment_bytes=200)
    for _ in range(3):  # the first makes the journal
        assert produce(machine, b"x" * 100).error_code == 0
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    assert machine.broker.partitions.syncs.journals.journals_with(partition)
    sync, failed = SimDirectory.sync, list[str]()

    def failing(self: SimDirectory) -> None:
        if self.path == "t-0":
            failed.append(self.path)
            machine.disk.fail_names()
        sync(self)

    monkeypatch.setattr(SimDirectory, "sync", failing)
    answers = [produce(machine, b"y" * 100) for _ in range(3)]
    acknowledged = [answer.base_offset for answer in answers if not answer.error_code]
    monkeypatch.undo()
    assert failed, "the name of the new segment is to be synced"
    assert "Input/output error" in (partition.offline or "")
    machine.disk.heal()
    machine.cut_power(seed)
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    assert partition.offline is None
    assert partition.log.log_end_offset > max([2, *acknowledged])
    assert produce(machine, b"z").error_code == 0
