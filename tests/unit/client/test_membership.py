"""Membership against a coordinator of a few lines, and step by step against answers written out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.connection.versions import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from ottla.client.consumer.membership import Assign, Idle, Lead, Lose, Membership, Phase, Revoke, SendRequest, Step
from ottla.client.consumer.subscription_bytes import encode_assignment
from ottla.client.errors import BrokerError, ConnectionFailed, NotSupported
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.heartbeat import HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupResponse

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(*strategy: str, instance: str | None = None) -> Membership:
    settings = ConsumerSettings(group_id="g", partition_assignment_strategy=strategy or ("range",), group_instance_id=instance)
    made = Membership(settings, topics=["t"])
    made.coordinator_lost = False
    return made


def ask(made: Membership, api_key: int, now_ms: int = 0) -> SendRequest:
    step = made.next(now_ms)
    assert isinstance(step, SendRequest), step
    assert step.api_key == api_key
    return step


def joined(made: Membership, *, leader: str = "other", generation_id: int = 1, protocol: str = "range") -> None:
    reply = JoinGroupResponse(generation_id=generation_id, protocol_name=protocol, leader=leader, member_id="me", members=[])
    ask(made, JOIN_GROUP)
    made.on_answer(reply, 0)


def synced(made: Membership, *partitions: TopicPartition) -> None:
    ask(made, SYNC_GROUP)
    made.on_answer(SyncGroupResponse(assignment=encode_assignment(partitions)), 0)


def stable(*partitions: TopicPartition, strategy: str = "range") -> Membership:
    made = member(strategy)
    joined(made, protocol=strategy)
    synced(made, *partitions)
    assert made.next(0) == Assign(list(partitions))
    made.finish_assign(0)
    return made


def test_a_member_joins_syncs_takes_its_share_and_beats() -> None:
    made = stable(P0)
    assert made.owned == [P0]
    assert made.next(0) == Idle(3_000)
    beat = ask(made, HEARTBEAT, 3_000)
    assert (beat.body.member_id, beat.body.generation_id) == ("me", 1)  # type: ignore[attr-defined]  # a HeartbeatRequest
    made.on_answer(HeartbeatResponse(), 3_100)
    assert made.next(3_100) == Idle(6_100)


def test_a_member_id_is_asked_for_first_and_used_then() -> None:
    made = member()
    ask(made, JOIN_GROUP)
    made.on_answer(JoinGroupResponse(error_code=codes.MEMBER_ID_REQUIRED, member_id="given"), 0)
    assert ask(made, JOIN_GROUP).body.member_id == "given"  # type: ignore[attr-defined]  # a JoinGroupRequest


def test_the_leader_plans_for_all_topics_of_all_members() -> None:
    made = member()
    request = ask(made, JOIN_GROUP)
    metadata = request.body.protocols[0].metadata  # type: ignore[attr-defined]  # a JoinGroupRequest
    entry = JoinGroupResponse.JoinGroupResponseMember
    members = [entry(member_id="me", metadata=metadata), entry(member_id="you", metadata=metadata)]
    reply = JoinGroupResponse(generation_id=4, protocol_name="range", leader="me", member_id="me", members=members)
    made.on_answer(reply, 0)
    assert made.next(0) == Lead(["t"])
    made.share_out({"t": 2})
    shares = {one.member_id: one.assignment for one in ask(made, SYNC_GROUP).body.assignments}  # type: ignore[attr-defined]  # that of a JoinGroup
    assert shares == {"me": encode_assignment([P0]), "you": encode_assignment([P1])}


def test_an_eager_member_gives_everything_up_before_it_joins_again() -> None:
    made = stable(P0, P1)
    ask(made, HEARTBEAT, 3_000)
    made.on_answer(HeartbeatResponse(error_code=codes.REBALANCE_IN_PROGRESS), 3_000)
    assert made.next(3_000) == Revoke([P0, P1])
    made.finish_revoke([P0, P1])
    joined(made, generation_id=2)
    synced(made, P1)
    assert made.next(0) == Assign([P1])


def test_a_cooperative_member_keeps_what_it_has_and_joins_again_after_giving_some_up() -> None:
    made = stable(P0, P1, strategy="cooperative-sticky")
    ask(made, HEARTBEAT, 3_000)
    made.on_answer(HeartbeatResponse(error_code=codes.REBALANCE_IN_PROGRESS), 3_000)
    joined(made, generation_id=2, protocol="cooperative-sticky")
    synced(made, P1)
    assert made.next(0) == Revoke([P0])
    made.finish_revoke([P0])
    assert made.next(0) == Assign([])
    made.finish_assign(0)
    assert made.owned == [P1]
    ask(made, JOIN_GROUP)


@pytest.mark.parametrize("code", [codes.UNKNOWN_MEMBER_ID, codes.ILLEGAL_GENERATION])
def test_a_member_the_group_went_on_without_loses_its_partitions_and_joins_anew(code: int) -> None:
    made = stable(P0)
    ask(made, HEARTBEAT, 3_000)
    made.on_answer(HeartbeatResponse(error_code=code), 3_000)
    assert made.next(3_000) == Lose([P0])
    made.finish_revoke([P0])
    request = ask(made, JOIN_GROUP, 3_000)
    assert request.body.member_id == ("" if code == codes.UNKNOWN_MEMBER_ID else "me")  # type: ignore[attr-defined]  # that of a JoinGroup


def test_a_member_that_missed_a_generation_loses_what_others_may_have_had_in_it() -> None:
    """It may have been somebody else's, who committed; a static member is kept in the group all the same."""
    made = stable(P0, strategy="cooperative-sticky")
    made.rejoin()
    joined(made, generation_id=3, protocol="cooperative-sticky")
    assert made.next(0) == Lose([P0])
    made.finish_revoke([P0])
    synced(made, P0, P1)
    assert made.next(0) == Assign([P0, P1])


