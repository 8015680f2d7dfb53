"""Membership under the consumer protocol, step by step, and against a coordinator of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.consumer_membership import ConsumerMembership, ConsumerStep, FindTopics
from ottla.client.consumer.membership import Assign, Idle, Lose, Revoke, SendRequest
from ottla.client.errors import BrokerError, ConnectionFailed, NotSupported
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from tests.support.transitions import differences, explored

P0, P1, Q0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
T, U = b"t" * 16, b"u" * 16
NAMES = {T: "t", U: "u"}
IDS = {name: topic_id for topic_id, name in NAMES.items()}
Owned = ConsumerGroupHeartbeatRequest.TopicPartitions


def member(instance: str | None = None, **settings: Any) -> ConsumerMembership:
    made = ConsumerMembership(ConsumerSettings(group_id="g", group_instance_id=instance, **settings), "me")
    made.subscribe(["u", "t"])
    made.coordinator_lost = False
    return made


def answer(epoch: int = 1, *partitions: TopicPartition, code: int = 0, assigns: bool = True) -> ConsumerGroupHeartbeatResponse:
    by_topic: dict[str, list[int]] = {}
    for where in partitions:
        by_topic.setdefault(where.topic, []).append(where.partition)
    assignment = ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[Owned(topic_id=IDS[name], partitions=some) for name, some in by_topic.items()]
    )
    return ConsumerGroupHeartbeatResponse(
        error_code=code,
        member_id="me",
        member_epoch=epoch,
        heartbeat_interval_ms=5_000,
        assignment=assignment if assigns else None,
    )


def beat(made: ConsumerMembership, now_ms: int = 0) -> ConsumerGroupHeartbeatRequest:
    step = made.next(now_ms)
    assert isinstance(step, SendRequest), step
    assert isinstance(step.body, ConsumerGroupHeartbeatRequest)
    return step.body


def owned(body: ConsumerGroupHeartbeatRequest) -> list[TopicPartition] | None:
    if body.topic_partitions is None:
        return None
    return [TopicPartition(NAMES[topic.topic_id], part) for topic in body.topic_partitions for part in topic.partitions]


def stable(*partitions: TopicPartition, instance: str | None = None) -> ConsumerMembership:
    made = member(instance)
    beat(made)
    made.on_answer(answer(1, *partitions), 0)
    if partitions:
        assert isinstance(made.next(0), FindTopics)
        made.found_topics(NAMES, 0)
        assert made.next(0) == Assign(sorted(partitions))
        made.finish_assign(0)
        assert owned(beat(made)) == sorted(partitions)
        made.on_answer(answer(assigns=False), 0)
    assert made.next(0) == Idle(5_000)
    return made


def test_a_member_joins_with_everything_and_reports_only_changes_then() -> None:
    made = member(group_remote_assignor="range", max_poll_interval_ms=7)
    joining = beat(made)
    assert (joining.member_id, joining.member_epoch, joining.subscribed_topic_names) == ("me", 0, ["t", "u"])
    assert (joining.topic_partitions, joining.server_assignor, joining.rebalance_timeout_ms) == ([], "range", 7)
    made.on_answer(answer(3, P0), 0)
    assert made.next(0) == FindTopics([T])
    made.found_topics(NAMES, 0)
    assert made.next(0) == Assign([P0])
    made.finish_assign(0)
    report = beat(made)
    assert (report.member_epoch, owned(report)) == (3, [P0])
    assert (report.subscribed_topic_names, report.server_assignor, report.rebalance_timeout_ms) == (None, None, -1)
    made.on_answer(answer(3, assigns=False), 10)
    assert made.next(10) == Idle(5_010)
    quiet = beat(made, 5_010)
    assert (quiet.topic_partitions, quiet.subscribed_topic_names) == (None, None)
    made.on_answer(answer(3, assigns=False), 5_010)
    made.subscribe(["v"])
    assert beat(made, 5_011).subscribed_topic_names == ["v"]


def test_an_expression_is_reported_once_again_while_the_member_joins_and_taken_back_with_an_empty_one() -> None:
    made = member()
    made.subscribe([], "t.*")
    body = beat(made)
    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == ([], "t.*")
    made.broken(SendRequest(body, 1), ConnectionFailed("broke"), 0)
    made.coordinator_lost = False
    assert beat(made, 1_000).subscribed_topic_regex == "t.*"
    made.on_answer(answer(1, assigns=False), 1_000)
    assert isinstance(made.next(1_000), Idle)
    made.subscribe(["u"])
    body = beat(made, 1_000)
    assert (body.subscribed_topic_names, body.subscribed_topic_regex) == (["u"], "")
    made.on_answer(answer(1, assigns=False), 1_000)
    assert isinstance(made.next(1_000), Idle)
    made.on_answer(answer(code=codes.FENCED_MEMBER_EPOCH), 1_000)
    assert beat(made, 1_000).subscribed_topic_regex is None
    made.subscribe([], "(")
    with pytest.raises(BrokerError, match=r"Group g, SubscriptionPattern\('\('\): INVALID_REGULAR_EXPRESSION"):
        made.on_answer(answer(code=codes.INVALID_REGULAR_EXPRESSION), 1_000)


def test_partitions_of_others_are_revoked_before_new_ones_are_read_and_reported() -> None:
    made = stable(P0, P1)
    beat(made, 5_000)
    made.on_answer(answer(2, P1, Q0), 5_000)
    assert made.next(5_000) == FindTopics([U])
    made.found_topics(NAMES, 5_000)
    assert made.next(5_000) == Revoke([P0])
    made.finish_revoke([P0])
    assert made.next(5_000) == Assign([Q0])
    made.finish_assign(5_000)
    assert made.owned == [P1, Q0]
    assert owned(beat(made, 5_000)) == [P1, Q0]


def test_an_assignment_that_arrives_beside_another_step_is_carried_out_next() -> None:
    made = stable(P0, P1)
    beat(made, 5_000)
    made.on_answer(answer(2, P1), 5_000)
    assert made.next(5_000) == Revoke([P0])
    assert made.still_member((made.heartbeat(), answer(3))[1], 5_000)
    made.finish_revoke([P0])
    assert made.next(5_000) == Revoke([P1])


def test_topics_without_names_are_searched_again_and_keep_no_other_partition_waiting() -> None:
    made = member()
    beat(made)
    made.on_answer(answer(1, P0, Q0), 0)
    assert made.next(0) == FindTopics([T, U])
    made.found_topics({T: "t"}, 0)
    assert made.next(0) == Assign([P0])
    made.finish_assign(0)
    assert made.next(0) == Idle(100)
    assert made.next(100) == FindTopics([U])
    made.found_topics(NAMES, 100)
    assert made.next(100) == Assign([Q0])


def test_a_recreated_topic_is_reported_by_its_new_id() -> None:
    made = stable(P0)
    again = b"r" * 16
    beat(made, 5_000)
    response = answer(2)
    response.assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[Owned(topic_id=again, partitions=[0])])
    made.on_answer(response, 0)
    assert made.next(5_000) == FindTopics([again])
    made.found_topics({again: "t"}, 5_000)
    report = beat(made, 5_000)
    assert report.topic_partitions is not None
    assert [topic.topic_id for topic in report.topic_partitions] == [again]


@pytest.mark.parametrize("code", [codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH, codes.GROUP_ID_NOT_FOUND])
def test_a_fenced_member_loses_its_partitions_and_joins_anew(code: int) -> None:
    made = stable(P0)
    beat(made, 5_000)
    made.on_answer(answer(code=code), 5_000)
    assert not made.is_stable
    assert made.next(5_000) == Lose([P0])
    made.finish_revoke([P0])
    again = beat(made, 5_000)
    assert (again.member_epoch, again.topic_partitions, again.subscribed_topic_names) == (0, [], ["t", "u"])


def test_a_group_that_does_not_exist_is_an_error_of_a_member_that_joins() -> None:
    made = member()
    beat(made)
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        made.on_answer(answer(code=codes.GROUP_ID_NOT_FOUND), 0)


@pytest.mark.parametrize("code", [codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH])
def test_a_commit_that_was_fenced_makes_the_member_join_again_unless_it_has_joined_since(code: int) -> None:
    made = stable(P0)
    made.commit_refused(code, 0)
    made.commit_refused(codes.STALE_MEMBER_EPOCH, 1)
    assert made.is_stable
    made.commit_refused(code, 1)
    assert made.next(0) == Lose([P0])


def test_after_a_lost_answer_everything_is_reported_again() -> None:
    made = stable(P0)
    step = made.next(5_000)
    assert isinstance(step, SendRequest)
    made.broken(step, ConnectionFailed("broke"), 5_000)
    assert made.coordinator_lost
    assert made.next(5_000) == Idle(5_100)
    again = beat(made, 5_100)
    assert (again.member_epoch, owned(again), again.subscribed_topic_names) == (1, [P0], ["t", "u"])
    with pytest.raises(NotSupported):
        made.broken(step, NotSupported("no"), 0)


def test_a_coordinator_that_moved_or_loads_is_asked_again_after_a_pause() -> None:
    made = stable()
    for now_ms, code, lost in ((10_000, codes.COORDINATOR_LOAD_IN_PROGRESS, False), (20_000, codes.NOT_COORDINATOR, True)):
        beat(made, now_ms)
        made.on_answer(answer(code=code), now_ms)
        assert made.coordinator_lost == lost
        assert made.next(now_ms) == Idle(now_ms + 100)
        beat(made, now_ms + 100)
        made.on_answer(answer(assigns=False), now_ms + 100)


def test_a_refusal_for_good_is_raised() -> None:
    made = member()
    beat(made)
    with pytest.raises(BrokerError, match="UNSUPPORTED_ASSIGNOR"):
        made.on_answer(answer(code=codes.UNSUPPORTED_ASSIGNOR), 0)


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("static", -2)])
def test_leaving_is_a_heartbeat_of_its_own_epoch(instance: str | None, epoch: int) -> None:
    assert member(instance).leave() is None
    made = stable(P0, instance=instance)
    goodbye = made.leave()
    assert goodbye is not None
    assert isinstance(goodbye.body, ConsumerGroupHeartbeatRequest)
    assert (goodbye.body.member_epoch, goodbye.body.instance_id) == (epoch, instance)
    assert (made.owned, made.generation_id) == ([], -1)


ODDITIES = [
    codes.NONE,
    codes.UNKNOWN_MEMBER_ID,
    codes.FENCED_MEMBER_EPOCH,
    codes.NOT_COORDINATOR,
    codes.COORDINATOR_LOAD_IN_PROGRESS,
]
SHARES = st.none() | st.sets(st.sampled_from([P0, P1, Q0]))


@given(st.lists(st.tuples(st.sampled_from([None, *ODDITIES]), SHARES, st.booleans()), max_size=60))
def test_whatever_the_coordinator_answers_partitions_come_and_go_in_pairs(
    luck: list[tuple[int | None, set[TopicPartition] | None, bool]],
) -> None:
    """The driver has been told to read exactly what the machine owns, no step repeats for nothing, and reports are true."""
    made, held, now_ms = member(), set[TopicPartition](), 0
    for code, share, finds in luck:
        step: ConsumerStep = made.next(now_ms)
        now_ms += 1
        if isinstance(step, SendRequest):
            body = step.body
            assert isinstance(body, ConsumerGroupHeartbeatRequest)
            if (reported := owned(body)) is not None:
                assert set(reported) == held
            if code is None:
                made.broken(step, ConnectionFailed("broke"), now_ms)
            else:
                made.on_answer(answer(made.epoch + 1, *sorted(share or ()), code=code, assigns=share is not None), now_ms)
        elif isinstance(step, Idle):
            assert step.until_ms >= now_ms
            now_ms = step.until_ms
        elif isinstance(step, FindTopics):
            made.found_topics(NAMES if finds else {}, now_ms)
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


def carry_out(made: ConsumerMembership) -> None:
    if made.state == "RECONCILING":
        made.found_topics(NAMES, 0)
        step = made.next(0)
        while isinstance(step, Revoke | Assign):
            made.finish_revoke(step.partitions) if isinstance(step, Revoke) else made.finish_assign(0)
            step = made.next(0)


def reply(made: ConsumerMembership, response: ConsumerGroupHeartbeatResponse) -> None:
    """Answer the report that the machine sends now, as the coordinator of a member that reconciles does too."""
    if made.state == "RECONCILING":
        made.heartbeat()
    else:
        while isinstance(step := made.next(made._heartbeat_ms), Lose):
            made.finish_revoke(step.partitions)
    made.on_answer(response, 0)


def test_each_transition_is_a_row_of_the_table() -> None:
    def answered(*partitions: TopicPartition, code: int = 0, assigns: bool = True) -> Callable[[ConsumerMembership], None]:
        return lambda made: reply(made, answer(1, *partitions, code=code, assigns=assigns))

    events: dict[str, Callable[[ConsumerMembership], object]] = {
        "heartbeat answered": answered(assigns=False),
        "fenced": answered(code=codes.UNKNOWN_MEMBER_ID),
        "leave": ConsumerMembership.leave,
        "assignment carried out": carry_out,
    }
    found = set()
    for partitions in ([], [P0], [P1]):
        events["assignment received"] = answered(*partitions)
        for start in (member(), stable(P0)):
            found |= explored(start, events, lambda made: made.state, lambda made: (made.state, *made.owned, str(made._target)))
    assert differences("ottla.client.consumer.consumer_membership", found) == {}
