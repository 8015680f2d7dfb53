"""Share groups at their coordinator: members, epochs, assignments, and the partitions whose state is initialized."""

from __future__ import annotations

import pytest

from ottla.coord.outcome import TopicsChanged
from ottla.coord.share.events import DeleteShares, InitializeShares, SharesInitialized, StatePlace
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.errors import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST,
    NONE,
    UNKNOWN_MEMBER_ID,
)
from tests.support.share_stage import ShareStage, held, topic_id

T = topic_id("t")


@pytest.fixture
def stage() -> ShareStage:
    stage = ShareStage()
    stage.create(t=3)
    return stage


def test_a_member_joins_and_gets_partitions_once_their_state_is_initialized(stage: ShareStage) -> None:
    joined = stage.heartbeat("m", 0, ["t"])
    assert (joined.member_epoch, joined.heartbeat_interval_ms, held(joined)) == (2, 5_000, [])
    assert stage.orders == [InitializeShares("g", 2, tuple(StatePlace(T, at) for at in range(3)))]
    assert held(stage.heartbeat("m", 2)) is None
    stage.persist()
    given = stage.heartbeat("m", 2)
    assert (given.member_epoch, held(given)) == (3, [[0, 1, 2]])
    assert held(stage.heartbeat("m", 3)) is None


def test_several_members_share_partitions(stage: ShareStage) -> None:
    stage.join("a", "b", "c", "d")
    assert sorted(len(stage.assigned(member)["t"]) for member in "abcd") == [1, 1, 2, 2]


def test_a_request_with_the_subscription_is_answered_with_the_assignment(stage: ShareStage) -> None:
    stage.join("m")
    epoch = stage.group.members["m"].epoch
    assert held(stage.heartbeat("m", epoch, ["t"])) == [[0, 1, 2]]
    assert held(stage.heartbeat("m", 0, ["t"])) == [[0, 1, 2]]


def test_a_request_that_is_sent_again_as_its_response_was_lost_is_answered_with_the_assignment(stage: ShareStage) -> None:
    stage.heartbeat("m", 0, ["t"])
    stage.persist()
    lost = stage.heartbeat("m", 2)
    assert held(lost) == [[0, 1, 2]]
    again = stage.heartbeat("m", 2)
    assert (again.member_epoch, held(again)) == (lost.member_epoch, held(lost))
    assert held(stage.heartbeat("m", again.member_epoch)) is None


def test_epochs_never_go_back_and_wrong_ones_are_fenced(stage: ShareStage) -> None:
    stage.join("m")
    epoch = stage.group.members["m"].epoch
    previous = stage.group.members["m"].previous_epoch
    assert stage.code("m", epoch + 1) == FENCED_MEMBER_EPOCH
    assert stage.code("m", previous) == NONE, "the last reply may be lost"
    assert stage.code("m", previous - 1) == FENCED_MEMBER_EPOCH
    assert stage.code("m", 0, ["t"]) == NONE, "a member may join again"
    assert stage.group.members["m"].epoch == epoch


def test_who_is_unknown_is_told_so(stage: ShareStage) -> None:
    assert stage.code("m", 1) == GROUP_ID_NOT_FOUND
    assert stage.code("m", -1) == GROUP_ID_NOT_FOUND
    stage.join("m")
    assert stage.code("n", 1) == UNKNOWN_MEMBER_ID
    assert stage.code("n", -1) == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "epoch", "names", "group"),
    [("", 0, ["t"], "g"), (" ", 0, ["t"], "g"), ("m", 0, ["t"], ""), ("m", 0, None, "g"), ("m", 0, [], "g"), ("m", -2, ["t"], "g")],
)
def test_invalid_requests_change_nothing(
    stage: ShareStage, member_id: str, epoch: int, names: list[str] | None, group: str
) -> None:
    assert stage.code(member_id, epoch, names, group) == INVALID_REQUEST
    assert not stage.machine.shares.groups


def test_an_empty_rack_is_invalid_and_a_rack_is_kept(stage: ShareStage) -> None:
    assert stage.heartbeat("m", 0, ["t"], rack="").error_code == INVALID_REQUEST
    assert stage.heartbeat("m", 0, ["t"], rack="r").error_code == NONE
    stage.heartbeat("m", 2)
    assert stage.group.members["m"].rack_id == "r"


