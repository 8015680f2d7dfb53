"""Consumer groups through time: a wall clock that jumps, settings that change, members that were away without knowing."""

from __future__ import annotations

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.client.consumer.assignors import MemberSubscription
from ottla.client.consumer.subscription_bytes import encode_assignment, encode_subscription
from ottla.client.types import TopicPartition
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupRequest
from ottla.wire.errors import NONE, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID
from tests.support.machine import Machine
from tests.unit.broker.test_config_requests import GROUP, SET, alter

CONSUMER_HEARTBEAT, DESCRIBE, FIND_COORDINATOR, JOIN, HEARTBEAT, SYNC, CREATE = 68, 69, 10, 11, 12, 14, 19
DAY_MS = 86_400_000


def machine_with_topic(**settings: object) -> Machine:
    machine = Machine(**settings)
    wanted = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    machine.ask(CREATE, 7, CreateTopicsRequest(topics=[wanted]))
    machine.ask(FIND_COORDINATOR, 0, FindCoordinatorRequest(key="g"))
    return machine


def beat(
    machine: Machine, member_id: str, epoch: int, owned: list[int] | None = None, pattern: str | None = None
) -> ConsumerGroupHeartbeatResponse:
    body = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch)
    if epoch == 0:
        body.rebalance_timeout_ms, body.topic_partitions = 10_000, []
        body.subscribed_topic_names, body.subscribed_topic_regex = (None, pattern) if pattern else (["t"], None)
    if owned is not None:
        topic_id = machine.broker.image.topics["t"].topic_id
        body.topic_partitions = [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=owned)]
    response = machine.ask(CONSUMER_HEARTBEAT, 1, body)
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    assert not response.error_code, response.error_message
    return response


def join_request(member_id: str, owned: list[TopicPartition]) -> JoinGroupRequest:
    metadata = encode_subscription(MemberSubscription(["t"], owned, 3))
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="cooperative-sticky", metadata=metadata)],
    )


def join(machine: Machine, member_id: str, owned: list[TopicPartition]) -> JoinGroupResponse:
    response = machine.ask(JOIN, 9, join_request(member_id, owned))
    assert isinstance(response, JoinGroupResponse)
    return response


def partitions(response: ConsumerGroupHeartbeatResponse) -> list[int]:
    return [] if response.assignment is None else [p for topic in response.assignment.topic_partitions for p in topic.partitions]


@pytest.mark.parametrize("jump_ms", [-DAY_MS, DAY_MS])
def test_a_group_is_assigned_anew_though_the_wall_clock_jumped(jump_ms: int) -> None:
    machine = machine_with_topic()
    first = beat(machine, "a", 0)
    assert partitions(first) == [0, 1]
    machine.clock.jump(jump_ms)
    joined = beat(machine, "b", 0)
    machine.pass_time(2_000)
    told = beat(machine, "a", first.member_epoch)
    assert len(partitions(told)) == 1
    beat(machine, "a", told.member_epoch, owned=partitions(told))
    assert len(partitions(beat(machine, "b", joined.member_epoch))) == 1


@pytest.mark.parametrize("jump_ms", [-DAY_MS, DAY_MS])
def test_a_pattern_finds_new_topics_though_the_wall_clock_jumped(jump_ms: int) -> None:
    machine = machine_with_topic()
    first = beat(machine, "a", 0, pattern="t|u")
    assert len(partitions(first)) == 2
    machine.clock.jump(jump_ms)
    wanted = CreateTopicsRequest.CreatableTopic(name="u", num_partitions=3, replication_factor=1)
    machine.ask(CREATE, 7, CreateTopicsRequest(topics=[wanted]))
    machine.pass_time(30_000)
    assert len(partitions(beat(machine, "a", first.member_epoch))) == 5


def test_the_interval_of_heartbeats_is_the_groups_own_from_the_next_one_on() -> None:
    machine = machine_with_topic()
    first = beat(machine, "a", 0)
    assert first.heartbeat_interval_ms == 5_000
    alter(machine, GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "7000"))
    assert beat(machine, "a", first.member_epoch).heartbeat_interval_ms == 7_000


