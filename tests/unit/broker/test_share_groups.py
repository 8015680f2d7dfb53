"""Share groups at a broker: from the first heartbeat to a deletion with all state, over restarts, slow disks and refused topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Peer
from ottla.cluster.acls import Operation, Resource
from ottla.wire.api.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.wire.api.update_features import UpdateFeaturesRequest
from ottla.wire.errors import (
    GROUP_AUTHORIZATION_FAILED,
    GROUP_ID_NOT_FOUND,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_CONFIG,
    INVALID_GROUP_ID,
    INVALID_REQUEST,
    NON_EMPTY_GROUP,
    NONE,
    NOT_COORDINATOR,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)
from tests.support.machine import Machine, OpenMachine

HEARTBEAT, DESCRIBE, DESCRIBE_OFFSETS, ALTER_OFFSETS, DELETE_OFFSETS, DELETE_GROUPS = 76, 77, 90, 91, 92, 42

Places = dict[tuple[str, int], tuple[int, int]]
"""Start offset and lag by topic and partition."""


class Group:
    """A share group of a machine: requests of its members and administrators."""

    def __init__(self, machine: Machine, group_id: str = "g") -> None:
        self.machine = machine
        self.group_id = group_id

    def heartbeat(self, member_id: str, epoch: int, names: Sequence[str] | None = None) -> Any:
        listed = None if names is None else list(names)
        body = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=member_id, member_epoch=epoch, subscribed_topic_names=listed
        )
        return self.machine.ask(HEARTBEAT, 1, body)

    def settle(self, *member_ids: str, names: Sequence[str] = ("t",)) -> dict[str, int]:
        """Let members join and beat until partitions are assigned; return their epochs."""
        epochs = {member_id: self.heartbeat(member_id, 0, names).member_epoch for member_id in member_ids}
        return self.beat(epochs)

    def beat(self, epochs: dict[str, int], rounds: int = 3) -> dict[str, int]:
        for _ in range(rounds):
            self.machine.pass_time(1_100)
            for member_id, epoch in epochs.items():
                answer = self.heartbeat(member_id, epoch)
                assert not answer.error_code, answer
                epochs[member_id] = answer.member_epoch
        return epochs

    def leave(self, *member_ids: str) -> None:
        for member_id in member_ids:
            assert not self.heartbeat(member_id, -1).error_code

    def described(self) -> Any:
        return self.machine.ask(DESCRIBE, 1, ShareGroupDescribeRequest(group_ids=[self.group_id])).groups[0]

    def assigned(self) -> dict[str, dict[str, list[int]]]:
        return {
            member.member_id: {each.topic_name: each.partitions for each in member.assignment.topic_partitions}
            for member in self.described().members
        }

    def offsets(self, *wanted: tuple[str, Sequence[int]]) -> Places:
        group = self.offsets_response(*wanted)
        assert not group.error_code, group
        parts = [(topic.topic_name, part) for topic in group.topics for part in topic.partitions]
        assert all(not part.error_code for _, part in parts)
        return {(name, part.partition_index): (part.start_offset, part.lag) for name, part in parts}

    def offsets_response(self, *wanted: tuple[str, Sequence[int]]) -> Any:
        of = DescribeShareGroupOffsetsRequest
        topics = [of.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=list(parts)) for name, parts in wanted]
        group = of.DescribeShareGroupOffsetsRequestGroup(group_id=self.group_id, topics=topics or None)
        return self.machine.ask(DESCRIBE_OFFSETS, 1, of(groups=[group])).groups[0]

    def alter(self, **offsets: dict[int, int]) -> Any:
        return self.machine.ask(ALTER_OFFSETS, 0, self.alter_request(**offsets))

    def alter_request(self, **offsets: dict[int, int]) -> AlterShareGroupOffsetsRequest:
        of = AlterShareGroupOffsetsRequest
        part, topic = of.AlterShareGroupOffsetsRequestPartition, of.AlterShareGroupOffsetsRequestTopic
        topics = [
            topic(topic_name=name, partitions=[part(partition_index=index, start_offset=start) for index, start in parts.items()])
            for name, parts in offsets.items()
        ]
        return of(group_id=self.group_id, topics=topics)

    def delete_offsets(self, *names: str) -> Any:
        of = DeleteShareGroupOffsetsRequest
        topics = [of.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
        return self.machine.ask(DELETE_OFFSETS, 0, of(group_id=self.group_id, topics=topics))

    def delete(self, *others: str) -> list[int]:
        answer = self.machine.ask(DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[self.group_id, *others]))
        return [result.error_code for result in answer.results]

    def states(self) -> int:
        """How many share partitions the share coordinators have a state of."""
        return sum(len(shard.machine.states) for shard in self.machine.broker.share_states.coordinators.shards)


def create_topic(machine: Machine, name: str, partitions: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    assert not machine.ask(19, 7, CreateTopicsRequest(topics=[topic], timeout_ms=1_000)).topics[0].error_code


def prepared(machine: Machine) -> Machine:
    create_topic(machine, "t", 3)
    machine.ask(10, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    return machine


@pytest.fixture
def machine() -> Machine:
    return prepared(Machine())


@pytest.fixture
def group(machine: Machine) -> Group:
    return Group(machine)


def test_members_get_partitions_whose_state_is_stored(group: Group) -> None:
    group.settle("a", "b")
    assert sorted(number for held in group.assigned().values() for number in held["t"]) == [0, 1, 2]
    assert group.states() == 3
    assert group.offsets() == {("t", index): (-1, -1) for index in range(3)}, "nobody has read yet"


def test_everything_is_there_after_a_kill_and_members_go_on(group: Group) -> None:
    epochs = group.settle("a", "b")
    before = group.described()
    group.machine.kill()
    assert group.described() == before
    group.beat(epochs)
    assert group.described() == before
    assert group.states() == 3


def test_everything_that_was_answered_is_there_after_a_power_cut(group: Group) -> None:
    epochs = group.settle("a", "b")
    group.machine.cut_power(7)
    group.beat(epochs)
    assert sorted(number for held in group.assigned().values() for number in held["t"]) == [0, 1, 2]


def test_a_heartbeat_that_joins_is_answered_once_the_member_is_durable(group: Group) -> None:
    group.settle("a")
    body = ShareGroupHeartbeatRequest(group_id="g", member_id="b", member_epoch=0, subscribed_topic_names=["t"])
    machine = group.machine
    waiting = machine.broker.receive(machine.frame_of(HEARTBEAT, 1, body), machine.peer, machine.clock.now())
    machine.broker.finish_bundle(machine.clock.now())
    assert isinstance(waiting, DelayedReply)
    assert not waiting.done
    machine.kill()
    assert list(group.assigned()) in (["a"], ["a", "b"])
    assert not group.heartbeat("b", 0, ["t"]).error_code


def test_two_members_that_join_in_one_bundle_are_both_members(group: Group) -> None:
    machine = group.machine
    for member_id in ("a", "b"):
        body = ShareGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=0, subscribed_topic_names=["t"])
        machine.broker.receive(machine.frame_of(HEARTBEAT, 1, body), machine.peer, machine.clock.now())
    machine.settle()
    assert sorted(group.assigned()) == ["a", "b"]


@pytest.mark.parametrize("member_id", ["", "m" * 37])
def test_a_member_id_is_not_empty_and_not_longer_than_a_uuid(group: Group, member_id: str) -> None:
    assert group.heartbeat(member_id, 0, ["t"]).error_code == INVALID_REQUEST


def test_the_longest_names_are_served(machine: Machine) -> None:
    group = Group(machine, "g" * 32_000)
    name = "n" * 249
    create_topic(machine, name, 1)
    group.settle("m" * 36, names=[name])
    assert group.assigned() == {"m" * 36: {name: [0]}}
    group.leave("m" * 36)
    assert group.delete() == [NONE]
    assert group.states() == 0


def test_a_subscription_to_thousands_of_topics_is_prepared_beside_other_requests(group: Group) -> None:
    names = [f"unknown-{number}" for number in range(20_000)]
    joined = group.heartbeat("a", 0, [*names, "t"])
    assert not joined.error_code
    group.beat({"a": joined.member_epoch}, rounds=6)
    assert group.assigned() == {"a": {"t": [0, 1, 2]}}
    assert len(group.described().members[0].subscribed_topic_names) == 20_001


def test_partitions_that_are_added_are_read_by_members_soon(group: Group) -> None:
    epochs = group.settle("a")
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=5, assignments=None)
    answer = group.machine.ask(37, 3, CreatePartitionsRequest(topics=[wanted], timeout_ms=1_000))
    assert not answer.results[0].error_code
    group.beat(epochs)
    assert group.assigned() == {"a": {"t": [0, 1, 2, 3, 4]}}


def test_a_topic_that_is_deleted_leaves_no_state(group: Group) -> None:
    create_topic(group.machine, "u", 2)
    epochs = group.settle("a", names=["t", "u"])
    assert group.states() == 5
    group.machine.ask(20, 6, DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="u")], timeout_ms=1_000))
    group.beat(epochs)
    assert group.assigned() == {"a": {"t": [0, 1, 2]}}
    assert group.states() == 3
    group.machine.kill()
    assert group.offsets().keys() == {("t", 0), ("t", 1), ("t", 2)}


def test_a_group_of_another_kind_is_refused_and_refuses(machine: Machine, group: Group) -> None:
    beat = ConsumerGroupHeartbeatRequest(
        group_id="c", member_id="m", rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert not machine.ask(68, 1, beat).error_code
    assert Group(machine, "c").heartbeat("m", 0, ["t"]).error_code == GROUP_ID_NOT_FOUND
    assert Group(machine, "c").alter(t={0: 1}).error_code == GROUP_ID_NOT_FOUND
    group.settle("a")
    group.leave("a")
    beat.group_id = "g"
    assert machine.ask(68, 1, beat).error_code == GROUP_ID_NOT_FOUND, "even an empty share group is not replaced"
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    join = JoinGroupRequest(group_id="g", session_timeout_ms=30_000, protocol_type="consumer", protocols=[protocol])
    assert machine.ask(11, 3, join).error_code == INCONSISTENT_GROUP_PROTOCOL
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])
    commit = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])
    assert machine.ask(8, 8, commit).topics[0].partitions[0].error_code == GROUP_ID_NOT_FOUND


def test_share_groups_are_listed_by_type_and_state(group: Group) -> None:
    group.settle("a")

    def listed(types: Sequence[str] = (), states: Sequence[str] = ()) -> list[str]:
        body = ListGroupsRequest(types_filter=list(types), states_filter=list(states))
        return [each.group_id for each in group.machine.ask(16, 5, body).groups]

    assert listed(["share"]) == ["g"]
    assert listed(["consumer"]) == []
    assert listed(states=["Stable"]) == ["g"]
    group.leave("a")
    assert listed(["Share"], ["Empty"]) == ["g"]


def test_the_offsets_of_a_group_without_members_can_be_altered(group: Group) -> None:
    group.settle("a")
    assert group.alter(t={0: 5}).error_code == NON_EMPTY_GROUP
    group.leave("a")
    answer = group.alter(t={0: 5, 7: 5}, nowhere={0: 5})
    codes = {(topic.topic_name, part.partition_index): part.error_code for topic in answer.responses for part in topic.partitions}
    assert codes == {("t", 0): NONE, ("t", 7): UNKNOWN_TOPIC_OR_PARTITION, ("nowhere", 0): UNKNOWN_TOPIC_OR_PARTITION}
    assert group.offsets(("t", [0, 1])) == {("t", 0): (5, -5), ("t", 1): (-1, -1)}
    group.machine.kill()
    assert group.offsets()["t", 0] == (5, -5)


def test_altering_creates_a_group_whose_first_member_begins_there(group: Group) -> None:
    assert not group.alter(t={1: 8}).error_code
    assert group.described().group_state == "Empty"
    group.settle("a")
    assert group.offsets() == {("t", 0): (-1, -1), ("t", 1): (8, -8), ("t", 2): (-1, -1)}


def test_a_large_alteration_is_served_in_parts(machine: Machine) -> None:
    create_topic(machine, "large", 3_000)
    group = Group(machine)
    answer = group.alter(large=dict.fromkeys(range(3_000), 4))
    assert sum(len(topic.partitions) for topic in answer.responses) == 3_000
    assert not any(part.error_code for topic in answer.responses for part in topic.partitions)
    assert set(group.offsets().values()) == {(4, -4)}
    assert len(group.offsets()) == 3_000


def test_the_offsets_of_topics_can_be_deleted_and_begin_anew(group: Group) -> None:
    create_topic(group.machine, "u", 1)
    group.settle("a", names=["t", "u"])
    assert group.delete_offsets("t").error_code == NON_EMPTY_GROUP
    group.leave("a")
    answer = group.delete_offsets("t", "nowhere")
    codes = {topic.topic_name: topic.error_code for topic in answer.responses}
    assert codes == {"t": NONE, "nowhere": UNKNOWN_TOPIC_OR_PARTITION}
    assert list(group.offsets()) == [("u", 0)]
    assert [topic.error_code for topic in group.delete_offsets("t").responses] == [UNKNOWN_TOPIC_OR_PARTITION]
    group.settle("a")
    assert group.assigned() == {"a": {"t": [0, 1, 2]}}


def test_a_group_is_deleted_with_all_its_state_once_it_is_empty(group: Group) -> None:
    group.settle("a")
    assert group.delete("missing") == [NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND]
    group.leave("a")
    assert group.delete() == [NONE]
    assert group.states() == 0
    assert group.described().error_code == GROUP_ID_NOT_FOUND
    group.machine.kill()
    assert (group.states(), group.described().error_code) == (0, GROUP_ID_NOT_FOUND)
    group.settle("a")
    assert group.assigned() == {"a": {"t": [0, 1, 2]}}, "a new group of the same id begins anew"


def test_groups_without_an_id_are_refused(machine: Machine) -> None:
    group = Group(machine, "")
    assert group.heartbeat("m", 0, ["t"]).error_code == INVALID_REQUEST
    assert group.described().error_code == INVALID_GROUP_ID
    assert group.alter(t={0: 1}).error_code == INVALID_GROUP_ID
    assert group.delete_offsets("t").error_code == INVALID_GROUP_ID
    assert group.offsets() == {}


def test_offsets_of_an_unknown_group_are_unknown(machine: Machine) -> None:
    group = Group(machine, "unknown")
    assert group.offsets() == {}
    assert group.offsets(("t", [0]), ("nowhere", [0])) == {("t", 0): (-1, -1), ("nowhere", 0): (-1, -1)}
    assert group.delete_offsets("t").error_code == GROUP_ID_NOT_FOUND


def test_without_a_coordinator_everything_is_refused() -> None:
    machine = Machine()
    create_topic(machine, "t", 1)
    group = Group(machine)
    assert group.heartbeat("m", 0, ["t"]).error_code == NOT_COORDINATOR
    assert group.described().error_code == NOT_COORDINATOR
    assert group.offsets_response().error_code == NOT_COORDINATOR
    assert group.alter(t={0: 1}).error_code == NOT_COORDINATOR
    assert group.delete_offsets("t").error_code == NOT_COORDINATOR
    assert group.delete() == [NOT_COORDINATOR]


def test_a_cluster_without_the_feature_serves_no_share_groups(machine: Machine, group: Group) -> None:
    group.settle("a")
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
    machine.ask(57, 1, UpdateFeaturesRequest(feature_updates=[update], timeout_ms=1_000))
    assert group.heartbeat("a", 0, ["t"]).error_code == UNSUPPORTED_VERSION
    assert group.described().error_code == UNSUPPORTED_VERSION
    assert group.offsets_response().error_code == UNSUPPORTED_VERSION
    assert group.alter(t={0: 1}).error_code == UNSUPPORTED_VERSION
    assert group.delete_offsets("t").error_code == UNSUPPORTED_VERSION


def configure(machine: Machine, **configs: object) -> int:
    of = IncrementalAlterConfigsRequest
    changes = [of.AlterableConfig(name=name.replace("_", "."), value=str(value)) for name, value in configs.items()]
    resource = of.AlterConfigsResource(resource_type=32, resource_name="g", configs=changes)
    error_code: int = machine.ask(44, 1, of(resources=[resource])).responses[0].error_code
    return error_code


def test_settings_of_one_group_take_effect_at_once_and_are_bounded(group: Group) -> None:
    assert configure(group.machine, share_heartbeat_interval_ms=7_000, share_session_timeout_ms=50_000) == NONE
    assert group.heartbeat("a", 0, ["t"]).heartbeat_interval_ms == 7_000
    group.machine.pass_time(46_000)
    assert list(group.assigned()) == ["a"]
    group.machine.pass_time(5_000)
    assert group.assigned() == {}
    assert configure(group.machine, share_session_timeout_ms=100_000) == INVALID_CONFIG
    assert configure(group.machine, share_heartbeat_interval_ms=100) == INVALID_CONFIG
    assert configure(group.machine, share_session_timeout_ms=46_000, share_heartbeat_interval_ms=15_000) == NONE


def test_the_assignment_interval_of_one_group_is_its_own(group: Group) -> None:
    assert configure(group.machine, share_assignment_interval_ms=0) == NONE
    epoch = group.heartbeat("a", 0, ["t"]).member_epoch
    group.machine.pass_time(200)
    answer = group.heartbeat("a", epoch)
    assert [each.partitions for each in answer.assignment.topic_partitions] == [[0, 1, 2]]


class Choosy:
    """Allows everything but what is named."""

    def __init__(self) -> None:
        self.denied: set[tuple[Operation, Resource, str]] = set()

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        return (operation, resource, name) not in self.denied


def test_rights_are_those_of_kafka() -> None:
    choosy = Choosy()
    group = Group(prepared(OpenMachine(authorizer=choosy)))
    group.settle("a")
    choosy.denied = {(Operation.READ, Resource.GROUP, "g")}
    assert group.heartbeat("a", 0, ["t"]).error_code == GROUP_AUTHORIZATION_FAILED
    assert group.alter(t={0: 1}).error_code == GROUP_AUTHORIZATION_FAILED
    choosy.denied = {(Operation.DESCRIBE, Resource.GROUP, "g")}
    assert group.described().error_code == GROUP_AUTHORIZATION_FAILED
    assert group.offsets_response().error_code == GROUP_AUTHORIZATION_FAILED
    choosy.denied = {(Operation.DELETE, Resource.GROUP, "g")}
    assert group.delete() == [GROUP_AUTHORIZATION_FAILED]
    assert group.delete_offsets("t").error_code == GROUP_AUTHORIZATION_FAILED


def test_topics_that_a_client_may_not_see_are_hidden() -> None:
    choosy = Choosy()
    group = Group(prepared(OpenMachine(authorizer=choosy)))
    create_topic(group.machine, "u", 1)
    group.settle("a", names=["t", "u"])
    choosy.denied = {(Operation.DESCRIBE, Resource.TOPIC, "t"), (Operation.READ, Resource.TOPIC, "t")}
    assert group.heartbeat("a", 0, ["t"]).error_code == TOPIC_AUTHORIZATION_FAILED
    assert group.described().error_code == TOPIC_AUTHORIZATION_FAILED
    assert list(group.offsets()) == [("u", 0)]
    (hidden,) = group.offsets_response(("t", [0])).topics
    assert (hidden.topic_id, hidden.partitions[0].error_code) == (bytes(16), TOPIC_AUTHORIZATION_FAILED)
    group.leave("a")
    altered = group.alter(t={0: 1}, u={0: 1}).responses
    assert {topic.topic_name: topic.partitions[0].error_code for topic in altered} == {"t": TOPIC_AUTHORIZATION_FAILED, "u": NONE}
    deleted = group.delete_offsets("t", "u").responses
    assert {topic.topic_name: topic.error_code for topic in deleted} == {"t": TOPIC_AUTHORIZATION_FAILED, "u": NONE}
