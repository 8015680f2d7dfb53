"""Share sessions with leaders, step by step: epochs, acknowledgements, moves of leaders, and sessions that are lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.client.connection.metadata import Metadata
from ottla.client.consumer.fetch_requests import FetchLimits
from ottla.client.errors import ConnectionFailed, KafkaError
from ottla.client.share.acknowledgements import AcknowledgementRun, AcknowledgeType
from ottla.client.share.deliveries import ShareDelivery, Source
from ottla.client.share.share_fetcher import FetchMode, PlannedShareRequest, ShareFetcher
from ottla.client.types import TopicPartition
from ottla.records.batches.columns import build
from ottla.wire import errors as codes
from ottla.wire.api.metadata import MetadataResponse
from ottla.wire.api.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ottla.wire.api.share_fetch import ShareFetchRequest, ShareFetchResponse

T = b"t" * 16
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOCK_MS = 30_000
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW


def metadata(*leaders: int, topic_id: bytes = T) -> Metadata:
    partition, node = MetadataResponse.MetadataResponsePartition, MetadataResponse.MetadataResponseBroker
    parts = [partition(partition_index=index, leader_id=leader, leader_epoch=1) for index, leader in enumerate(leaders)]
    made = Metadata()
    topics = [MetadataResponse.MetadataResponseTopic(name="t", topic_id=topic_id, partitions=parts)]
    made.update(MetadataResponse(brokers=[node(node_id=each, host="h", port=each) for each in (1, 2)], topics=topics))
    return made


def fetcher(*leaders: int, record_limit: bool = False) -> ShareFetcher:
    made = ShareFetcher(metadata(*leaders), FetchLimits(fetch_max_wait_ms=500), FetchMode(500, record_limit), "g", "me")
    made.assign([P0, P1][: len(leaders)], {"t": T})
    made.wants_records = True
    return made


def only(planned: Sequence[PlannedShareRequest]) -> PlannedShareRequest:
    (one,) = planned
    return one


def body_of(planned: PlannedShareRequest) -> ShareFetchRequest:
    assert isinstance(planned.body, ShareFetchRequest)
    return planned.body


def acknowledgement_of(planned: PlannedShareRequest) -> ShareAcknowledgeRequest:
    assert isinstance(planned.body, ShareAcknowledgeRequest)
    return planned.body


def partitions(body: ShareFetchRequest) -> list[int]:
    return [part.partition_index for topic in body.topics for part in topic.partitions]


def answer(first: int = 0, last: int = -1, partition: int = 0, *, code: int = 0, ack: int = 0) -> ShareFetchResponse:
    """Return an answer with acquired records from `first` to `last`."""
    values = [b"%d" % offset for offset in range(first, last + 1)]
    acquired_records = [ShareFetchResponse.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=1)]
    part = ShareFetchResponse.PartitionData(
        partition_index=partition,
        error_code=code,
        acknowledge_error_code=ack,
        records=bytes(build(None, values, 0, base_offset=first)) if values else None,
        acquired_records=acquired_records if values else [],
        current_leader=ShareFetchResponse.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
    )
    topic = ShareFetchResponse.ShareFetchableTopicResponse(topic_id=T, partitions=[part])
    return ShareFetchResponse(acquisition_lock_timeout_ms=LOCK_MS, responses=[topic])


def acknowledged(code: int = 0, partition: int = 0) -> ShareAcknowledgeResponse:
    leader = ShareFetchResponse.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    part = ShareAcknowledgeResponse.PartitionData(partition_index=partition, error_code=code, current_leader=leader)
    topic = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse(topic_id=T, partitions=[part])
    return ShareAcknowledgeResponse(responses=[topic])


def acquired(made: ShareFetcher, last: int = 4) -> Source:
    """Fetch records 0 to `last` of partition 0, and return where they come from."""
    planned = next(each for each in made.requests(0) if each.node_id == made.metadata.leader(*P0))
    made.on_fetch(planned, answer(0, last), 0, 0)
    batches = made.next_batches(0)
    assert batches is not None
    opened = batches.open()
    assert [each.last for each in opened.deliveries] == [last]
    assert made.next_batches(0) is None
    return batches.source


def accept(first: int, last: int) -> list[AcknowledgementRun]:
    return [AcknowledgementRun(first, last, ACCEPT)]


def outcomes(made: ShareFetcher) -> list[str | None]:
    found, made.outcomes = made.outcomes, []
    return [None if each.error is None else getattr(each.error, "name", type(each.error).__name__) for each in found]


def test_a_session_begins_with_all_partitions_and_goes_on_with_changes() -> None:
    made = fetcher(1, 1)
    first = only(made.requests(0))
    assert (body_of(first).share_session_epoch, partitions(body_of(first))) == (0, [0, 1])
    assert made.requests(0) == [], "one request at a time"
    made.on_fetch(first, answer(), 0, 0)
    second = only(made.requests(0))
    assert (body_of(second).share_session_epoch, partitions(body_of(second))) == (1, [])
    made.on_fetch(second, answer(), 0, 0)
    made.assign([P1], {"t": T})
    third = body_of(only(made.requests(0)))
    assert third.share_session_epoch == 2
    assert [(topic.topic_id, topic.partitions) for topic in third.forgotten_topics_data] == [(T, [0])]


def test_the_epoch_after_the_last_one_is_one() -> None:
    made = fetcher(1)
    made.on_fetch(only(made.requests(0)), answer(), 0, 0)
    made._sessions[1].epoch = (1 << 31) - 1
    made.on_fetch(only(made.requests(0)), answer(), 0, 0)
    assert body_of(only(made.requests(0))).share_session_epoch == 1


def test_nothing_is_fetched_while_records_are_buffered_or_nobody_waits() -> None:
    made = fetcher(1)
    made.on_fetch(only(made.requests(0)), answer(0, 1), 0, 0)
    assert made.requests(0) == []
    assert made.next_batches(0) is not None
    made.drop_batches()
    made.wants_records = False
    assert made.requests(0) == []


def test_a_fetch_takes_acknowledgements_along() -> None:
    made = fetcher(1, 1)
    made.acknowledge(acquired(made), [*accept(0, 2), AcknowledgementRun(3, 4, RELEASE)], 1_000)
    planned = only(made.requests(0))
    (topic,) = body_of(planned).topics
    (part,) = topic.partitions
    found = [(each.first_offset, each.last_offset, each.acknowledge_types) for each in part.acknowledgement_batches]
    assert (part.partition_index, found) == (0, [(0, 4, [1, 1, 1, 2, 2])])
    made.on_fetch(planned, answer(), 0, 0)
    assert outcomes(made) == [None]


def test_without_a_waiting_user_and_for_renewals_there_is_a_request_of_its_own() -> None:
    made = fetcher(1)
    source = acquired(made)
    made.wants_records = False
    made.acknowledge(source, accept(0, 1), 1_000)
    planned = only(made.requests(0))
    assert (acknowledgement_of(planned).share_session_epoch, acknowledgement_of(planned).is_renew_ack) == (1, False)
    made.on_acknowledge(planned, acknowledged(), 0)
    made.wants_records = True
    made.acknowledge(source, [AcknowledgementRun(2, 2, RENEW)], 1_000)
    planned = only(made.requests(0))
    assert (acknowledgement_of(planned).share_session_epoch, acknowledgement_of(planned).is_renew_ack) == (2, True)
    made.on_acknowledge(planned, acknowledged(), 0)
    assert only(made.requests(0)).is_fetch
    assert outcomes(made) == [None, None]


@pytest.mark.parametrize("code", [codes.SHARE_SESSION_NOT_FOUND, codes.INVALID_SHARE_SESSION_EPOCH])
def test_a_lost_session_begins_again_and_fails_what_was_sent(code: int) -> None:
    made = fetcher(1)
    source = acquired(made)
    made.acknowledge(source, accept(0, 1), 1_000)
    planned = only(made.requests(0))
    made.on_fetch(planned, ShareFetchResponse(error_code=code), 0, 0)
    assert outcomes(made) == [codes.ERRORS[code].name]
    made.acknowledge(source, accept(2, 2), 1_000)  # the locks belong to the member: a new session can acknowledge
    again = only(made.requests(0))
    assert (body_of(again).share_session_epoch, partitions(body_of(again))) == (0, [0])
    assert body_of(again).topics[0].partitions[0].acknowledgement_batches == []
    made.on_fetch(again, answer(), 0, 0)
    made.on_fetch(only(made.requests(0)), answer(), 0, 0)
    assert outcomes(made) == [None]


def test_without_a_session_acknowledgements_fail_at_once() -> None:
    made = fetcher(1)
    source = acquired(made)
    planned = only(made.requests(0))
    made.on_fetch(planned, ShareFetchResponse(error_code=codes.SHARE_SESSION_NOT_FOUND), 0, 0)
    made.wants_records = False
    made.acknowledge(source, accept(0, 0), 1_000)
    assert made.requests(0) == []
    assert outcomes(made) == ["SHARE_SESSION_NOT_FOUND"]


def test_a_broken_connection_loses_its_records() -> None:
    made = fetcher(1, 2)
    source = acquired(made)
    one, two = made._sessions[1], made._sessions[2]
    assert two.in_flight is not None
    made.on_fetch(two.in_flight, answer(0, 3, 1), 0, 0)
    made.acknowledge(source, accept(0, 0), 1_000)
    made.drop_batches()
    planned = only([each for each in made.requests(0) if each.node_id == 1])
    made.broken(planned, ConnectionFailed("gone"), 100)
    made.acknowledge(source, accept(1, 1), 1_000)
    assert outcomes(made) == ["ConnectionFailed", "KafkaError"]
    assert one.epoch == 0
    assert made.wants_metadata == {"t"}
    assert all(each.node_id != 1 for each in made.requests(100)), "a pause"
    assert made.next_wake_ms(100) == 200


def test_a_moved_leader_is_used_at_once() -> None:
    made = fetcher(1)
    planned = only(made.requests(0))
    moved = answer(code=codes.NOT_LEADER_OR_FOLLOWER)
    moved.responses[0].partitions[0].current_leader = ShareFetchResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=2)
    made.on_fetch(planned, moved, 0, 0)
    assert only(made.requests(0)).node_id == 2
    assert not made.wants_metadata


def test_an_unknown_leader_needs_metadata() -> None:
    made = fetcher(1)
    made.on_fetch(only(made.requests(0)), answer(code=codes.FENCED_LEADER_EPOCH), 0, 0)
    assert made.wants_metadata == {"t"}
    made = fetcher(1)
    made.on_fetch(only(made.requests(0)), answer(code=codes.UNKNOWN_TOPIC_ID), 0, 0)
    assert made.wants_metadata == {"t"}


def test_a_topic_that_was_created_again_is_fetched_once_it_is_assigned() -> None:
    made = fetcher(1)
    made.metadata = metadata(1, topic_id=b"u" * 16)
    assert made.requests(0) == []
    assert not made.wants_metadata
    made.assign([P0], {"t": b"u" * 16})
    assert body_of(only(made.requests(0))).topics[0].topic_id == b"u" * 16


def test_an_error_of_a_partition_that_does_not_pass_is_raised_once() -> None:
    made = fetcher(1)
    made.on_fetch(only(made.requests(0)), answer(code=codes.TOPIC_AUTHORIZATION_FAILED), 0, 0)
    with pytest.raises(KafkaError, match="Fetching t-0: TOPIC_AUTHORIZATION_FAILED"):
        made.next_batches(0)
    assert made.next_batches(0) is None


def test_acknowledgements_are_repeated_after_an_error_that_passes_until_their_time() -> None:
    made = fetcher(1)
    source = acquired(made)
    made.wants_records = False
    made.acknowledge(source, accept(0, 0), 150)
    made.on_acknowledge(only(made.requests(0)), acknowledged(codes.COORDINATOR_NOT_AVAILABLE), 0)
    assert outcomes(made) == []
    assert len(made.list_pending()) == 1
    assert made.requests(50) == []
    made.on_acknowledge(only(made.requests(100)), acknowledged(codes.COORDINATOR_NOT_AVAILABLE), 200)
    assert outcomes(made) == ["COORDINATOR_NOT_AVAILABLE"]


@pytest.mark.parametrize(
    "code",
    [codes.INVALID_RECORD_STATE, codes.NOT_LEADER_OR_FOLLOWER, codes.UNKNOWN_TOPIC_ID, codes.UNKNOWN_TOPIC_OR_PARTITION],
)
def test_refused_acknowledgements_are_not_repeated(code: int) -> None:
    made = fetcher(1)
    made.acknowledge(acquired(made), accept(0, 0), 1_000)
    made.on_fetch(only(made.requests(0)), answer(ack=code), 0, 0)
    assert outcomes(made) == [codes.ERRORS[code].name]


def test_an_answer_without_a_partition_fails_its_acknowledgements() -> None:
    made = fetcher(1)
    made.acknowledge(acquired(made), accept(0, 0), 1_000)
    made.on_fetch(only(made.requests(0)), ShareFetchResponse(), 0, 0)
    assert outcomes(made) == ["UNKNOWN_SERVER_ERROR"]


def test_record_limit_fetches_from_one_leader_at_a_time_in_turn() -> None:
    made = fetcher(1, 2, record_limit=True)
    first = only(made.requests(0))
    assert (first.node_id, body_of(first).share_acquire_mode) == (1, 1)
    assert made.requests(0) == []
    made.on_fetch(first, answer(), 0, 0)
    second = only(made.requests(0))
    assert second.node_id == 2
    made.on_fetch(second, answer(partition=1), 0, 0)
    assert only(made.requests(0)).node_id == 1


def test_closing_sends_what_is_queued_in_the_last_epoch() -> None:
    made = fetcher(1, 2)
    source = acquired(made)
    in_flight = made._sessions[2].in_flight
    assert in_flight is not None
    made.on_fetch(in_flight, answer(partition=1), 0, 0)
    made.acknowledge(source, accept(0, 4), 1_000)
    planned = made.closing_requests()
    assert [(each.node_id, acknowledgement_of(each).share_session_epoch) for each in planned] == [(1, -1), (2, -1)]
    assert [len(acknowledgement_of(each).topics) for each in planned] == [1, 0]
    made.on_acknowledge(planned[0], acknowledged(), 0)
    made.on_acknowledge(planned[1], ShareAcknowledgeResponse(), 0)
    assert outcomes(made) == [None]
    assert not made.has_requests
    assert made.closing_requests() == []


def test_batches_whose_locks_have_ended_are_not_delivered() -> None:
    made = fetcher(1)
    made.on_fetch(only(made.requests(0)), answer(0, 1), 10, 20)
    assert made.next_batches(10 + LOCK_MS) is None
    assert made.is_idle


def test_a_partition_that_was_forgotten_is_acknowledged_before_the_next_fetch() -> None:
    made = fetcher(1, 1)
    source = acquired(made)
    made.assign([P1], {"t": T})
    made.on_fetch(only(made.requests(0)), answer(partition=1), 0, 0)
    made.acknowledge(source, accept(0, 4), 1_000)
    planned = only(made.requests(0))
    assert acknowledgement_of(planned).topics[0].partitions[0].partition_index == 0
    made.on_acknowledge(planned, acknowledged(), 0)
    assert outcomes(made) == [None]
    assert only(made.requests(0)).is_fetch


def test_a_refusal_of_the_group_is_raised_and_a_full_broker_is_tried_again() -> None:
    made = fetcher(1)
    made.on_fetch(only(made.requests(0)), ShareFetchResponse(error_code=codes.GROUP_AUTHORIZATION_FAILED), 0, 0)
    with pytest.raises(KafkaError, match="Share group g: GROUP_AUTHORIZATION_FAILED"):
        made.next_batches(0)
    made = fetcher(1)
    made.on_fetch(only(made.requests(0)), ShareFetchResponse(error_code=codes.SHARE_SESSION_LIMIT_REACHED), 0, 0)
    assert made.requests(0) == []
    assert body_of(only(made.requests(100))).share_session_epoch == 0


def test_deliveries_know_their_session() -> None:
    made = fetcher(1)
    made.on_fetch(only(made.requests(0)), answer(5, 9), 3, 4)
    batches = made.next_batches(4)
    assert batches is not None
    (delivery,) = batches.open().deliveries
    assert isinstance(delivery, ShareDelivery)
    assert delivery.source == Source(P0, T, 1, 0, 3 + LOCK_MS)
    assert (delivery.first, delivery.last) == (5, 9)
