"""Streams groups (KIP-1071): topics that come and go, endpoints, static members, offsets, deletion, other kinds, and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coord.consumer.groups import ConsumerGroups
from ottla.coord.streams.states import StreamsGroupState, StreamsMemberState
from ottla.coord.streams.values import INCORRECTLY_PARTITIONED_TOPICS, MISSING_INTERNAL_TOPICS, MISSING_SOURCE_TOPICS
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.streams_group_describe import StreamsGroupDescribeResponse
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.errors import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    INVALID_REQUEST,
    MEMBER_ID_REQUIRED,
    NON_EMPTY_GROUP,
    NONE,
    OFFSET_METADATA_TOO_LARGE,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    UNSUPPORTED_VERSION,
)
from tests.support.streams_house import Sent, StreamsHouse, Told, source, statuses, tasks, topology

LOG = Sent.TopicInfo(name="log")
STATEFUL = topology(source(state_changelog_topics=[LOG]))


def test_a_group_without_its_source_waits_for_the_topic() -> None:
    house = StreamsHouse({})
    told = house.join()
    assert (told.member_epoch, tasks(told), statuses(told)) == (2, ({}, {}, {}), [MISSING_SOURCE_TOPICS])
    assert house.group.state is StreamsGroupState.NOT_READY
    assert statuses(house.live()) == [MISSING_SOURCE_TOPICS]
    assert house.records == [], "nothing is configured again before a topic has changed"
    house.change_topics({"other": 1})
    assert statuses(house.live()) == [MISSING_SOURCE_TOPICS]
    house.change_topics({"t": 2})
    told = house.live()
    assert (told.member_epoch, tasks(told)[0], statuses(told)) == (3, {"0": [0, 1]}, [])
    assert house.group.state.value == "Stable"


def test_internal_topics_that_are_missing_are_named_with_the_partitions_that_they_must_have() -> None:
    house = StreamsHouse()
    told = house.join(sent=STATEFUL)
    assert statuses(told) == [MISSING_INTERNAL_TOPICS]
    assert [(topic.name, topic.partitions) for topic in house.missing] == [("log", 2)]
    house.change_topics({"log": 2})
    told = house.live()
    assert (statuses(told), tasks(told)[0], house.missing) == ([], {"0": [0, 1]}, ())


def test_an_internal_topic_with_other_partitions_is_a_status_and_no_task() -> None:
    house = StreamsHouse({"t": 2, "log": 3})
    told = house.join(sent=STATEFUL)
    assert (statuses(told), tasks(told)) == ([INCORRECTLY_PARTITIONED_TOPICS], ({}, {}, {}))


def test_a_source_that_grows_gives_more_tasks_and_one_that_goes_takes_them_all() -> None:
    house = StreamsHouse()
    house.join()
    house.change_topics({"t": 3})
    assert tasks(house.live())[0] == {"0": [0, 1, 2]}
    house.change_topics(gone=["t"])
    told = house.live(owns={"0": [0, 1, 2]})
    assert (statuses(told), tasks(told)) == ([MISSING_SOURCE_TOPICS], ({}, {}, {}))
    assert house.group.state is StreamsGroupState.NOT_READY
    assert house.live(owns={}).member_epoch == house.group.epoch


def endpoints(told: Told) -> dict[tuple[str, int], dict[str, list[int]]] | None:
    if told.partitions_by_user_endpoint is None:
        return None
    return {
        (each.user_endpoint.host, each.user_endpoint.port): {place.topic: place.partitions for place in each.active_partitions}
        for each in told.partitions_by_user_endpoint
    }


def test_members_hear_the_partitions_behind_all_endpoints_when_these_have_changed() -> None:
    house = StreamsHouse()
    told = house.join(user_endpoint=Sent.Endpoint(host="a", port=1))
    assert (endpoints(told), told.endpoint_information_epoch) == ({("a", 1): {"t": [0, 1]}}, 0)
    assert endpoints(house.live()) is None
    told = house.join("bea", user_endpoint=Sent.Endpoint(host="b", port=2))
    assert (endpoints(told), told.endpoint_information_epoch) == ({("a", 1): {"t": [0, 1]}, ("b", 2): {}}, 1)
    house.live("ada", owns={"0": [0, 1]})
    house.live("ada", owns={"0": [0]})
    told = house.live("bea", endpoint_information_epoch=1)
    assert endpoints(told) == {("a", 1): {"t": [0]}, ("b", 2): {"t": [1]}}
    told = house.live("ada", endpoint_information_epoch=told.endpoint_information_epoch)
    assert endpoints(told) is None
    told = house.join("cer")
    assert endpoints(told) is not None, "a member without an endpoint hears those of the others"


def test_standby_tasks_are_told_at_their_endpoint_apart() -> None:
    house = StreamsHouse({"t": 2, "log": 2}, group_streams_num_standby_replicas=1, group_streams_num_warmup_replicas=0)
    house.join(sent=STATEFUL, user_endpoint=Sent.Endpoint(host="a", port=1))
    house.join("bea", STATEFUL, user_endpoint=Sent.Endpoint(host="b", port=2))
    house.live("ada", owns={"0": [0, 1]})
    house.live("ada", owns={"0": [0]})
    told = house.live("bea")
    assert house.group.members["bea"].assigned.standby == {"0": {0}}
    house.live("ada")
    assert told.partitions_by_user_endpoint is not None
    found = {each.user_endpoint.host: each for each in told.partitions_by_user_endpoint}
    assert [place.partitions for place in found["b"].standby_partitions] == [[0]]
    assert house.group.members["ada"].assigned.standby == {"0": {1}}


def test_a_static_member_returns_with_its_tasks_under_a_new_id_and_the_old_one_is_fenced() -> None:
    house = StreamsHouse()
    house.join(instance_id="i")
    told = house.join("bea", instance_id="i")
    assert told.error_code == UNRELEASED_INSTANCE_ID
    assert house.leave("ada", epoch=-2, instance_id="i").member_epoch == -2
    assert house.group.members["ada"].epoch == -2
    epoch = house.group.epoch
    told = house.join("bea", instance_id="i", process_id="process-of-ada")
    assert (tasks(told)[0], told.member_epoch, list(house.group.members)) == ({"0": [0, 1]}, house.group.epoch, ["bea"])
    assert house.group.epoch == epoch, "nothing was assigned anew"
    assert house.live("ada", epoch=2, instance_id="i").error_code == FENCED_INSTANCE_ID
    assert house.live("ada", epoch=2).error_code == UNKNOWN_MEMBER_ID
    assert house.live("bea", instance_id="i").error_code == NONE
    assert house.live("bea", epoch=2, instance_id="other").error_code == UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_too_long_loses_its_tasks() -> None:
    house = StreamsHouse()
    house.join(instance_id="i")
    house.join("bea")
    house.leave("ada", epoch=-2, instance_id="i")
    house.wait(40_000)
    house.live("bea")
    house.wait(5_000)
    assert list(house.group.members) == ["bea"]
    assert tasks(house.live("bea"))[0] == {"0": [0, 1]}


def test_a_static_member_needs_no_room_to_return() -> None:
    house = StreamsHouse(group_streams_max_size=1)
    house.join(instance_id="i")
    house.leave("ada", epoch=-2, instance_id="i")
    assert house.join("bea", instance_id="i").error_code == NONE
    assert house.leave("bea", instance_id="i").member_epoch == -1
    assert house.group.state is StreamsGroupState.EMPTY


def commit(house: StreamsHouse, epoch: int, *partitions: int, member_id: str = "ada", version: int = 9, topic: str = "t") -> int:
    of = OffsetCommitRequest
    parts = [of.OffsetCommitRequestPartition(partition_index=partition, committed_offset=5) for partition in partitions or (0,)]
    topics = [of.OffsetCommitRequestTopic(name=topic, partitions=parts)]
    answer = house.ask(of(group_id="g", generation_id_or_member_epoch=epoch, member_id=member_id, topics=topics), version)
    (code,) = {part.error_code for topic in answer.topics for part in topic.partitions}
    return int(code)


def test_a_member_commits_with_its_epoch_or_with_that_of_its_task() -> None:
    house = StreamsHouse({"t": 2, "u": 1})
    house.join()
    assert commit(house, 2) == NONE
    assert commit(house, 3) == STALE_MEMBER_EPOCH
    assert commit(house, 2, version=8) == UNSUPPORTED_VERSION
    assert commit(house, 2, member_id="bea") == UNKNOWN_MEMBER_ID
    assert commit(house, -1, member_id="") == UNKNOWN_MEMBER_ID
    house.join("bea")
    house.live("ada", owns={"0": [0, 1]})
    house.live("ada", owns={"0": [0]})
    assert commit(house, 2, 0) == NONE, "the task has been its own since then"
    assert commit(house, 2, 1) == STALE_MEMBER_EPOCH
    assert commit(house, 2, 0, 1) == STALE_MEMBER_EPOCH
    assert commit(house, 2, 0, topic="u") == STALE_MEMBER_EPOCH
    assert commit(house, 3, 0, topic="u") == NONE
    house.live("bea")
    assert commit(house, 2, 1, member_id="bea") == STALE_MEMBER_EPOCH
    assert commit(house, 3, 1, member_id="bea") == NONE


def test_a_revoking_member_commits_what_it_still_has() -> None:
    house = StreamsHouse()
    house.join()
    house.join("bea")
    house.live("ada", owns={"0": [0, 1]})
    assert house.group.members["ada"].state is StreamsMemberState.UNREVOKED_TASKS
    assert commit(house, 2, 0, 1) == NONE


def commit_in_transaction(house: StreamsHouse, epoch: int, member_id: str, partition: int = 0, metadata: str = "") -> int:
    of = TxnOffsetCommitRequest
    part = of.TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=5, committed_metadata=metadata)
    topics = [of.TxnOffsetCommitRequestTopic(name="t", partitions=[part])]
    said: dict[str, Any] = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0, "topics": topics}
    answer = house.ask(of(group_id="g", generation_id_or_member_epoch=epoch, member_id=member_id, **said), 5)
    return int(answer.topics[0].partitions[0].error_code)


def test_a_transaction_commits_for_a_member_or_for_nobody() -> None:
    house = StreamsHouse()
    house.join()
    asked = (2, "ada"), (-1, ""), (3, "ada"), (2, "bea")
    told = [commit_in_transaction(house, *each) for each in asked]
    assert told == [NONE, NONE, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID]


def test_a_transaction_commits_with_the_epoch_of_a_task_and_too_much_metadata_is_an_error_of_its_own() -> None:
    house = StreamsHouse()
    house.join()
    house.join("bea")
    house.live("ada", owns={"0": [0, 1]})
    house.live("ada", owns={"0": [0]})
    assert [commit_in_transaction(house, 2, "ada", partition) for partition in (0, 1)] == [NONE, ILLEGAL_GENERATION]
    assert commit_in_transaction(house, 2, "ada", 1, "m" * 5000) == OFFSET_METADATA_TOO_LARGE


def test_offsets_are_fetched_with_the_present_epoch_or_by_anybody() -> None:
    house = StreamsHouse()
    house.join()
    commit(house, 2)
    of = OffsetFetchRequest

    def ask(member_id: str | None, epoch: int) -> int:
        topics = [of.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        wanted = of.OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=topics)
        return int(house.ask(wanted).error_code)

    assert [ask(None, -1), ask("ada", 2), ask("ada", 1), ask("bea", 2)] == [NONE, NONE, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID]


def test_offsets_of_topics_that_the_topology_reads_are_not_deleted_while_there_are_members() -> None:
    house = StreamsHouse()
    house.join()
    commit(house, 2)
    of = OffsetDeleteRequest
    parts = [of.OffsetDeleteRequestPartition(partition_index=0)]
    body = of(group_id="g", topics=[of.OffsetDeleteRequestTopic(name="t", partitions=parts)])
    assert house.ask(body).topics[0].partitions[0].error_code == GROUP_SUBSCRIBED_TO_TOPIC
    house.leave()
    assert house.ask(body).topics[0].partitions[0].error_code == NONE


def test_a_group_is_listed_described_and_deleted() -> None:
    house = StreamsHouse()
    house.join()
    listed = house.ask(ListGroupsRequest(types_filter=["Streams"])).groups
    assert [(group.group_id, group.protocol_type, group.group_state, group.group_type) for group in listed] == [
        ("g", "streams", "Stable", "streams")
    ]
    assert house.ask(ListGroupsRequest(states_filter=["notready"])).groups == []
    assert house.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == NON_EMPTY_GROUP
    house.leave()
    commit(house, -1, member_id="")
    assert house.ask(DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == NONE
    assert (house.machine.count, house.stored, house.machine.weight) == (0, {}, 0)
    assert house.describe().error_code == GROUP_ID_NOT_FOUND


def test_a_description_has_everything_that_members_have_said() -> None:
    house = StreamsHouse({"t": 2, "log": 2})
    house.join(
        sent=STATEFUL,
        rack_id="r",
        user_endpoint=Sent.Endpoint(host="h", port=80),
        client_tags=[Sent.KeyValue(key="zone", value="z")],
        instance_id="i",
    )
    house.live(task_offsets=[Sent.TaskOffset(subtopology_id="0", partition=1, offset=7)], task_end_offsets=[])
    group = house.describe()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.client_id, member.client_host) == ("ada", 2, "client", "/host")
    assert (member.instance_id, member.rack_id, member.process_id, member.topology_epoch) == ("i", "r", "process-of-ada", 0)
    assert (member.user_endpoint, member.client_tags) == (Sent.Endpoint(host="h", port=80), [Sent.KeyValue(key="zone", value="z")])
    assert member.assignment == member.target_assignment
    assert [offset.offset for offset in member.task_offsets] == [7]
    assert group.topology is not None
    assert group.topology.subtopologies == [
        StreamsGroupDescribeResponse.Subtopology(
            subtopology_id="0", source_topics=["t"], state_changelog_topics=[Sent.TopicInfo(name="log", partitions=2)]
        )
    ]


def test_a_group_that_is_not_there_or_of_another_kind_is_not_described() -> None:
    house = StreamsHouse()
    house.ask(
        ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="c", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
        )
    )
    assert (house.describe("").error_code, house.describe("h").error_message) == (INVALID_GROUP_ID, "Group h not found.")
    assert house.describe("g").error_message == "Group g is not a streams group."


def classic_join(house: StreamsHouse, member_id: str = "") -> Any:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return house.ask(
        JoinGroupRequest(
            group_id="g", member_id=member_id, session_timeout_ms=10_000, protocol_type="consumer", protocols=[protocol]
        ),
        4,
    )


def test_an_empty_streams_group_becomes_a_classic_group_and_back() -> None:
    house = StreamsHouse()
    house.join()
    assert classic_join(house).error_code == INCONSISTENT_GROUP_PROTOCOL
    house.leave()
    commit(house, -1, member_id="")
    invited = classic_join(house)
    assert invited.error_code == MEMBER_ID_REQUIRED
    classic_join(house, invited.member_id)
    assert house.ask(DescribeGroupsRequest(groups=["g"]), 6).groups[0].error_code == NONE
    assert house.describe().error_code == GROUP_ID_NOT_FOUND
    assert house.join().error_code == GROUP_ID_NOT_FOUND, "the classic group is not empty"
    house.wait(600_000)
    assert house.join().error_code == NONE
    assert len(house.machine.offsets) == 1, "committed offsets stay"


def tag(key: str, value: str) -> Sent.KeyValue:
    return Sent.KeyValue(key=key, value=value)


def test_a_member_without_rack_aware_tags_gets_a_status_that_names_them_if_it_knows_the_status() -> None:
    house = StreamsHouse(group_streams_rack_aware_assignment_tags=("zone", "rack", "row"))
    told = house.join(client_tags=[tag("rack", "r")])
    assert told.status is not None
    assert [each.status_code for each in told.status] == [6]
    assert "zone, row" in told.status[0].status_detail
    assert house.live("ada", client_tags=[tag(key, "v") for key in ("row", "zone", "rack")]).status == []
    assert house.live("ada").status == [], "tags that are not sent stay"
    house.version = 0
    assert house.join("bea").status == []


def test_copies_of_a_task_are_spread_by_the_tags_of_a_group_and_changed_tags_lead_to_another_assignment() -> None:
    house = StreamsHouse({"t": 1, "log": 1}, group_streams_num_standby_replicas=1, group_streams_num_warmup_replicas=0)
    for name, zone, rack in (("ada", "a", "x"), ("bea", "a", "y"), ("cat", "b", "x")):
        house.join(name, STATEFUL, client_tags=[tag("zone", zone), tag("rack", rack)])
    for key, spread in (("zone", "cat"), ("rack", "bea")):
        epoch = house.group.epoch
        house.of_group = {"streams.rack.aware.assignment.tags": (key,)}
        house.live("ada")
        assert house.group.epoch == epoch + 1
        assert dict(house.group.configs) == {"num.standby.replicas": "1", "rack.aware.assignment.tags": key}
        assert [name for name, held in house.group.targets.items() if held.standby] == [spread]
    house.restart()
    epoch = house.group.epoch
    house.live("ada")
    assert house.group.epoch == epoch, "the tags of the last assignment are stored"


def test_a_consumer_group_and_a_streams_group_do_not_replace_each_other() -> None:
    house = StreamsHouse()
    house.join()
    house.leave()
    of = ConsumerGroupHeartbeatRequest
    join = of(group_id="g", member_id="c", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[])
    assert house.ask(join).error_code == GROUP_ID_NOT_FOUND
    house.ask(DeleteGroupsRequest(groups_names=["g"]))
    assert house.ask(join).error_code == NONE
    assert house.join().error_code == GROUP_ID_NOT_FOUND
    house.ask(of(group_id="g", member_id="c", member_epoch=-1))
    assert house.join().error_code == GROUP_ID_NOT_FOUND
    kinds = [type(kind) for kind in house.machine.kinds if kind.groups]
    assert kinds == [ConsumerGroups]


def test_a_group_is_what_it_was_after_a_restart() -> None:
    house = StreamsHouse({"t": 4, "log": 4}, group_streams_num_standby_replicas=1, group_streams_num_warmup_replicas=0)
    house.join(sent=STATEFUL, instance_id="i")
    house.join("bea", STATEFUL, rack_id="r")
    house.live("ada", owns={"0": [0, 1, 2, 3]})
    before = house.describe()
    weight = house.machine.weight
    house.restart()
    after = house.describe()
    assert (after.members, after.group_epoch, after.group_state) == (before.members, before.group_epoch, before.group_state)
    assert house.machine.weight == weight
    assert house.group.members["ada"].state is StreamsMemberState.UNREVOKED_TASKS
    told = house.live("ada", owns={"0": sorted(house.group.members["ada"].assigned.active["0"])})
    assert (told.member_epoch, house.group.epoch) == (3, 3), "no epoch rises because of the restart"
    assert house.describe() == house.describe()
    house.wait(45_000)
    assert house.group.state is StreamsGroupState.EMPTY, "sessions began anew"


def test_a_member_that_was_revoking_is_still_expected_to_after_a_restart() -> None:
    house = StreamsHouse(group_streams_session_timeout_ms=1_000_000)
    house.join(rebalance_timeout_ms=10_000)
    house.join("bea")
    house.live("ada", owns={"0": [0, 1]})
    house.restart()
    house.wait(10_000)
    assert list(house.group.members) == ["bea"]


def test_a_state_that_a_newer_coordinator_stored_makes_the_member_begin_anew() -> None:
    house = StreamsHouse()
    house.join()
    key, value = next((key, value) for key, value in house.stored.items() if key[:2] == b"\0\x16")
    assert value[10] == StreamsMemberState.STABLE.value
    house.stored[key] = value[:10] + b"\x50" + value[11:]
    house.restart()
    assert state_of(house) is StreamsMemberState.UNKNOWN
    assert house.live("ada", owns={"0": [0]}).error_code == FENCED_MEMBER_EPOCH
    assert house.live("ada").error_code == FENCED_MEMBER_EPOCH
    assert house.live("ada", owns={}).error_code == NONE
    assert state_of(house) is StreamsMemberState.STABLE


def state_of(house: StreamsHouse) -> StreamsMemberState:
    return house.group.members["ada"].state


def test_task_offsets_are_kept_as_last_reported_and_forgotten_with_the_member() -> None:
    house = StreamsHouse()
    house.join()
    offset = Sent.TaskOffset(subtopology_id="0", partition=0, offset=5)
    weight = house.machine.weight
    house.live(task_offsets=[offset], task_end_offsets=[offset])
    house.live(task_offsets=[])
    assert (house.group.offsets, house.group.end_offsets) == ({}, {"ada": {("0", 0): 5}})
    assert house.machine.weight > weight
    assert house.live(task_offsets=[offset, offset]).error_code == INVALID_REQUEST
    house.leave()
    assert house.group.end_offsets == {}


def test_a_tag_twice_is_refused() -> None:
    house = StreamsHouse()
    told = house.join(client_tags=[Sent.KeyValue(key="k", value="v"), Sent.KeyValue(key="k", value="w")])
    assert (told.error_code, house.machine.count) == (INVALID_REQUEST, 0)


@pytest.mark.parametrize("members", [1, 3])
def test_many_tasks_are_assigned_in_steps_while_the_group_goes_on(members: int) -> None:
    house = StreamsHouse({"t": 900})
    told = [house.join(name) for name in "abc"[:members]]
    assert statuses(told[0]) != []
    assert house.group.assigning is not None
    house.leave("a") if members > 1 else None
    house.wait(1_000)
    assert house.group.assigning is None
    for _ in range(20):
        for name in house.group.members:
            held = {key: sorted(value) for key, value in house.group.members[name].assigned.active.items()}
            house.live(name, owns=held)
        house.wait(100)
    assert house.group.state.value == "Stable"
    held = [partition for member in house.group.members.values() for partition in member.assigned.active["0"]]
    assert sorted(held) == list(range(900))


def test_a_group_that_is_replaced_while_it_is_assigned_is_left_alone() -> None:
    house = StreamsHouse({"t": 900})
    house.join()
    house.leave()
    house.ask(DeleteGroupsRequest(groups_names=["g"]))
    house.wait(1_000)
    assert house.machine.count == 0
