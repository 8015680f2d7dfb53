"""Roles of replicas, as the controller gives them: who may write, what readers see, and what becomes of logs."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.cluster import layout
from ottla.ports import Change
from ottla.records.batches.builder import build
from ottla.records.batches.header import BadBatch, batches
from ottla.wire.api.alter_partition import AlterPartitionResponse
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    INCONSISTENT_TOPIC_ID,
    INELIGIBLE_REPLICA,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_CONTROLLER,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.cluster_machine import TOPIC_ID, ClusterMachine, role, told
from tests.support.producing import begin, produce, request, values

PRODUCE = 0


def leading(isr: tuple[int, ...] = (1, 2, 3), **settings: object) -> ClusterMachine:
    """A machine whose broker leads t-0, with all brokers alive."""
    machine = ClusterMachine(**settings)
    machine.tell_brokers(1, 2, 3)
    assert machine.tell_roles(role(1, 5, isr=isr)) == [NONE]
    return machine


def follow(machine: ClusterMachine, leader_epoch: int = 5, **fields: Any) -> None:
    assert machine.tell_roles(role(2, leader_epoch, **fields)) == [NONE]


def fetched(machine: ClusterMachine, node_id: int, offset: int) -> None:
    machine.replica().follower_fetched(node_id, offset, 0, machine.clock.now())
    machine.settle()


def copied(*records: bytes, base_offset: int, leader_epoch: int) -> bytes:
    batch = build(None, list(records), 1000)
    batch[0:8] = base_offset.to_bytes(8, "big")
    batch[12:16] = leader_epoch.to_bytes(4, "big")
    return bytes(batch)


def pending(machine: ClusterMachine, *records: bytes, acks: int = -1) -> DelayedReply:
    answer = machine.begin(PRODUCE, 9, request(build(None, list(records), 1000), acks=acks))
    assert isinstance(answer, DelayedReply)
    assert not answer.done
    return answer


def outcome(machine: ClusterMachine, delayed: DelayedReply) -> int:
    return int(machine.finish(PRODUCE, 9, delayed).responses[0].partition_responses[0].error_code)


# Roles


def test_a_replica_without_a_role_serves_nobody() -> None:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    assert produce(machine, b"1").error_code == UNKNOWN_TOPIC_OR_PARTITION
    follow(machine)
    assert produce(machine, b"1").error_code == NOT_LEADER_OR_FOLLOWER


def test_the_records_of_a_leader_have_the_epoch_that_the_controller_gave_it() -> None:
    machine = leading((1,))
    produce(machine, b"1")
    whole = machine.replica().log.read(0, 1 << 20, until_offset=1)
    assert whole is not None
    assert [header.leader_epoch for _, header in batches(whole.read())] == [5]


def test_a_leader_epoch_begins_without_a_record_for_followers_have_to_know_where() -> None:
    machine = leading((1,))
    assert machine.replica().log.epochs.entries == [(5, 0)]


@pytest.mark.parametrize("leader_epoch", [4, 5])
def test_a_leader_epoch_that_is_not_new_is_refused(leader_epoch: int) -> None:
    machine = leading()
    assert machine.tell_roles(role(2, leader_epoch)) == [STALE_CONTROLLER_EPOCH]
    assert machine.replica().leader_error() == NONE


def test_an_older_controller_is_refused() -> None:
    machine = leading()
    assert machine.tell_roles(role(2, 6), controller_epoch=0) == STALE_CONTROLLER_EPOCH
    assert machine.stop(leader_epoch=6, delete=True, controller_epoch=0) == STALE_CONTROLLER_EPOCH


def test_a_request_for_an_earlier_life_of_this_broker_is_refused() -> None:
    machine = leading()
    assert machine.tell_roles(role(2, 6), broker_epoch=99) == STALE_BROKER_EPOCH
    assert machine.tell_roles(role(2, 6), broker_epoch=101) == [NONE]  # the controller heard of it before this broker did


def test_a_partition_of_others_is_refused() -> None:
    machine = ClusterMachine()
    assert machine.tell_roles(role(2, replicas=(2, 3))) == [UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.expects_errors("the controller means another topic of that name")
def test_another_topic_of_the_same_name_is_refused() -> None:
    machine = leading()
    assert machine.tell_roles(role(1, 6), topic_id=bytes(15) + b"\x07") == [INCONSISTENT_TOPIC_ID]


def test_a_log_keeps_its_records_over_a_restart_and_another_role() -> None:
    machine = leading((1,))
    produce(machine, b"1", b"2")
    machine.restart()
    machine.tell_brokers(1, 2, 3)
    assert machine.tell_roles(role(1, 6, isr=(1,))) == [NONE]
    assert values(machine) == [b"1", b"2"]
    assert machine.replica().log.epochs.entries == [(5, 0), (6, 2)]


def test_what_readers_saw_is_known_after_a_kill() -> None:
    machine = leading()
    produce(machine, b"1", b"2", acks=1)
    for node_id in (2, 3):
        fetched(machine, node_id, 1)
    machine.pass_time(5_000)
    machine.kill()
    assert machine.tell_roles(role(1, 6)) == [NONE]
    assert machine.replica().high_watermark == 1


def test_settings_of_a_topic_are_read_before_its_log_is_opened() -> None:
    machine = ClusterMachine()
    configs = layout.config_json({"min.insync.replicas": "2"})
    machine.shared.entries.commit([Change(layout.topic_config_path("t"), configs)])
    machine.tell_brokers(1, 2, 3)
    assert machine.tell_roles(role(1, 5, isr=(1,))) == [NONE]
    assert produce(machine, b"1").error_code == NOT_ENOUGH_REPLICAS


# Acknowledgements


def test_acks_all_waits_for_all_that_are_in_sync() -> None:
    machine = leading()
    delayed = pending(machine, b"1")
    fetched(machine, 2, 1)
    assert not delayed.done
    fetched(machine, 3, 1)
    assert outcome(machine, delayed) == NONE
    assert values(machine) == [b"1"]


def test_readers_do_not_see_what_a_follower_has_not() -> None:
    machine = leading()
    assert produce(machine, b"1", acks=1).error_code == NONE
    assert values(machine) == []


def test_acks_all_ends_with_the_time_that_the_client_gives_it() -> None:
    machine = leading()
    delayed = pending(machine, b"1")
    machine.pass_time(1001)
    assert outcome(machine, delayed) == REQUEST_TIMED_OUT


def test_acks_all_is_refused_before_the_append_where_too_few_are_in_sync() -> None:
    machine = leading((1,), min_insync_replicas=2)
    assert produce(machine, b"1").error_code == NOT_ENOUGH_REPLICAS
    assert machine.replica().log.log_end_offset == 0
    assert produce(machine, b"1", acks=1).error_code == NONE


def test_acks_all_is_refused_after_the_append_where_too_few_are_left_in_sync() -> None:
    machine = leading((1, 2), min_insync_replicas=2)
    delayed = pending(machine, b"1")
    leader: Any = machine.replica().replicas
    leader.maximal_isr = (1,)  # somebody left a moment before all was there
    fetched(machine, 2, 1)
    assert outcome(machine, delayed) == NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_whoever_waits_for_replicas_hears_that_another_leads() -> None:
    machine = leading()
    delayed = pending(machine, b"1")
    follow(machine, 6)
    assert outcome(machine, delayed) == NOT_LEADER_OR_FOLLOWER


def test_acks_all_waits_for_the_disk_too_where_the_topic_wants_it() -> None:
    machine = leading((1,))
    answer = begin(machine, b"1")
    assert isinstance(answer, DelayedReply)
    assert not answer.done
    machine.settle()
    assert outcome(machine, answer) == NONE


def delete_records(machine: ClusterMachine, offset: int) -> Any:
    part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[part])
    return machine.begin(21, 2, DeleteRecordsRequest(topics=[topic], timeout_ms=1000))


def test_records_are_deleted_when_no_live_replica_has_them() -> None:
    machine = leading()
    produce(machine, b"1", b"2", acks=1)
    for node_id in (2, 3):
        fetched(machine, node_id, 2)
    delayed = delete_records(machine, 1)
    assert isinstance(delayed, DelayedReply)
    for _ in range(3):
        machine.pass_time(5)  # the new start is noted on the disk
    for node_id, done in ((2, False), (3, True)):
        machine.replica().follower_fetched(node_id, 2, 1, machine.clock.now())
        machine.settle()
        assert delayed.done is done
    (part,) = machine.finish(21, 2, delayed).topics[0].partitions
    assert (part.error_code, part.low_watermark) == (NONE, 1)


def test_records_that_a_replica_keeps_are_told_of_in_time() -> None:
    machine = leading()
    produce(machine, b"1", b"2", acks=1)
    for node_id in (2, 3):
        fetched(machine, node_id, 2)
    delayed = delete_records(machine, 1)
    for _ in range(11):
        machine.pass_time(100)
    (part,) = machine.finish(21, 2, delayed).topics[0].partitions
    assert (part.error_code, part.low_watermark) == (REQUEST_TIMED_OUT, 0)


# What the controller tells of the cluster


def metadata(machine: ClusterMachine, topic: str = "t") -> Any:
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    return machine.ask(3, 9, asked).topics[0]


def test_metadata_is_what_the_controller_tells() -> None:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    machine.tell_topic(told(0, 2, offline_replicas=[1]), told(1, 3))
    first, second = metadata(machine).partitions
    assert (first.leader_id, first.leader_epoch, first.isr_nodes, first.offline_replicas) == (2, 3, [2, 3], [1])
    assert (second.leader_id, second.offline_replicas) == (3, [])
    machine.tell_topic(told(0, 3, leader_epoch=4))
    first, second = metadata(machine).partitions
    assert (first.leader_id, first.leader_epoch, first.offline_replicas) == (3, 4, [])


def test_a_topic_that_is_being_deleted_is_not_there() -> None:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    machine.tell_topic(told(0, 2))
    machine.tell_topic(told(0, -2))
    assert metadata(machine).error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_of_which_nothing_is_told_yet_has_no_leader() -> None:
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    machine.tell_topic(told(1, 2))
    assert [(part.leader_id, part.error_code) for part in metadata(machine).partitions] == [(-1, LEADER_NOT_AVAILABLE), (2, NONE)]


# In-sync sets


def altered(machine: ClusterMachine, error_code: int = NONE, *, top: int = NONE) -> list[int]:
    """Answer the broker's AlterPartition; the in-sync set that it wanted."""
    header, body, _ = machine.links.sent[0]
    assert (header.api_key, header.api_version) == (56, 3)
    (topic,) = body.topics
    (part,) = topic.partitions
    wanted = [one.broker_id for one in part.new_isr_with_epochs]
    answer = AlterPartitionResponse.PartitionData(
        partition_index=part.partition_index,
        error_code=error_code,
        leader_id=1,
        leader_epoch=part.leader_epoch,
        isr=wanted,
        partition_epoch=part.partition_epoch + 1,
    )
    told = AlterPartitionResponse.TopicData(topic_id=topic.topic_id, partitions=[answer])
    machine.links.answer(AlterPartitionResponse(error_code=top, topics=[told]))
    machine.settle()
    return wanted