def test_a_full_group_takes_nobody_but_keeps_its_members() -> None:
    stage = ShareStage(group_share_max_size=2)
    stage.create(t=1)
    stage.join("a", "b")
    assert stage.code("c", 0, ["t"]) == GROUP_MAX_SIZE_REACHED
    assert stage.code("c", 5) == GROUP_MAX_SIZE_REACHED, "as Kafka, before the member is looked for"
    assert stage.code("a", 0, ["t"]) == NONE
    assert stage.code("c", -1) == UNKNOWN_MEMBER_ID


def test_members_beyond_the_memory_limit_are_refused() -> None:
    stage = ShareStage(ottla_max_group_bytes=10_000)
    stage.create(t=1)
    stage.join("a", "b")
    assert stage.code("c", 0, ["t"]) == GROUP_MAX_SIZE_REACHED
    assert stage.code("b", -1) == NONE
    assert stage.code("c", 0, ["t"]) == NONE


def test_a_member_that_is_silent_is_removed_and_its_partitions_go_to_others(stage: ShareStage) -> None:
    stage.join("a", "b")
    stage.wait(30_000)
    stage.beat("a")
    stage.wait(20_000)
    assert list(stage.group.members) == ["a"]
    stage.beat("a")
    assert stage.assigned("a") == {"t": [0, 1, 2]}


def test_a_member_leaves_and_the_last_one_leaves_an_empty_group(stage: ShareStage) -> None:
    stage.join("a", "b")
    epoch = stage.group.epoch
    left = stage.heartbeat("a", -1)
    assert (left.member_id, left.member_epoch) == ("a", -1)
    stage.heartbeat("b", -1)
    assert stage.group.epoch == epoch + 2
    (listed,) = stage.request(ListGroupsRequest(types_filter=["Share"], states_filter=["Empty"]), 5).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == ("g", "share", "Empty", "share")
    stage.wait(10_000_000_000)
    assert list(stage.machine.shares.groups) == ["g"], "a share group never expires"


def test_a_changed_subscription_takes_partitions_away_at_once_and_brings_new_ones_once_they_are_initialized(
    stage: ShareStage,
) -> None:
    stage.create(u=2)
    stage.join("m")
    changed = stage.heartbeat("m", stage.group.members["m"].epoch, ["u"])
    assert held(changed) == []
    (order,) = stage.persist()
    assert order.places == (StatePlace(topic_id("u"), 0), StatePlace(topic_id("u"), 1))
    stage.beat("m")
    assert stage.assigned("m") == {"u": [0, 1]}


def test_partitions_that_are_added_are_initialized_and_assigned(stage: ShareStage) -> None:
    stage.join("m")
    stage.create(t=5)
    stage.beat("m")
    (order,) = stage.persist()
    assert order.places == (StatePlace(T, 3), StatePlace(T, 4))
    stage.beat("m")
    assert stage.assigned("m") == {"t": [0, 1, 2, 3, 4]}


def test_a_topic_that_is_created_later_is_initialized_and_assigned(stage: ShareStage) -> None:
    stage.join("m", names=["t", "later"])
    stage.create(later=1)
    stage.beat("m")
    stage.persist()
    stage.beat("m")
    assert stage.assigned("m") == {"t": [0, 1, 2], "later": [0]}


def test_an_initialization_that_failed_is_repeated_by_the_next_heartbeat(stage: ShareStage) -> None:
    stage.heartbeat("m", 0, ["t"])
    stage.persist(COORDINATOR_NOT_AVAILABLE)
    assert not stage.group.initializing
    stage.heartbeat("m", 2)
    assert len(stage.orders) == 1
    stage.persist()
    stage.beat("m")
    assert stage.assigned("m") == {"t": [0, 1, 2]}


def test_some_partitions_that_are_initialized_are_assigned_although_others_failed(stage: ShareStage) -> None:
    stage.heartbeat("m", 0, ["t"])
    (order,) = stage.orders
    stage.orders = []
    stage.tell(SharesInitialized("g", order.places, (NONE, COORDINATOR_NOT_AVAILABLE, NONE)))
    given = stage.heartbeat("m", 2)
    assert held(given) == [[0, 2]]
    assert stage.orders == [InitializeShares("g", given.member_epoch, (StatePlace(T, 1),))]


def test_an_initialization_without_a_result_is_repeated_after_an_interval(stage: ShareStage) -> None:
    stage.heartbeat("m", 0, ["t"])
    stage.orders.clear()
    stage.wait(29_000)
    stage.beat("m")
    assert not stage.orders
    stage.wait(1_000)
    stage.heartbeat("m", 2)
    assert len(stage.orders) == 1


