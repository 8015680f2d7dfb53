"""Single rules of groups and offsets that no play tells."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coord.classic import rebalance
from ottla.coord.classic.draft import ClassicDraft
from ottla.coord.classic.states import HEARTBEAT, NEXT, REJOIN, SYNC_GROUP, Cause, State
from ottla.coord.classic.subscription import subscribed_topics
from ottla.coord.outcome import JoinKey, SessionKey, SyncGroupKey
from ottla.coord.refusal import refuse
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire import encode
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_delete import OffsetDeleteRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.sync_group import SyncGroupRequest
from ottla.wire.data.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.errors import INVALID_GROUP_ID, NOT_COORDINATOR
from tests.scenarios.stage import Stage

LIVING = (State.EMPTY, State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE)


def test_every_state_has_an_answer_to_every_request() -> None:
    assert set(HEARTBEAT) == set(REJOIN) == set(LIVING)
    assert set(SYNC_GROUP) == set(LIVING) - {State.EMPTY}


def test_every_state_can_be_reached_and_left() -> None:
    assert set(NEXT.values()) == {before for before, _ in NEXT} == set(LIVING)
    assert {cause for _, cause in NEXT} == set(Cause)


def test_deadlines_of_different_kinds_are_never_the_same() -> None:
    assert len({JoinKey("g"), SyncGroupKey("g"), SessionKey("g", "")}) == 3


@pytest.mark.parametrize("version", range(4))
def test_topics_are_read_from_a_subscription_of_any_version(version: int) -> None:
    subscription = bytes((0, version)) + encode(ConsumerProtocolSubscription(topics=["a", "ü"], user_data=b"x"), version)
    assert subscribed_topics([subscription, b"\0\x09\0\0\0\x01\0\x01bwhatever a later version adds"]) == frozenset(("a", "ü", "b"))


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\0\0",
        b"\xff\xff\0\0\0\0",
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\x01",
        b"\0\0\0\0\0\x01\0\x05ab",
        b"\0\0\0\0\0\x01\0\x01\xff",
    ],
)
def test_topics_of_a_subscription_that_cannot_be_read_are_unknown(damaged: bytes) -> None:
    assert subscribed_topics([b"\0\0\0\0\0\0", damaged]) is None


REQUESTS: tuple[Any, ...] = (
    JoinGroupRequest(),
    SyncGroupRequest(),
    HeartbeatRequest(),
    LeaveGroupRequest(),
    OffsetDeleteRequest(),
    ListGroupsRequest(),
    OffsetFetchRequest.OffsetFetchRequestGroup(),
)


@pytest.mark.parametrize("body", REQUESTS, ids=lambda body: type(body).__name__)
def test_a_refusal_says_why(body: Any) -> None:
    refusal: Any = refuse(body, NOT_COORDINATOR)
    assert refusal.error_code == NOT_COORDINATOR


def test_a_refusal_of_many_says_why_for_each() -> None:
    described: Any = refuse(DescribeGroupsRequest(groups=["a", "b"]), NOT_COORDINATOR)
    assert [(group.group_id, group.error_code) for group in described.groups] == [("a", NOT_COORDINATOR), ("b", NOT_COORDINATOR)]
    deleted: Any = refuse(DeleteGroupsRequest(groups_names=["a"]), NOT_COORDINATOR)
    assert [(result.group_id, result.error_code) for result in deleted.results] == [("a", NOT_COORDINATOR)]
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=3)
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])]
    refusal: Any = refuse(OffsetCommitRequest(topics=topics), NOT_COORDINATOR)
    assert [(p.partition_index, p.error_code) for p in refusal.topics[0].partitions] == [(3, NOT_COORDINATOR)]


@pytest.mark.parametrize("body", [*REQUESTS[:5]], ids=lambda body: type(body).__name__)
def test_a_group_needs_a_name(body: Any) -> None:
    stage = Stage()
    assert stage.heard[stage.ask(body, 4, "client")].error_code == INVALID_GROUP_ID


def test_a_decision_that_changes_nothing_copies_nothing() -> None:
    stage = Stage()
    stage.ask(
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range")],
        ),
        3,
        "client",
    )
    group = stage.machine.classic.groups["g"]
    draft = ClassicDraft(group, "g", GroupSettings(), Now(0, 0))
    rebalance.sync_timed_out(draft)
    assert draft.group is group
