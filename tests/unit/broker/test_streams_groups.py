"""Streams groups (KIP-1071) in a broker: topics, rights, settings and features, the internal topics that it makes, and its log."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.serving.request import Close
from ottla.cluster.acls import Operation, Permission, Resource
from ottla.coord.streams.topology.request import MOST_TOPICS
from ottla.coord.streams.values import MISSING_INTERNAL_TOPICS
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.create_acls import CreateAclsRequest
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest as Sent
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from ottla.wire.api.update_features import UpdateFeaturesRequest
from ottla.wire.errors import (
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INVALID_GROUP_ID,
    NONE,
    NOT_COORDINATOR,
    STREAMS_INVALID_TOPOLOGY,
    TOPIC_AUTHORIZATION_FAILED,
    UNSUPPORTED_VERSION,
)
from tests.support.acl_peers import MachineOfUsers
from tests.support.machine import Machine
from tests.support.streams_house import listed, source, statuses, tasks, topology
from tests.support.work import measured

MOST_CALLS = 16_000
"""In one step: about three milliseconds of work."""

HEARTBEAT, DESCRIBE = 88, 89
AT_ONCE: dict[str, Any] = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}
LOG = Sent.TopicInfo(name="log", topic_configs=[Sent.KeyValue(key="cleanup.policy", value="compact")])
STATEFUL = topology(source(state_changelog_topics=[LOG]))


def with_topic(machine: Machine, name: str = "t", partitions: int = 2) -> None:
    """Make a topic, and the one that keeps groups."""
    found = machine.ask(10, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    assert found.coordinators[0].error_code == NONE
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    assert machine.ask(19, 7, CreateTopicsRequest(topics=[topic], timeout_ms=1000)).topics[0].error_code == NONE


def joining(member_id: str = "ada", sent: Sent.Topology | None = None, **said: Any) -> Sent:
    body: dict[str, Any] = {"group_id": "g", "member_id": member_id, "rebalance_timeout_ms": 30_000, "process_id": member_id}
    nothing: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    return Sent(**(body | nothing | {"topology": sent or topology()} | said))


def join(machine: Machine, member_id: str = "ada", sent: Sent.Topology | None = None, **said: Any) -> StreamsGroupHeartbeatResponse:
    return answered(machine.ask(HEARTBEAT, 0, joining(member_id, sent, **said)))


def live(machine: Machine, epoch: int, member_id: str = "ada", **said: Any) -> StreamsGroupHeartbeatResponse:
    return answered(machine.ask(HEARTBEAT, 0, Sent(group_id="g", member_id=member_id, member_epoch=epoch, **said)))


def answered(reply: Any) -> StreamsGroupHeartbeatResponse:
    assert isinstance(reply, StreamsGroupHeartbeatResponse)
    return reply


def partitions_of(machine: Machine, topic: str) -> int | None:
    found = machine.ask(3, 12, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])).topics[0]
    return None if found.error_code else len(found.partitions)


def test_a_member_is_given_the_tasks_that_there_are_and_those_that_come() -> None:
    machine = Machine(**AT_ONCE)
    with_topic(machine)
    assert tasks(join(machine))[0] == {"0": [0, 1]}
    more = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=3, assignments=None)
    assert machine.ask(37, 3, CreatePartitionsRequest(topics=[more], timeout_ms=1000)).results[0].error_code == NONE
    told = live(machine, 2)
    assert (told.member_epoch, tasks(told)[0]) == (3, {"0": [0, 1, 2]})


def test_missing_internal_topics_are_made_with_their_partitions_and_configs() -> None:
    machine = Machine(**AT_ONCE)
    with_topic(machine, partitions=3)
    told = join(machine, sent=STATEFUL)
    assert (statuses(told), tasks(told)) == ([3], ({}, {}, {}))
    machine.pass_time(10)
    assert partitions_of(machine, "log") == 3
    assert machine.broker.image.topics["log"].configs == {"cleanup.policy": "compact"}
    told = live(machine, told.member_epoch)
    assert (statuses(told), tasks(told)[0]) == ([], {"0": [0, 1, 2]})


def test_the_status_says_why_an_internal_topic_cannot_be_made_and_it_is_tried_again() -> None:
    machine = Machine(**AT_ONCE)
    with_topic(machine)
    wrong = Sent.TopicInfo(name="log", topic_configs=[Sent.KeyValue(key="retention.ms", value="soon")])
    told = join(machine, sent=topology(source(state_changelog_topics=[wrong])))
    machine.pass_time(10)
    told = live(machine, told.member_epoch)
    assert told.status is not None
    assert "Creation failed: log (" in told.status[0].status_detail
    assert "retention.ms" in told.status[0].status_detail
    assert len(machine.broker.streams_topics.failures(["log"], machine.clock.now())) == 1
    machine.pass_time(10_000)
    assert machine.broker.streams_topics.failures(["log"], machine.clock.now()) == {}
    live(machine, told.member_epoch)
    machine.pass_time(10)
    assert len(machine.broker.streams_topics.failures(["log"], machine.clock.now())) == 1


def test_two_members_at_once_make_the_internal_topics_once() -> None:
    machine = Machine(**AT_ONCE)
    with_topic(machine)
    first = machine.begin(HEARTBEAT, 0, joining("ada", STATEFUL))
    second = machine.begin(HEARTBEAT, 0, joining("bea", STATEFUL))
    assert [statuses(answered(told)) for told in (first, second)] == [[3], [3]]
    machine.pass_time(10)
    assert partitions_of(machine, "log") == 2
    assert machine.broker.streams_topics.failures(["log"], machine.clock.now()) == {}


@pytest.mark.parametrize("clean", [True, False])
def test_a_group_is_what_it_was_after_a_restart_and_after_a_kill(clean: bool) -> None:
    machine = Machine(**AT_ONCE)
    with_topic(machine)
    join(machine, rack_id="r")
    before = machine.ask(DESCRIBE, 0, StreamsGroupDescribeRequest(group_ids=["g"]))
    machine.restart() if clean else machine.kill()
    assert machine.ask(DESCRIBE, 0, StreamsGroupDescribeRequest(group_ids=["g"])) == before
    told = live(machine, 2)
    assert (told.error_code, told.member_epoch, told.active_tasks) == (NONE, 2, None)
    assert tasks(join(machine))[0] == {"0": [0, 1]}


def test_a_deleted_group_stays_deleted_after_a_kill() -> None:
    machine = Machine(**AT_ONCE)
    with_topic(machine)
    join(machine)
    live(machine, -1)
    assert machine.ask(42, 2, DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == NONE
    machine.kill()
    assert machine.ask(DESCRIBE, 0, StreamsGroupDescribeRequest(group_ids=["g"])).groups[0].error_code == GROUP_ID_NOT_FOUND


def test_settings_of_the_broker_hold_for_its_groups_and_a_group_has_its_own() -> None:
    machine = Machine(
        group_streams_max_size=1, group_streams_heartbeat_interval_ms=7_000, group_streams_session_timeout_ms=50_000, **AT_ONCE
    )
    with_topic(machine)
    assert join(machine).heartbeat_interval_ms == 7_000
    assert join(machine, "bea").error_code == GROUP_MAX_SIZE_REACHED
    of = IncrementalAlterConfigsRequest
    configs = [of.AlterableConfig(name="streams.heartbeat.interval.ms", value="9000")]
    body = of(resources=[of.AlterConfigsResource(resource_type=32, resource_name="g", configs=configs)])
    assert machine.ask(44, 1, body).responses[0].error_code == NONE
    assert live(machine, 2).heartbeat_interval_ms == 9_000
    machine.pass_time(51_000)
    assert join(machine, "bea").error_code == NONE


def test_a_broker_without_the_protocol_or_the_feature_serves_no_streams_groups() -> None:
    machine = Machine(group_coordinator_rebalance_protocols="classic,consumer")
    with_topic(machine)
    assert join(machine).error_code == UNSUPPORTED_VERSION
    assert machine.ask(DESCRIBE, 0, StreamsGroupDescribeRequest(group_ids=["g"])).groups[0].error_code == UNSUPPORTED_VERSION
    machine = Machine(**AT_ONCE)
    with_topic(machine)
    off = UpdateFeaturesRequest.FeatureUpdateKey(feature="streams.version", max_version_level=0, upgrade_type=2)
    assert machine.ask(57, 1, UpdateFeaturesRequest(feature_updates=[off], timeout_ms=1000)).error_code == NONE
    assert join(machine).error_code == UNSUPPORTED_VERSION


def test_what_a_broker_without_coordinators_answers() -> None:
    machine = Machine()
    assert join(machine).error_code == NOT_COORDINATOR
    with_topic(machine)
    described = machine.ask(DESCRIBE, 0, StreamsGroupDescribeRequest(group_ids=["", "g"]))
    assert [group.error_code for group in described.groups] == [INVALID_GROUP_ID, GROUP_ID_NOT_FOUND]


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "not/a name", "t" * 250, ""])
def test_a_topology_of_topics_that_nobody_may_have_is_refused(name: str) -> None:
    machine = Machine(**AT_ONCE)
    with_topic(machine)
    assert join(machine, sent=topology(source("0", name))).error_code == STREAMS_INVALID_TOPOLOGY
    repartition = Sent.Subtopology(subtopology_id="0", source_topics=["t"], repartition_sink_topics=[name])
    assert join(machine, sent=topology(repartition)).error_code == STREAMS_INVALID_TOPOLOGY


def test_a_heartbeat_with_more_tasks_than_can_be_served_ends_its_connection() -> None:
    machine = Machine(**AT_ONCE)
    with_topic(machine)
    body = Sent(group_id="g", member_id="ada", member_epoch=2, active_tasks=listed({"0": range(60_000)}))
    assert isinstance(machine.ask(HEARTBEAT, 0, body), Close)


def test_a_consumer_group_is_not_replaced_and_commits_go_on() -> None:
    machine = Machine(**AT_ONCE)
    with_topic(machine)
    body = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="c", rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert machine.ask(68, 1, body).error_code == NONE
    told = join(machine)
    assert (told.error_code, told.error_message) == (GROUP_ID_NOT_FOUND, "Group g is not a streams group.")


def allow(machine: MachineOfUsers, *rules: tuple[Resource, str, Operation]) -> None:
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=resource,
            resource_name=name,
            resource_pattern_type=3,
            principal="User:bob",
            host="*",
            operation=operation,
            permission_type=Permission.ALLOW,
        )
        for resource, name, operation in rules
    ]
    created = machine.ask("admin", 30, 3, CreateAclsRequest(creations=creations))
    assert [result.error_code for result in created.results] == [NONE] * len(rules)


def test_a_member_needs_rights_to_its_group_its_topics_and_to_create_internal_topics() -> None:
    machine = MachineOfUsers(**AT_ONCE)
    machine.machine.peer = machine._peer
    with_topic(machine.machine)
    body = joining("ada", STATEFUL)
    assert machine.ask("bob", HEARTBEAT, 0, body).error_code == GROUP_AUTHORIZATION_FAILED
    allow(machine, (Resource.GROUP, "g", Operation.READ))
    assert machine.ask("bob", HEARTBEAT, 0, body).error_code == TOPIC_AUTHORIZATION_FAILED
    allow(machine, (Resource.TOPIC, "t", Operation.DESCRIBE))
    assert machine.ask("bob", HEARTBEAT, 0, body).error_code == TOPIC_AUTHORIZATION_FAILED
    allow(machine, (Resource.TOPIC, "log", Operation.DESCRIBE))
    told = answered(machine.ask("bob", HEARTBEAT, 0, body))
    assert told.status is not None
    assert told.status[0].status_detail.endswith("; Unauthorized to CREATE on topics log.")
    machine.machine.pass_time(10)
    assert "log" not in machine.machine.broker.image.topics
    allow(machine, (Resource.TOPIC, "log", Operation.CREATE))
    machine.ask("bob", HEARTBEAT, 0, Sent(group_id="g", member_id="ada", member_epoch=told.member_epoch))
    machine.machine.pass_time(10)
    assert "log" in machine.machine.broker.image.topics


def test_a_group_of_topics_that_somebody_may_not_describe_is_not_described() -> None:
    machine = MachineOfUsers(**AT_ONCE)
    machine.machine.peer = machine._peer
    with_topic(machine.machine)
    machine.ask("admin", HEARTBEAT, 0, joining())
    wanted = StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    assert machine.ask("bob", DESCRIBE, 0, wanted).groups[0].error_code == GROUP_AUTHORIZATION_FAILED
    allow(machine, (Resource.GROUP, "g", Operation.DESCRIBE))
    (group,) = machine.ask("bob", DESCRIBE, 0, wanted).groups
    assert (group.error_code, group.topology, group.members) == (TOPIC_AUTHORIZATION_FAILED, None, [])
    allow(machine, (Resource.TOPIC, "t", Operation.DESCRIBE))
    (group,) = machine.ask("bob", DESCRIBE, 0, wanted).groups
    assert (group.error_code, len(group.members), group.authorized_operations) == (NONE, 1, 1 << Operation.DESCRIBE)


def test_thousands_of_members_are_described_in_slices() -> None:
    machine = Machine(**AT_ONCE | {"group_streams_assignment_interval_ms": 15_000})
    with_topic(machine)
    names = [f"m{number}" for number in range(1_500)]
    for name in names:
        assert join(machine, name).error_code == NONE
    (group,) = machine.ask(DESCRIBE, 0, StreamsGroupDescribeRequest(group_ids=["g"])).groups
    assert sorted(member.member_id for member in group.members) == sorted(names)


def largest_topology() -> Sent.Topology:
    """A chain of subtopologies, with as many topics as a topology may have."""

    def link(number: int) -> Sent.Subtopology:
        return Sent.Subtopology(
            subtopology_id=str(number),
            source_topics=[] if number else ["t"],
            repartition_sink_topics=[f"again-{number + 1}"],
            repartition_source_topics=[Sent.TopicInfo(name=f"again-{number}")] if number else [],
            state_changelog_topics=[
                Sent.TopicInfo(name=f"log-{number}-{each}", topic_configs=LOG.topic_configs) for each in (0, 1)
            ],
        )

    return topology(*map(link, range(MOST_TOPICS // 4)))


def test_a_member_with_the_largest_topology_joins_in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(**AT_ONCE)
    with_topic(machine)
    assert join(machine, group_id="first").error_code == NONE
    with measured(monkeypatch) as work, work.piece("bundle"):
        told = join(machine, sent=largest_topology())
    assert statuses(told) == [MISSING_INTERNAL_TOPICS]
    assert work.most_calls.calls <= MOST_CALLS, work.most_calls