@pytest.mark.parametrize(("leader", "generation_id"), [("other", 2), ("", 9)], ids=["the-next", "no-leader"])
def test_a_member_keeps_what_nobody_else_can_have_had(leader: str, generation_id: int) -> None:
    """Without a leader the coordinator assigns (KIP-848), and gives nothing away that was not given back."""
    made = stable(P0, strategy="cooperative-sticky")
    made.rejoin()
    joined(made, leader=leader, generation_id=generation_id, protocol="cooperative-sticky")
    synced(made, P0)
    assert made.next(0) == Assign([])


@pytest.mark.parametrize("code", [codes.UNKNOWN_MEMBER_ID, codes.ILLEGAL_GENERATION])
def test_a_commit_that_was_refused_tells_that_the_group_went_on(code: int) -> None:
    made = stable(P0, strategy="cooperative-sticky")
    made.commit_refused(code, generation_id=0)
    assert made.next(0) == Idle(3_000)
    made.commit_refused(codes.REBALANCE_IN_PROGRESS, generation_id=1)
    assert made.next(0) == Idle(3_000)
    made.commit_refused(code, generation_id=1)
    assert made.next(0) == Lose([P0])
    made.finish_revoke([P0])
    assert ask(made, JOIN_GROUP).body.member_id == ("me" if code == codes.ILLEGAL_GENERATION else "")  # type: ignore[attr-defined]  # a JoinGroupRequest


def test_a_coordinator_that_moved_is_looked_for_and_the_member_stays() -> None:
    made = stable(P0)
    ask(made, HEARTBEAT, 3_000)
    made.on_answer(HeartbeatResponse(error_code=codes.NOT_COORDINATOR), 3_000)
    assert made.coordinator_lost
    assert made.next(3_000) == Idle(3_100)
    ask(made, HEARTBEAT, 3_100)
    assert made.owned == [P0]


def test_a_coordinator_that_still_loads_is_waited_for() -> None:
    made = member()
    ask(made, JOIN_GROUP)
    made.on_answer(JoinGroupResponse(error_code=codes.COORDINATOR_LOAD_IN_PROGRESS), 500)
    assert made.next(500) == Idle(600)
    assert not made.coordinator_lost