def with_controller(isr: tuple[int, ...] = (1, 2, 3), **settings: object) -> ClusterMachine:
    machine = ClusterMachine(**settings)
    machine.tell_brokers(1, 2, 3, 9)
    assert machine.tell_roles(role(1, 5, isr=isr)) == [NONE]
    return machine


def test_a_follower_that_has_everything_joins_by_the_controller() -> None:
    machine = with_controller((1, 2))
    fetched(machine, 3, 0)
    assert altered(machine) == [1, 2, 3]
    leader: Any = machine.replica().replicas
    assert (leader.isr, leader.partition_epoch, leader.pending) == ((1, 2, 3), 1, None)


def test_a_follower_that_is_behind_for_too_long_leaves_by_the_controller() -> None:
    machine = with_controller((1, 2))
    delayed = pending(machine, b"1")
    machine.pass_time(45_001)
    assert altered(machine) == [1]
    assert machine.replica().high_watermark == 1
    assert outcome(machine, delayed) == REQUEST_TIMED_OUT  # that was long ago


def test_a_change_is_asked_for_again_where_nothing_is_known_of_it() -> None:
    machine = with_controller((1, 2))
    fetched(machine, 3, 0)
    machine.links.answer(None)
    machine.pass_time(60)
    assert altered(machine, top=NOT_CONTROLLER) == [1, 2, 3]
    machine.pass_time(110)
    assert altered(machine) == [1, 2, 3]
    assert not machine.links.sent


