"""Consumer groups (KIP-848) in a broker: fed with its topics, kept in its log, set by its settings."""

from __future__ import annotations

from typing import Any

from ottla.broker.serving.request import Close
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.errors import GROUP_MAX_SIZE_REACHED, INVALID_GROUP_ID, NONE, NOT_COORDINATOR, UNSUPPORTED_ASSIGNOR
from tests.support.machine import Machine

HEARTBEAT, DESCRIBE = 68, 69


def with_topic(machine: Machine, name: str = "t", partitions: int = 2) -> bytes:
    """Make a topic, and the one that keeps groups; the answer is its id."""
    found = machine.ask(10, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    assert found.coordinators[0].error_code == NONE
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return bytes(machine.ask(19, 7, CreateTopicsRequest(topics=[topic], timeout_ms=1000)).topics[0].topic_id)


def join(machine: Machine, member_id: str = "ada", *topics: str, **said: Any) -> ConsumerGroupHeartbeatResponse:
    body = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=list(topics or ("t",)),
        topic_partitions=[],
        **said,
    )
    return answered(machine.ask(HEARTBEAT, 1, body))


def live(machine: Machine, epoch: int, member_id: str = "ada", **said: Any) -> ConsumerGroupHeartbeatResponse:
    body = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **said)
    return answered(machine.ask(HEARTBEAT, 1, body))


def answered(reply: Any) -> ConsumerGroupHeartbeatResponse:
    assert isinstance(reply, ConsumerGroupHeartbeatResponse)
    return reply


def held(reply: ConsumerGroupHeartbeatResponse) -> list[tuple[bytes, list[int]]]:
    assert reply.assignment is not None
    return [(bytes(each.topic_id), each.partitions) for each in reply.assignment.topic_partitions]


def test_a_member_is_given_the_partitions_that_there_are_and_those_that_come() -> None:
    machine = Machine(group_consumer_assignment_interval_ms=0)
    topic_id = with_topic(machine)
    assert held(join(machine)) == [(topic_id, [0, 1])]
    more = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=3, assignments=None)
    assert machine.ask(37, 3, CreatePartitionsRequest(topics=[more], timeout_ms=1000)).results[0].error_code == NONE
    reply = live(machine, 2)
    assert (reply.member_epoch, held(reply)) == (3, [(topic_id, [0, 1, 2])])
    gone = DeleteTopicsRequest.DeleteTopicState(name="t")
    assert machine.ask(20, 6, DeleteTopicsRequest(topics=[gone], timeout_ms=1000)).responses[0].error_code == NONE
    assert held(live(machine, 3)) == []
    again = with_topic(machine, partitions=1)
    assert held(live(machine, 3, topic_partitions=[])) == [(again, [0])]


def test_a_group_is_what_it_was_after_a_restart_and_after_a_kill() -> None:
    machine = Machine()
    topic_id = with_topic(machine)
    join(machine)
    for again in (machine.restart, machine.kill):
        before = machine.ask(DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=["g"]))
        again()
        assert machine.ask(DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=["g"])) == before
        assert live(machine, 2).member_epoch == 2
    assert held(join(machine)) == [(topic_id, [0, 1])]


def test_partitions_have_the_rack_of_their_broker() -> None:
    machine = Machine(broker_rack="cellar")
    with_topic(machine)
    assert join(machine, rack_id="cellar").error_code == NONE
    (coordinator,) = [each for each in machine.broker.groups.machines if each.consumers.groups]
    topic = coordinator.context.topics.topic("t")
    assert topic is not None
    assert topic.shape.racks == (frozenset({"cellar"}),) * 2


def test_settings_of_the_broker_hold_for_its_groups() -> None:
    machine = Machine(
        group_consumer_max_size=1, group_consumer_heartbeat_interval_ms=7_000, group_consumer_session_timeout_ms=50_000
    )
    with_topic(machine)
    assert join(machine).heartbeat_interval_ms == 7_000
    assert join(machine, "bea").error_code == GROUP_MAX_SIZE_REACHED
    machine.pass_time(49_000)
    assert live(machine, 2).error_code == NONE
    machine.pass_time(51_000)
    assert join(machine, "bea").error_code == NONE


def test_only_the_assignors_of_the_settings_are_there_and_the_first_is_the_default() -> None:
    machine = Machine(group_consumer_assignors="range")
    with_topic(machine)
    assert join(machine, server_assignor="uniform").error_code == UNSUPPORTED_ASSIGNOR
    assert join(machine, server_assignor="range").error_code == NONE
    described = machine.ask(DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True))
    assert described.groups[0].assignor_name == "range"
    assert described.groups[0].authorized_operations > 0


def test_what_a_broker_without_coordinators_answers() -> None:
    machine = Machine()
    assert join(machine).error_code == NOT_COORDINATOR
    described = machine.ask(DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=["g"]))
    assert described.groups[0].error_code == NOT_COORDINATOR
    with_topic(machine)
    described = machine.ask(DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=["", "g"]))
    assert described.groups[0].error_code == INVALID_GROUP_ID
    assert [group.group_id for group in described.groups] == ["", "g"]


def test_a_member_that_names_topics_by_the_thousand_is_heard_in_slices_and_remembered_once() -> None:
    machine = Machine(group_consumer_assignment_interval_ms=0)
    topic_id = with_topic(machine)
    names = [f"n{number * 7_919 % 20_011}" for number in range(20_000)]
    scheduler = machine.broker.scheduler
    steps = 0

    def step(job: Any) -> bool:
        nonlocal steps
        steps += 1
        return stepped(job)

    stepped, scheduler._step = scheduler._step, step  # type: ignore[method-assign]  # it is counted, and done
    assert held(join(machine, "ada", "t", *names)) == [(topic_id, [0, 1])]
    assert steps >= 10
    weight = machine.broker.groups._memory.names.weight
    assert join(machine, "bob", *reversed(names), "t").error_code == NONE
    assert machine.broker.groups._memory.names.weight == weight
    described = machine.ask(DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=["g"])).groups[0]
    assert {tuple(each.subscribed_topic_names) for each in described.members} == {tuple(sorted([*names, "t"]))}


def test_a_member_that_names_more_topics_than_can_be_stored_ends_its_connection() -> None:
    machine = Machine()
    with_topic(machine)
    body = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="ada", rebalance_timeout_ms=1, topic_partitions=[], subscribed_topic_names=["t"] * 50_001
    )
    assert isinstance(machine.ask(HEARTBEAT, 1, body), Close)