def test_a_broken_connection_while_joining_means_joining_again() -> None:
    made = member()
    joined(made)
    made.broken(ask(made, SYNC_GROUP), ConnectionFailed("broke"), 100)
    assert made.coordinator_lost
    ask(made, JOIN_GROUP, 200)


def test_a_step_that_could_not_be_taken_means_giving_up_and_joining_again_after_a_pause() -> None:
    made = stable(P0)
    made.begin_anew(5_000)
    assert made.next(5_000) == Lose([P0])
    made.finish_revoke([P0])
    assert made.next(5_000) == Idle(5_100)
    assert ask(made, JOIN_GROUP, 5_100).body.member_id == "me"  # type: ignore[attr-defined]  # a JoinGroupRequest


def test_what_cannot_be_mended_is_raised() -> None:
    made = member()
    ask(made, JOIN_GROUP)
    with pytest.raises(BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
        made.on_answer(JoinGroupResponse(error_code=codes.INCONSISTENT_GROUP_PROTOCOL), 0)
    with pytest.raises(NotSupported):
        made.broken(ask(made, JOIN_GROUP), NotSupported("old"), 0)


def test_another_subscription_makes_a_stable_member_join_again() -> None:
    made = stable(P0)
    made.subscribe(["u", "t"])
    made.finish_revoke([P0])
    assert b"u" in ask(made, JOIN_GROUP).body.protocols[0].metadata  # type: ignore[attr-defined]  # that of a JoinGroup
    assert made.phase is Phase.OUT


def test_leaving_tells_the_group_unless_the_member_is_static_or_unknown() -> None:
    goodbye = stable(P0).leave()
    assert goodbye is not None
    assert goodbye.api_key == LEAVE_GROUP
    assert member().leave() is None
    static = member(instance="lasting")
    joined(static)
    assert static.leave() is None


ANSWERS = {JOIN_GROUP: JoinGroupResponse, SYNC_GROUP: SyncGroupResponse, HEARTBEAT: HeartbeatResponse}
ODDITIES = [
    codes.NONE,
    codes.REBALANCE_IN_PROGRESS,
    codes.UNKNOWN_MEMBER_ID,
    codes.ILLEGAL_GENERATION,
    codes.NOT_COORDINATOR,
    codes.COORDINATOR_LOAD_IN_PROGRESS,
]


def reply(step: SendRequest, code: int, share: list[TopicPartition]) -> Any:
    if code or step.api_key == HEARTBEAT:
        return ANSWERS[step.api_key](error_code=code)
    if step.api_key == JOIN_GROUP:
        return JoinGroupResponse(generation_id=1, protocol_name="cooperative-sticky", leader="other", member_id="me")
    return SyncGroupResponse(assignment=encode_assignment(share))


@given(
    st.lists(st.tuples(st.sampled_from([None, *ODDITIES]), st.sets(st.sampled_from([P0, P1]))), max_size=60),
    st.sampled_from(["range", "cooperative-sticky"]),
)
def test_whatever_the_coordinator_says_partitions_come_and_go_in_pairs(
    luck: list[tuple[int | None, set[TopicPartition]]], strategy: str
) -> None:
    """What a driver was told to adopt and not told to give up is always what the machine owns; no step is repeated for nothing."""
    made, held, now_ms = member(strategy), set[TopicPartition](), 0
    for code, share in luck:
        step: Step = made.next(now_ms)
        now_ms += 1
        if isinstance(step, SendRequest) and code is None:
            made.broken(step, ConnectionFailed("broke"), now_ms)
        elif isinstance(step, SendRequest):
            made.on_answer(reply(step, code or 0, sorted(share)), now_ms)
        elif isinstance(step, Idle):
            assert step.until_ms >= now_ms
            now_ms = step.until_ms
        elif isinstance(step, Assign):
            assert not held & set(step.partitions)
            held |= set(step.partitions)
            made.finish_assign(now_ms)
        else:
            assert isinstance(step, Revoke | Lose)
            assert held >= set(step.partitions) != set()
            held -= set(step.partitions)
            made.finish_revoke(step.partitions)
        assert held == set(made.owned)
