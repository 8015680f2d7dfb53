"""Heartbeats of streams groups (KIP-1071): joining, epochs, revocation, and the order of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coord.streams.records import (
    StreamsCurrentStored,
    StreamsEpochStored,
    StreamsMemberStored,
    StreamsTargetStored,
    TopologyStored,
)
from ottla.coord.streams.states import StreamsGroupState, StreamsMemberState
from ottla.coord.streams.values import ASSIGNMENT_DELAYED, SHUTDOWN_APPLICATION, STALE_TOPOLOGY
from ottla.wire.errors import (
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST,
    NONE,
    STREAMS_INVALID_TOPOLOGY,
    UNKNOWN_MEMBER_ID,
)
from tests.support.streams_house import Sent, StreamsHouse, listed, source, statuses, tasks, topology


def test_the_first_member_founds_the_group_and_gets_every_task() -> None:
    house = StreamsHouse()
    told = house.join()
    assert (told.error_code, told.member_id, told.member_epoch, told.heartbeat_interval_ms) == (NONE, "ada", 2, 5_000)
    assert tasks(told) == ({"0": [0, 1]}, {}, {})
    stored = [type(record) for record in house.records if house.machine.encode(record) is not None]
    assert stored[:3] == [StreamsMemberStored, TopologyStored, StreamsEpochStored]
    assert stored[3] is StreamsTargetStored
    assert stored[-1] is StreamsCurrentStored
    assert house.group.state is StreamsGroupState.STABLE


def test_a_heartbeat_without_news_tells_no_tasks_and_stores_nothing() -> None:
    house = StreamsHouse()
    house.join()
    told = house.live()
    assert (told.active_tasks, told.standby_tasks, told.warmup_tasks, told.status) == (None, None, None, [])
    assert house.records == []


def test_a_second_member_waits_until_the_first_has_revoked_what_it_gets() -> None:
    house = StreamsHouse()
    house.join()
    told = house.join("bea")
    assert (told.member_epoch, tasks(told)) == (3, ({}, {}, {}))
    assert house.group.members["bea"].state is StreamsMemberState.UNRELEASED_TASKS
    told = house.live("ada", owns={"0": [0, 1]})
    assert (told.member_epoch, tasks(told)[0]) == (2, {"0": [0]})
    assert house.group.members["ada"].state is StreamsMemberState.UNREVOKED_TASKS
    assert house.live("bea").active_tasks is None, "the first still has the task"
    told = house.live("ada", owns={"0": [0]})
    assert (told.member_epoch, told.active_tasks) == (3, None)
    assert tasks(house.live("bea"))[0] == {"0": [1]}
    assert house.group.state is StreamsGroupState.STABLE


def test_a_member_that_does_not_say_what_it_owns_keeps_what_it_must_revoke() -> None:
    house = StreamsHouse()
    house.join()
    house.join("bea")
    house.live("ada")
    house.live("ada")
    assert house.group.members["ada"].state is StreamsMemberState.UNREVOKED_TASKS
    assert house.group.active_process("0", 1) == "process-of-ada"


def test_a_member_that_revokes_too_slowly_is_removed_and_its_tasks_are_given_away() -> None:
    house = StreamsHouse(group_streams_session_timeout_ms=1_000_000)
    house.join(rebalance_timeout_ms=10_000)
    house.join("bea")
    house.live("ada", owns={"0": [0, 1]})
    house.wait(9_999)
    assert "ada" in house.group.members
    house.wait(1)
    assert list(house.group.members) == ["bea"]
    told = house.live("bea")
    assert (told.member_epoch, tasks(told)[0]) == (4, {"0": [0, 1]})


def test_a_silent_member_is_removed_at_the_end_of_its_session() -> None:
    house = StreamsHouse()
    house.join()
    house.wait(44_999)
    house.live()
    house.wait(44_999)
    assert "ada" in house.group.members
    house.wait(1)
    assert house.group.state is StreamsGroupState.EMPTY
    assert house.live(epoch=2).error_code == UNKNOWN_MEMBER_ID


def test_a_group_of_a_session_timeout_of_its_own_uses_it() -> None:
    house = StreamsHouse()
    house.of_group = {"streams.session.timeout.ms": 50_000, "streams.heartbeat.interval.ms": 7_000}
    assert house.join().heartbeat_interval_ms == 7_000
    house.wait(49_999)
    assert "ada" in house.group.members
    house.wait(1)
    assert not house.group.members


def test_a_member_that_leaves_is_gone_at_once_and_the_epoch_rises() -> None:
    house = StreamsHouse()
    house.join()
    house.join("bea")
    told = house.leave("ada")
    assert (told.error_code, told.member_id, told.member_epoch, told.status) == (NONE, "ada", -1, [])
    assert house.group.epoch == 4
    assert tasks(house.live("bea"))[0] == {"0": [0, 1]}
    assert house.leave("ada").error_code == UNKNOWN_MEMBER_ID
    assert house.leave("bea").error_code == NONE
    assert house.group.state is StreamsGroupState.EMPTY


@pytest.mark.parametrize(("epoch", "owns", "code"), [(3, None, FENCED_MEMBER_EPOCH), (1, None, FENCED_MEMBER_EPOCH), (2, {}, NONE)])
def test_a_member_must_send_its_own_epoch(epoch: int, owns: Any, code: int) -> None:
    house = StreamsHouse()
    house.join()
    before = house.describe()
    assert house.live(epoch=epoch, owns=owns).error_code == code
    assert house.describe() == before


def test_the_epoch_before_is_accepted_from_a_member_that_owns_no_more_than_it_has() -> None:
    house = StreamsHouse()
    house.join()
    house.join("bea")
    house.live("ada", owns={"0": [0, 1]})
    house.live("ada", owns={"0": [0]})
    assert house.group.members["ada"].epoch == 3
    assert house.live("ada", epoch=2).error_code == FENCED_MEMBER_EPOCH
    assert house.live("ada", epoch=2, owns={"0": [0, 1]}).error_code == FENCED_MEMBER_EPOCH
    assert house.live("ada", epoch=2, owns={"0": [0]}).error_code == NONE


def test_a_member_that_missed_a_reply_is_told_its_tasks_again() -> None:
    house = StreamsHouse()
    house.join()
    assert house.live(owns={}).active_tasks is None
    assert tasks(house.live(owns={}, rebalance_timeout_ms=60_000))[0] == {"0": [0, 1]}
    house.wait(9_999)
    assert house.live().active_tasks is None
    house.wait(1)
    assert tasks(house.live())[0] == {"0": [0, 1]}
    house.wait(20_000)
    assert house.live().active_tasks is None, "once more is enough"
    house.live(owns={"0": [0, 1]})
    house.restart()
    house.wait(10_000)
    assert tasks(house.live())[0] == {"0": [0, 1]}, "a restart has forgotten what was confirmed"


def test_a_member_that_joins_again_keeps_its_tasks_and_hears_them() -> None:
    house = StreamsHouse()
    house.join()
    told = house.join()
    assert (told.member_epoch, tasks(told)[0], house.group.epoch) == (2, {"0": [0, 1]}, 2)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"member_id": ""}, INVALID_REQUEST, "MemberId can't be empty"),
        ({"group_id": " "}, INVALID_REQUEST, "GroupId can't be empty"),
        ({"instance_id": ""}, INVALID_REQUEST, "InstanceId can't be empty"),
        ({"rack_id": ""}, INVALID_REQUEST, "RackId can't be empty"),
        ({"rebalance_timeout_ms": -1}, INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request"),
        ({"active_tasks": None}, INVALID_REQUEST, "ActiveTasks must be empty when (re-)joining"),
        ({"standby_tasks": listed({"0": [1]})}, INVALID_REQUEST, "StandbyTasks must be empty when (re-)joining"),
        ({"warmup_tasks": listed({"0": [1]})}, INVALID_REQUEST, "WarmupTasks must be empty when (re-)joining"),
        ({"topology": None}, INVALID_REQUEST, "Topology must be non-null when (re-)joining"),
        ({"member_epoch": -2}, INVALID_REQUEST, "InstanceId can't be null"),
        ({"member_epoch": -3}, INVALID_REQUEST, "MemberEpoch is -3, but must be greater than or equal to -2"),
        ({"member_epoch": 5}, INVALID_REQUEST, "Topology can only be provided when (re-)joining"),
        ({"member_epoch": 5, "topology": None, "active_tasks": None}, INVALID_REQUEST, "If one task-type is non-null"),
        ({"member_epoch": 5, "topology": None}, GROUP_ID_NOT_FOUND, "Streams group g not found"),
        ({"member_epoch": -1, "topology": None}, GROUP_ID_NOT_FOUND, "Streams group g not found"),
    ],
)
def test_a_wrong_request_is_refused_and_founds_no_group(change: dict[str, Any], code: int, words: str) -> None:
    house = StreamsHouse()
    told = house.join(**change)
    assert (told.error_code, house.stored, house.machine.count) == (code, {}, 0)
    assert told.error_message is not None
    assert words in told.error_message


def test_a_topology_that_cannot_be_is_refused() -> None:
    house = StreamsHouse()
    counted = source(state_changelog_topics=[Sent.TopicInfo(name="log", partitions=2)])
    told = house.join(sent=topology(counted))
    assert (told.error_code, house.machine.count) == (STREAMS_INVALID_TOPOLOGY, 0)
    pattern = Sent.Subtopology(subtopology_id="0", source_topic_regex=["t.*"])
    told = house.join(sent=topology(pattern))
    assert told.error_code == INVALID_REQUEST
    assert told.error_message is not None
    assert "Regular expressions for source topics are not supported yet" in told.error_message


def test_tasks_that_the_topology_does_not_have_are_refused() -> None:
    house = StreamsHouse()
    house.join()
    for owns in ({"1": [0]}, {"0": [2]}, {"0": [-1]}):
        assert house.live(owns=owns).error_code == INVALID_REQUEST
    assert house.live(owns={"0": [0, 1]}).error_code == NONE


def test_another_topology_in_the_same_epoch_is_refused_and_an_older_one_is_stale() -> None:
    house = StreamsHouse({"t": 2, "u": 2})
    house.join(sent=topology(epoch=1))
    told = house.join("bea", topology(source("0", "u"), epoch=1))
    assert told.error_code == INVALID_REQUEST
    assert told.error_message is not None
    assert "Topology updates are not supported yet" in told.error_message
    assert list(house.group.members) == ["ada"]
    told = house.join("cer", topology(source("0", "u"), epoch=0))
    assert (told.error_code, statuses(told)) == (NONE, [STALE_TOPOLOGY])
    assert statuses(house.live("cer")) == [STALE_TOPOLOGY]
    assert statuses(house.live("ada")) == []


def test_the_same_topology_in_another_order_is_the_same() -> None:
    house = StreamsHouse({"t": 2, "u": 2})
    house.join(sent=topology(source("0"), source("1", "u")))
    assert house.join("bea", topology(source("1", "u"), source("0"))).error_code == NONE


def test_a_full_group_refuses_even_those_who_are_in_it() -> None:
    house = StreamsHouse(group_streams_max_size=1)
    house.join()
    assert house.join("bea").error_code == GROUP_MAX_SIZE_REACHED
    assert house.join("ada").error_code == GROUP_MAX_SIZE_REACHED
    assert house.live("ada").error_code == NONE


def test_members_beyond_the_memory_of_all_groups_are_refused() -> None:
    house = StreamsHouse(most_bytes=20_000)
    assert house.join().error_code == NONE
    assert house.join("bea", rack_id="r" * 20_000).error_code == GROUP_MAX_SIZE_REACHED
    assert list(house.group.members) == ["ada"]
    weight = house.machine.weight
    house.leave()
    assert house.machine.weight < weight


def test_a_new_group_waits_for_members_before_its_first_assignment() -> None:
    house = StreamsHouse(group_streams_initial_rebalance_delay_ms=3_000)
    told = house.join()
    assert (told.member_epoch, tasks(told), statuses(told)) == (1, ({}, {}, {}), [ASSIGNMENT_DELAYED])
    house.wait(2_000)
    assert statuses(house.join("bea")) == [ASSIGNMENT_DELAYED]
    house.wait(1_000)
    assert house.group.assignment_epoch == house.group.epoch == 3
    assert [len(tasks(house.live(name))[0]["0"]) for name in ("ada", "bea")] == [1, 1]


def test_nobody_is_assigned_anything_if_all_have_left_within_the_delay() -> None:
    house = StreamsHouse(group_streams_initial_rebalance_delay_ms=3_000)
    house.join()
    house.leave()
    house.wait(3_000)
    assert (house.group.assignment_epoch, house.group.delayed) == (1, False)
    assert statuses(house.join()) == [ASSIGNMENT_DELAYED], "the next first member waits anew"


def test_assignments_keep_their_distance_in_time() -> None:
    house = StreamsHouse(group_streams_assignment_interval_ms=1_000)
    house.join()
    told = house.join("bea")
    assert (told.member_epoch, statuses(told)) == (2, [ASSIGNMENT_DELAYED])
    house.wait(999)
    assert statuses(house.live("ada")) == [ASSIGNMENT_DELAYED]
    house.wait(1)
    told = house.live("ada", owns={"0": [0, 1]})
    assert (statuses(told), tasks(told)[0]) == ([], {"0": [0]})


def test_a_changed_number_of_standby_tasks_leads_to_another_assignment() -> None:
    changelog = source(state_changelog_topics=[Sent.TopicInfo(name="log")])
    house = StreamsHouse({"t": 2, "log": 2})
    house.join(sent=topology(changelog))
    house.join("bea", topology(changelog))
    epoch = house.group.epoch
    house.of_group = {"streams.num.standby.replicas": 1}
    house.live("bea")
    assert house.group.epoch == epoch + 1
    assert house.group.configs == (("num.standby.replicas", "1"),)
    assert sorted(house.group.targets["bea"].standby["0"] | house.group.targets["bea"].active["0"]) == [0, 1]


def test_a_member_can_ask_all_to_shut_down_until_the_group_is_empty() -> None:
    house = StreamsHouse()
    house.join()
    house.join("bea")
    told = house.live("bea", shutdown_application=True)
    assert statuses(told) == [SHUTDOWN_APPLICATION]
    told = house.live("ada")
    assert statuses(told) == [SHUTDOWN_APPLICATION]
    assert told.status is not None
    assert "bea" in told.status[0].status_detail
    house.leave("bea")
    assert statuses(house.live("ada", shutdown_application=True)) == [SHUTDOWN_APPLICATION]
    house.leave("ada")
    assert statuses(house.join()) == []


def test_a_member_that_leaves_can_ask_the_others_to_shut_down() -> None:
    house = StreamsHouse()
    house.join()
    house.join("bea")
    house.leave("bea", shutdown_application=True)
    assert statuses(house.live("ada")) == [SHUTDOWN_APPLICATION]


def test_client_tags_rack_and_endpoint_are_kept_until_they_are_said_anew() -> None:
    house = StreamsHouse()
    tags = [Sent.KeyValue(key="zone", value="a"), Sent.KeyValue(key="cluster", value="b")]
    house.join(rack_id="r1", client_tags=tags, user_endpoint=Sent.Endpoint(host="h", port=65_535))
    member = house.group.members["ada"]
    assert (member.rack_id, member.client_tags) == ("r1", (("cluster", "b"), ("zone", "a")))
    house.live()
    assert house.group.members["ada"] == member
    epoch = house.group.epoch
    house.live(rack_id="r2")
    assert (house.group.members["ada"].rack_id, house.group.epoch) == ("r2", epoch + 1)
    assert house.group.members["ada"].user_endpoint == ("h", 65_535)


def test_the_longest_names_and_the_largest_numbers_are_served() -> None:
    long = "m" * 32_000
    house = StreamsHouse({"t": 50})
    told = house.join(long, rack_id=long, process_id=long, rebalance_timeout_ms=(1 << 31) - 1)
    assert (told.error_code, tasks(told)[0]) == (NONE, {"0": list(range(50))})
    assert house.describe().members[0].member_id == long