def test_the_session_timeout_is_the_groups_own() -> None:
    machine = machine_with_topic()
    alter(machine, GROUP, "g", ("consumer.session.timeout.ms", SET, "60000"))
    first = beat(machine, "a", 0)
    machine.pass_time(59_000)
    assert beat(machine, "a", first.member_epoch).member_epoch == first.member_epoch
    machine.pass_time(61_000)
    assert partitions(beat(machine, "b", 0)) == [0, 1]


def test_the_interval_of_assignments_can_be_changed_while_the_broker_runs() -> None:
    machine = machine_with_topic(group_consumer_assignment_interval_ms=15_000)
    first = beat(machine, "a", 0)
    beat(machine, "b", 0)
    machine.pass_time(1_000)
    assert partitions(beat(machine, "a", first.member_epoch)) == []
    assert alter(machine, 4, "1", ("group.consumer.assignment.interval.ms", SET, "500")) == 0
    assert len(partitions(beat(machine, "a", first.member_epoch))) == 1


@pytest.mark.parametrize(("owned", "code"), [([], NONE), ([TopicPartition("t", 0)], UNKNOWN_MEMBER_ID)], ids=["nothing", "owns"])
def test_who_was_out_without_knowing_gives_up_what_it_owns_before_it_is_a_member_again(
    owned: list[TopicPartition], code: int
) -> None:
    """It may come with the id that it once had; but as long as it reads what others have now, nothing it commits may count."""
    machine = machine_with_topic()
    beat(machine, "a", 0)
    assert join(machine, "it-was-out", owned).error_code == code
    described = machine.ask(DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=["g"])).groups[0]
    assert ("it-was-out" in [member.member_id for member in described.members]) == (code == NONE)


@pytest.mark.parametrize("killed", [False, True], ids=["goes-on", "is-killed"])
def test_a_group_that_became_classic_shares_out_what_was_left_though_the_broker_dies(killed: bool) -> None:
    """Who stays has a part of the partitions only, and must hear that it has to join again."""
    machine = machine_with_topic(group_consumer_assignment_interval_ms=0)
    beat(machine, "a", 0)
    joined = join(machine, "b", [])
    machine.ask(CONSUMER_HEARTBEAT, 1, ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=-1))
    if killed:
        machine.kill()
    still = HeartbeatRequest(group_id="g", member_id="b", generation_id=joined.generation_id)
    assert machine.ask(HEARTBEAT, 4, still).error_code == REBALANCE_IN_PROGRESS
    again = join(machine, "b", [])
    assert (again.error_code, again.leader, again.generation_id) == (NONE, "b", joined.generation_id + 1)


def classic_member(machine: Machine) -> JoinGroupResponse:
    """A group of one classic member that was assigned both partitions."""
    both = [TopicPartition("t", 0), TopicPartition("t", 1)]
    first = join(machine, join(machine, "", []).member_id, [])
    share = SyncGroupRequest.SyncGroupRequestAssignment(member_id=first.member_id, assignment=encode_assignment(both))
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=first.generation_id,
        member_id=first.member_id,
        protocol_type="consumer",
        protocol_name="cooperative-sticky",
        assignments=[share],
    )
    assert machine.ask(SYNC, 5, sync).error_code == NONE
    return first


def test_a_group_that_becomes_a_consumer_group_in_a_rebalance_takes_nothing_from_who_still_reads() -> None:
    """Whoever rebalances cooperatively keeps its partitions while it joins, whatever has become of its assignment."""
    machine = machine_with_topic(group_consumer_assignment_interval_ms=0)
    first = classic_member(machine)
    again = join(machine, first.member_id, [TopicPartition("t", 0), TopicPartition("t", 1)])
    assert again.generation_id == first.generation_id + 1
    newcomer = machine.ask(JOIN, 9, join_request("", []))
    assert isinstance(machine.begin(JOIN, 9, join_request(newcomer.member_id, [])), DelayedReply)
    assert partitions(beat(machine, "a", 0)) == []


def test_a_group_that_goes_back_and_forth_takes_nothing_from_who_still_reads() -> None:
    """What a member shall have is not what it has: it has not been told yet to give anything back."""
    machine = machine_with_topic(group_consumer_assignment_interval_ms=0)
    classic_member(machine)
    assert partitions(beat(machine, "a", 0)) == []
    machine.ask(CONSUMER_HEARTBEAT, 1, ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=-1))
    assert partitions(beat(machine, "c", 0)) == []