def test_a_change_that_the_controller_refuses_is_taken_back() -> None:
    machine = with_controller((1, 2))
    fetched(machine, 3, 0)
    altered(machine, INELIGIBLE_REPLICA)
    leader: Any = machine.replica().replicas
    assert (leader.isr, leader.maximal_isr, leader.pending) == ((1, 2), (1, 2), None)


def test_a_refusal_is_told_once_and_not_asked_about_at_each_fetch(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.broker")
    machine = with_controller((1, 2))
    asked = 0
    for _ in range(100):
        fetched(machine, 3, 0)
        if machine.links.sent:
            altered(machine, INELIGIBLE_REPLICA)
            asked += 1
        machine.pass_time(50)
    assert asked == 3
    told = [message for message in caplog.messages if "in sync again" in message or "refused the in-sync set" in message]
    assert len(told) == 2
    machine.pass_time(2_000)
    fetched(machine, 3, 0)
    altered(machine)
    leader: Any = machine.replica().replicas
    assert leader.isr == (1, 2, 3)


@pytest.mark.parametrize("is_refused_first", [True, False])
def test_what_waited_for_a_follower_that_was_about_to_join_is_acknowledged_when_it_is_refused_and_gone(
    is_refused_first: bool,
) -> None:
    machine = with_controller((1, 2))
    fetched(machine, 3, 0)
    delayed = pending(machine, b"1")
    fetched(machine, 2, 1)
    assert not delayed.done
    if is_refused_first:
        altered(machine, INELIGIBLE_REPLICA)
        assert not delayed.done  # it is alive, and had everything a moment ago
        machine.tell_brokers(1, 2)
    else:
        machine.tell_brokers(1, 2)
        assert not delayed.done
        altered(machine, INELIGIBLE_REPLICA)
    assert outcome(machine, delayed) == NONE


def test_before_2_7_a_leader_writes_the_state_itself_and_notifies_the_controller_later() -> None:
    machine = ClusterMachine(inter_broker_protocol_version="2.6")
    path = layout.state_path("t", 0)
    machine.shared.entries.commit([Change(path, layout.state_json(1, 1, 5, [1, 2]))])
    machine.tell_brokers(1, 2, 3)
    assert machine.tell_roles(role(1, 5, isr=(1, 2))) == [NONE]
    fetched(machine, 3, 0)
    machine.pass_time(10)
    entry = machine.shared.entries.get(path)
    assert entry is not None
    assert (layout.read(entry.value)["isr"], entry.version) == ([1, 2, 3], 1)
    leader: Any = machine.replica().replicas
    assert (leader.isr, leader.partition_epoch) == ((1, 2, 3), 1)
    assert not machine.shared.entries.children("/isr_change_notification")
    for _ in range(4):
        machine.pass_time(2_500)
    (name,) = machine.shared.entries.children("/isr_change_notification")
    told = machine.shared.entries.get(f"/isr_change_notification/{name}")
    assert told is not None
    assert layout.read(told.value) == {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}


def test_a_stranger_is_asked_to_come_again() -> None:
    machine = leading()
    assert machine.replica().follower_error(2, 5) == NONE
    assert machine.replica().follower_error(7, 5) == UNKNOWN_LEADER_EPOCH
    assert machine.replica().follower_error(7) == NOT_LEADER_OR_FOLLOWER
    assert machine.replica().follower_error(2, 4) == FENCED_LEADER_EPOCH


# Sessions with the registry


def test_nothing_is_led_while_the_session_may_be_over() -> None:
    machine = leading((1,))
    machine.manager.suspend_leaders()
    assert produce(machine, b"1").error_code == NOT_LEADER_OR_FOLLOWER
    machine.manager.wake_up(machine.clock.now())
    assert produce(machine, b"1").error_code == NONE


def test_a_session_that_is_over_ends_all_roles_and_the_controller_gives_them_anew() -> None:
    machine = leading((1,))
    machine.manager.drop_roles()
    machine.manager.begin_registration(200, machine.clock.now())
    assert produce(machine, b"1").error_code == NOT_LEADER_OR_FOLLOWER
    assert machine.tell_roles(role(1, 5, isr=(1,)), broker_epoch=200) == [NONE]
    assert produce(machine, b"1").error_code == NONE


# Followers


def test_a_follower_has_what_its_leader_wrote() -> None:
    machine = ClusterMachine()
    follow(machine)
    replica = machine.replica()
    records = copied(b"1", b"2", base_offset=0, leader_epoch=3) + copied(b"3", base_offset=2, leader_epoch=5)
    replica.append_as_follower(memoryview(records), machine.clock.now())
    assert replica.log.epochs.entries == [(3, 0), (5, 2)]
    assert replica.high_watermark == 0
    replica.set_high_watermark(2)
    assert replica.high_watermark == 2
    whole = replica.log.read(0, 1 << 20, until_offset=3)
    assert whole is not None
    assert whole.read() == records


def test_a_follower_leaves_out_what_it_has_and_what_is_torn() -> None:
    machine = ClusterMachine()
    follow(machine)
    replica = machine.replica()
    first = copied(b"1", base_offset=0, leader_epoch=5)
    replica.append_as_follower(memoryview(first), machine.clock.now())
    second = copied(b"2", base_offset=1, leader_epoch=5)
    replica.append_as_follower(memoryview(first + second + second[:70]), machine.clock.now())
    assert replica.log.log_end_offset == 2


@pytest.mark.parametrize("end", ["restart", "kill", "cut_power"])
def test_what_a_leader_has_compacted_is_no_damage_at_its_follower(end: str) -> None:
    machine = ClusterMachine()
    follow(machine)
    replica = machine.replica()
    replica.log.config = replace(replica.log.config, segment_bytes=150)
    for offset in (3, 4, 7, 9, 12, 13, 20):
        replica.append_as_follower(memoryview(copied(b"%d" % offset, base_offset=offset, leader_epoch=5)), machine.clock.now())
    machine.broker.partitions.syncs.want(replica)
    machine.settle()
    machine.cut_power(3) if end == "cut_power" else getattr(machine, end)()
    follow(machine, 6)
    replica = machine.replica()
    assert replica.offline is None
    assert replica.log.log_end_offset == 21
    found, offset = [], replica.log.log_start_offset
    while (part := replica.log.read(offset, 1 << 20, until_offset=21)) is not None:
        found += [header.base_offset for _, header in batches(part.read())]
        offset = found[-1] + 1
    assert found == [3, 4, 7, 9, 12, 13, 20]


def test_a_follower_takes_no_batch_that_is_not_what_it_says() -> None:
    machine = ClusterMachine()
    follow(machine)
    bad = bytearray(copied(b"1", base_offset=0, leader_epoch=5))
    bad[-1] ^= 1
    with pytest.raises(BadBatch, match="CRC"):
        machine.replica().append_as_follower(memoryview(bad), machine.clock.now())
    assert machine.replica().log.log_end_offset == 0


def test_a_follower_cuts_what_its_leader_does_not_have() -> None:
    machine = ClusterMachine()
    follow(machine)
    replica = machine.replica()
    for number in range(5):
        batch = copied(b"%d" % number, base_offset=number, leader_epoch=5)
        replica.append_as_follower(memoryview(batch), machine.clock.now())
    machine.broker.partitions.syncs.want(replica)
    machine.settle()
    machine.pass_time(60_000)  # a checkpoint says that all of it is on stable storage
    done: list[None] = []
    machine.broker.scheduler.begin("cut", replica.truncate_to(2), done.append)
    for _ in range(5):
        machine.pass_time(5)
    assert done == [None]
    assert replica.log.log_end_offset == 2
    machine.kill()
    assert machine.tell_roles(role(2, 6)) == [NONE]
    assert machine.replica().offline is None
    assert machine.replica().log.log_end_offset == 2


def test_a_leader_that_follows_again_keeps_its_records() -> None:
    machine = leading((1,))
    produce(machine, b"1")
    follow(machine, 6)
    whole = machine.replica().log.read(0, 1 << 20, until_offset=1)
    assert whole is not None
    assert [header.leader_epoch for _, header in batches(whole.read())] == [5]


# Stops


def test_a_stopped_replica_serves_nobody_and_keeps_its_records() -> None:
    machine = leading((1,))
    produce(machine, b"1")
    assert machine.stop(leader_epoch=5, delete=False) == NONE
    assert produce(machine, b"2").error_code == NOT_LEADER_OR_FOLLOWER
    assert machine.tell_roles(role(1, 6, isr=(1,))) == [NONE]
    assert values(machine) == [b"1"]


def test_a_replica_is_stopped_by_no_older_leader_epoch() -> None:
    machine = leading()
    assert machine.stop(leader_epoch=4, delete=True) == FENCED_LEADER_EPOCH
    assert machine.replica().leader_error() == NONE


def test_a_deleted_replica_is_gone_for_good() -> None:
    machine = leading((1,))
    produce(machine, b"1")
    assert machine.stop(leader_epoch=-2, delete=True) == NONE
    assert machine.broker.partitions.get("t", 0) is None
    machine.cut_power(7)
    assert not machine.disk.exists("t-0")
    assert machine.tell_roles(role(1, 0, isr=(1,)), topic_id=bytes(15) + b"\x07") == [NONE]
    assert values(machine) == []


def test_a_replica_that_is_not_open_is_deleted_too() -> None:
    machine = leading((1,))
    produce(machine, b"1")
    machine.restart()
    assert machine.stop(leader_epoch=-2, delete=True) == NONE
    assert not machine.disk.exists("t-0")
    assert machine.stop(leader_epoch=-2, delete=True) == NONE


def test_a_follower_deletes_no_old_segment_beyond_what_its_leader_says_that_all_have() -> None:
    machine = ClusterMachine()
    follow(machine)
    replica = machine.replica()
    replica.append_as_follower(memoryview(copied(b"old", base_offset=0, leader_epoch=5)), machine.clock.now())
    machine.pass_time(300_000)
    machine.pass_time(1000)
    assert replica.log.log_start_offset == 0
    replica.set_high_watermark(1)
    machine.pass_time(300_000)
    machine.pass_time(1000)
    assert replica.log.log_start_offset == 1


def test_an_unclean_stop_is_not_forgotten_while_logs_are_unopened() -> None:
    machine = leading((1,))
    produce(machine, b"1")
    machine.kill()
    assert not machine.broker.close()
    machine.disk.kill()
    machine.broker = machine._start(clean=False)
    assert machine.tell_roles(role(1, 6, isr=(1,))) == [NONE]
    assert machine.broker.close()
    assert machine.replica().topic_id == TOPIC_ID
