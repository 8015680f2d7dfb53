"""The membership of a share consumer, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.consumer.consumer_membership import FindTopics
from ottla.client.consumer.membership import Assign, Idle, SendRequest
from ottla.client.errors import BrokerError, ConnectionFailed, KafkaError, NotSupported
from ottla.client.settings.clients import ShareConsumerSettings, parse
from ottla.client.share.share_membership import ShareMembership
from ottla.client.types import TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

T, U = b"t" * 16, b"u" * 16
INTERVAL_MS = 5_000


def member(**settings: Any) -> ShareMembership:
    made = ShareMembership(parse(ShareConsumerSettings, {"group_id": "g", **settings}), "me")
    made.subscribe(["u", "t"])
    made.coordinator_lost = False
    return made


def answer(epoch: int = 1, code: int = 0, **assigned: list[int]) -> ShareGroupHeartbeatResponse:
    part = ConsumerGroupHeartbeatRequest.TopicPartitions
    parts = [part(topic_id=name.encode() * 16, partitions=some) for name, some in assigned.items()]
    assignment = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=parts) if assigned else None
    return ShareGroupHeartbeatResponse(
        error_code=code, member_id="me", member_epoch=epoch, heartbeat_interval_ms=INTERVAL_MS, assignment=assignment
    )


def beat(made: ShareMembership, now_ms: int = 0) -> ShareGroupHeartbeatRequest:
    step = made.next(now_ms)
    assert isinstance(step, SendRequest), step
    assert isinstance(step.body, ShareGroupHeartbeatRequest)
    return step.body


def joined(**settings: Any) -> ShareMembership:
    """Return a member that reads t-0 since time 0."""
    made = member(**settings)
    beat(made)
    made.on_answer(answer(1, t=[0]), 0)
    assert made.next(0) == FindTopics([T])
    made.found_topics({T: "t"}, 0)
    assert made.next(0) == Assign([TopicPartition("t", 0)])
    made.finish_assign()
    return made


def test_a_member_joins_with_its_topics_and_then_only_stays_alive() -> None:
    made = joined(client_rack="a")
    assert made.next(0) == Idle(INTERVAL_MS)
    body = beat(made, INTERVAL_MS)
    assert (body.member_epoch, body.rack_id, body.subscribed_topic_names) == (1, None, None)
    fresh = beat(member(client_rack="a"))
    assert (fresh.member_epoch, fresh.rack_id, fresh.subscribed_topic_names) == (0, "a", ["t", "u"])


def test_a_member_without_partitions_sends_its_next_heartbeats_soon() -> None:
    made = member()
    beat(made)
    times, now_ms = [], 0
    for _ in range(9):
        made.on_answer(answer(1), now_ms)
        step = made.next(now_ms)
        assert isinstance(step, Idle)
        times.append(step.until_ms - now_ms)
        now_ms = step.until_ms
        beat(made, now_ms)
    assert times == [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]


def test_another_subscription_is_reported_at_once() -> None:
    made = joined()
    made.subscribe(["t"])
    assert beat(made, 1).subscribed_topic_names == ["t"]
    made.on_answer(answer(2), 1)
    assert made.next(1) == Idle(1 + INTERVAL_MS)


def test_a_topic_without_a_name_yet_is_searched_again() -> None:
    made = joined()
    beat(made, INTERVAL_MS)
    made.on_answer(answer(2, t=[0, 1], u=[0]), INTERVAL_MS)
    assert made.next(INTERVAL_MS) == FindTopics([U])
    made.found_topics({}, INTERVAL_MS)
    assert made.next(INTERVAL_MS) == Assign([TopicPartition("t", 0), TopicPartition("t", 1)])
    made.finish_assign()
    assert made.next(INTERVAL_MS) == Idle(INTERVAL_MS + 100)
    made.found_topics({U: "u"}, INTERVAL_MS)
    assert made.next(INTERVAL_MS) == Assign([TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)])


def test_a_topic_that_was_created_again_under_its_name_is_assigned_anew() -> None:
    made = joined()
    assert made.topic_ids == {"t": T}
    beat(made, INTERVAL_MS)
    made.on_answer(answer(2, u=[0]), INTERVAL_MS)
    assert made.next(INTERVAL_MS) == FindTopics([U])
    made.found_topics({U: "t"}, INTERVAL_MS)
    assert made.next(INTERVAL_MS) == Assign([TopicPartition("t", 0)])
    made.finish_assign()
    assert made.topic_ids == {"t": U}
    made.leave()
    assert made.topic_ids == {}


@pytest.mark.parametrize("code", [codes.UNKNOWN_MEMBER_ID, codes.FENCED_MEMBER_EPOCH, codes.GROUP_ID_NOT_FOUND])
def test_a_fenced_member_joins_again_and_reads_on(code: int) -> None:
    made = joined()
    beat(made, INTERVAL_MS)
    made.on_answer(answer(0, code), INTERVAL_MS)
    assert made.assigned == [TopicPartition("t", 0)]
    assert beat(made, INTERVAL_MS).member_epoch == 0
    made.on_answer(answer(7, t=[0]), INTERVAL_MS)
    assert made.next(INTERVAL_MS) == Idle(2 * INTERVAL_MS)


@pytest.mark.parametrize("code", [codes.GROUP_ID_NOT_FOUND, codes.GROUP_AUTHORIZATION_FAILED, codes.GROUP_MAX_SIZE_REACHED])
def test_a_member_that_is_refused_while_it_joins_ends(code: int) -> None:
    made = member()
    beat(made)
    with pytest.raises(BrokerError, match="Group g: "):
        made.on_answer(answer(0, code), 0)


def test_a_cluster_without_share_groups_is_named() -> None:
    made = member()
    beat(made)
    with pytest.raises(NotSupported, match=r"share\.version"):
        made.on_answer(answer(0, codes.UNSUPPORTED_VERSION), 0)


@pytest.mark.parametrize(("code", "lost"), [(codes.NOT_COORDINATOR, True), (codes.COORDINATOR_LOAD_IN_PROGRESS, False)])
def test_a_coordinator_that_moves_or_loads_is_tried_again_with_everything(code: int, lost: bool) -> None:
    made = joined()
    beat(made, INTERVAL_MS)
    made.on_answer(answer(0, code), INTERVAL_MS)
    assert made.coordinator_lost == lost
    assert made.next(INTERVAL_MS) == Idle(INTERVAL_MS + 100)
    body = beat(made, INTERVAL_MS + 100)
    assert (body.member_epoch, body.subscribed_topic_names) == (1, ["t", "u"])


def test_a_lost_answer_is_repeated_and_another_error_ends() -> None:
    made = joined()
    beat(made, INTERVAL_MS)
    made.broken(ConnectionFailed("gone"), INTERVAL_MS)
    assert made.coordinator_lost
    assert made.next(INTERVAL_MS) == Idle(INTERVAL_MS + 100)
    with pytest.raises(KafkaError, match="no"):
        made.broken(KafkaError("no"), 0)


def test_a_member_leaves_while_it_joins_because_the_group_perhaps_has_it_already() -> None:
    made = member()
    beat(made)
    step = made.leave()
    assert step is not None
    assert isinstance(step.body, ShareGroupHeartbeatRequest)
    assert (step.body.member_id, step.body.member_epoch) == ("me", -1)
    assert made.leave() is None
    made = member()
    beat(made)
    made.on_answer(answer(code=codes.COORDINATOR_LOAD_IN_PROGRESS), 0)
    assert made.leave() is None, "it was refused"
    made = member()
    made.coordinator_lost = True
    beat(made)
    assert made.leave() is None, "nobody has got its heartbeat"


def test_leaving_needs_a_membership() -> None:
    assert member().leave() is None
    made = joined()
    step = made.leave()
    assert step is not None
    assert isinstance(step.body, ShareGroupHeartbeatRequest)
    assert (step.body.member_epoch, made.assigned, made.epoch) == (-1, [], 0)
    made.begin_anew(5)
    assert made.next(5) == Idle(105)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "A share consumer belongs to a group: give it a group_id"),
        ({"group_id": ""}, "group_id is empty"),
        ({"group_id": "g", "share_acknowledgement_mode": "manual"}, "one of implicit, explicit"),
        ({"group_id": "g", "share_acquire_mode": "strict"}, "one of batch_optimized, record_limit"),
        ({"group_id": "g", "auto_offset_reset": "earliest"}, "ShareConsumer has no setting auto_offset_reset"),
        ({"group_id": "g", "on_bad_record": "dead"}, "must be raise or skip"),
        ({"group_id": "g", "api_version": "4.0"}, "Share groups need Kafka 4.1"),
        ({"group_id": "g", "fetch_max_wait_ms": 60_000}, "each fetch would time out"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(KafkaError, match=sentence):
        parse(ShareConsumerSettings, settings)


def test_a_short_request_timeout_shortens_the_wait_of_fetches() -> None:
    made = parse(ShareConsumerSettings, {"group_id": "g", "request_timeout_ms": 300})
    assert made.fetch_max_wait_ms == 150
