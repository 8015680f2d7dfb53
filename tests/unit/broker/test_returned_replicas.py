"""A replica that is deleted, and returns to the same broker with the same topic id, begins without its former records."""

from __future__ import annotations

import pytest

from ottla.log.checkpoints import RECOVERY_POINTS
from ottla.log.journal.contents import read_journal
from ottla.log.journal.format import JOURNAL, KEPT
from ottla.ports import StorageFailed
from ottla.sim.disk import IO_ERROR
from ottla.wire.errors import KAFKA_STORAGE_ERROR, NONE
from tests.support.cluster_machine import TOPIC_ID, ClusterMachine, role, told
from tests.support.producing import produce
from tests.unit.broker.test_replicas import copied, follow, leading

KEPT_PATH = f"{JOURNAL}/{KEPT}"


def written(machine: ClusterMachine, count: int = 6) -> None:
    """Write records, each in a journal's entry of its own once the first sync has made the journal."""
    for number in range(count):
        assert produce(machine, b"%d" % number).error_code == NONE


def copy(machine: ClusterMachine, *records: bytes) -> None:
    replica = machine.replica()
    batch = copied(*records, base_offset=replica.log.log_end_offset, leader_epoch=7)
    replica.append_as_follower(memoryview(batch), machine.clock.now())
    machine.settle()


def end_offset_after_a_power_cut(machine: ClusterMachine, leader_epoch: int = 7) -> int:
    machine.cut_power(0)
    machine.tell_brokers(1, 2, 3)
    follow(machine, leader_epoch)
    assert machine.replica().offline is None
    return machine.replica().log.log_end_offset


def test_a_replica_that_returned_does_not_get_the_former_ones_records_back() -> None:
    machine = leading((1,), ottla_journal_bytes=65536)
    written(machine)
    assert machine.broker.partitions.syncs.journals.journals_with(machine.replica()), "it is in the journal"
    assert machine.stop(leader_epoch=6, delete=True) == NONE
    follow(machine, 7)
    copy(machine, b"a", b"b")
    machine.replica().want_sync()
    machine.settle()
    assert end_offset_after_a_power_cut(machine) == 2


@pytest.mark.expects_errors("cannot be deleted until the broker restarts")
def test_a_deletion_is_refused_while_the_journal_cannot_make_the_replicas_entries_void() -> None:
    machine = leading((1,), ottla_journal_bytes=65536)
    written(machine)
    journal = machine.broker.partitions.syncs.journals.first.journal
    assert journal is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "void", lambda keys, done: False)
        assert machine.stop(leader_epoch=6, delete=True) == KAFKA_STORAGE_ERROR
    assert machine.replica().log.log_end_offset == 6
    assert machine.stop(leader_epoch=6, delete=True) == NONE
    assert machine.broker.partitions.get("t", 0) is None


def test_a_deleted_topics_replica_needs_no_write_into_the_journal() -> None:
    machine = leading((1,), ottla_journal_bytes=65536)
    written(machine)
    journal = machine.broker.partitions.syncs.journals.first.journal
    assert journal is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "void", lambda keys, done: pytest.fail("its id never returns"))
        assert machine.stop(leader_epoch=-2, delete=True) == NONE
    assert not journal.ends()


def test_entries_of_a_replica_that_is_deleted_before_it_is_opened_do_not_come_back() -> None:
    machine = leading((1,), ottla_journal_bytes=65536)
    written(machine)
    machine.cut_power(0)
    machine.tell_topic(told(0, 2), topic_id=TOPIC_ID, brokers=(1, 2, 3))
    assert machine.stop(leader_epoch=6, delete=True) == NONE
    follow(machine, 7)
    assert machine.replica().log.log_end_offset == 0
    assert end_offset_after_a_power_cut(machine) == 0


def test_kept_entries_are_void_before_a_cut_and_removed_together() -> None:
    """A broker of a cluster opens its logs late: a sync for each of them would hold it up."""
    machine = leading((1,), ottla_journal_bytes=65536)
    assert machine.tell_roles(*(role(1, 5, isr=(1,), index=index) for index in (1, 2))) == [NONE, NONE]
    for _ in range(3):
        for index in range(3):
            assert produce(machine, b"value", index=index).error_code == NONE
    machine.cut_power(0)
    size = machine.disk.size(KEPT_PATH)
    machine.tell_brokers(1, 2, 3)
    follow(machine, 6)
    assert machine.replica().log.log_end_offset == 3
    assert machine.disk.size(KEPT_PATH) == size
    machine.broker.scheduler.begin("cut", machine.broker.partitions.before_cut(machine.replica(), 1, 0))
    machine.settle()
    assert [key.partition for key in read_journal(machine.disk, JOURNAL).entries] == [1, 2]
    assert machine.tell_roles(*(role(2, 6, index=index) for index in (1, 2))) == [NONE, NONE]
    assert [machine.replica(index=index).log.log_end_offset for index in (1, 2)] == [3, 3]
    assert not machine.disk.exists(KEPT_PATH)


@pytest.mark.expects_errors("a checkpoint could not be written", "the deletion of replicas could not be synced")
def test_a_deletion_is_refused_while_checkpoints_have_the_replicas_offsets() -> None:
    machine = leading((1,), ottla_journal_bytes=0)
    written(machine)
    machine.pass_time(60_000)
    rename = machine.disk.rename

    def refuse(path: str, to: str, *, sync: bool = True) -> None:
        if path.startswith(RECOVERY_POINTS):
            raise StorageFailed(path, IO_ERROR)
        rename(path, to, sync=sync)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.disk, "rename", refuse)
        assert machine.stop(leader_epoch=6, delete=True) == KAFKA_STORAGE_ERROR
    assert machine.stop(leader_epoch=6, delete=True) == NONE
    follow(machine, 7)
    assert end_offset_after_a_power_cut(machine) == 0