def test_an_initialization_under_way_at_a_restart_is_repeated_after_an_interval(stage: ShareStage) -> None:
    stage.heartbeat("m", 0, ["t"])
    stage.restart()
    stage.heartbeat("m", 2)
    assert not stage.orders, "the former coordinator's initialization may still come"
    stage.wait(30_000)
    stage.heartbeat("m", 2)
    assert len(stage.orders) == 1


def test_a_restart_keeps_members_epochs_assignments_and_initialized_partitions(stage: ShareStage) -> None:
    stage.join("a", "b")
    before = stage.group.members
    epoch = stage.group.epoch
    stage.restart()
    assert (stage.group.members, stage.group.epoch) == (before, epoch)
    stage.beat("a", "b")
    assert (stage.group.epoch, stage.orders) == (epoch, [])
    stage.wait(46_000)
    assert not stage.group.members, "the sessions of members end after a restart, too"


def test_a_deleted_topic_leaves_the_group_and_a_new_one_of_the_same_name_is_another(stage: ShareStage) -> None:
    stage.join("m")
    stage.delete("t")
    assert not stage.group.initialized
    stage.beat("m")
    assert stage.assigned("m") == {}
    stage.create(t=1)
    stage.beat("m")
    (order,) = stage.persist()
    assert order.places == (StatePlace(topic_id("t", 2), 0),)
    stage.beat("m")
    assert stage.assigned("m") == {"t": [0]}


def test_the_state_of_a_topic_that_was_deleted_meanwhile_is_deleted(stage: ShareStage) -> None:
    stage.heartbeat("m", 0, ["t"])
    (order,) = stage.orders
    stage.delete("t")
    stage.orders = []
    stage.tell(SharesInitialized("g", order.places, [NONE] * 3))
    assert stage.orders == [DeleteShares("g", order.places)]
    assert not stage.group.initialized


def test_assignments_wait_for_their_interval() -> None:
    stage = ShareStage(group_share_assignment_interval_ms=1_000)
    stage.create(t=3)
    stage.heartbeat("m", 0, ["t"])
    stage.persist()
    assert stage.heartbeat("m", 2).member_epoch == 2
    assert stage.group.epoch == 3
    assert stage.heartbeat("m", 2).member_epoch == 2
    assert stage.group.epoch == 3, "the epoch is raised once"
    stage.wait(1_000)
    assert held(stage.heartbeat("m", 2)) == [[0, 1, 2]]


def test_a_large_assignment_is_computed_in_steps_while_members_keep_theirs() -> None:
    stage = ShareStage(group_share_max_size=1_000)
    stage.create(t=900)
    for at in range(100):
        stage.heartbeat(f"m{at}", 0, ["t"])
    stage.persist()
    assert stage.heartbeat("m0", stage.group.members["m0"].epoch).error_code == NONE
    assert stage.group.assigning is not None
    stage.wait(1_000)
    assert stage.group.assigning is None
    stage.beat(*stage.group.members)
    assert {len(member.assigned[T]) for member in stage.group.members.values()} == {9}


def test_a_heartbeat_initializes_a_bounded_number_of_partitions_and_the_next_one_goes_on() -> None:
    stage = ShareStage()
    stage.create(t=5_000)
    stage.heartbeat("m", 0, ["t"])
    assert len(stage.orders[0].places) == 2_000
    for _ in range(2):
        stage.heartbeat("m", stage.group.members["m"].epoch)
    assert sum(len(order.places) for order in stage.orders) == 5_000
    stage.persist()
    stage.heartbeat("m", stage.group.members["m"].epoch)
    stage.wait(1_000)
    stage.beat("m")
    assert len(stage.group.members["m"].assigned[T]) == 5_000


def test_a_description_has_epochs_and_members(stage: ShareStage) -> None:
    stage.join("m", names=["t", "nowhere"])
    (group,) = stage.request(ShareGroupDescribeRequest(group_ids=["g"])).groups
    epoch = stage.group.epoch
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == ("Stable", epoch, epoch, "simple")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host, member.member_epoch) == ("m", "client", "/127.0.0.1", epoch)
    assert member.subscribed_topic_names == ["nowhere", "t"]
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == ("t", [0, 1, 2])


def test_topics_without_subscribers_change_no_epoch(stage: ShareStage) -> None:
    stage.join("m")
    epoch = stage.group.epoch
    stage.create(other=1)
    stage.tell(TopicsChanged(stage.topics, frozenset(("other",)), new=False))
    stage.beat("m")
    assert stage.group.epoch == epoch
