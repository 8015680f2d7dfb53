"""What a consumer asks for, sees, hands out and counts as done."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.client.connection.metadata import Metadata
from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.fetch_requests import FetchedPartition, FetchLimits, holds_nothing_more
from ottla.client.consumer.fetcher import Chunk, Fetcher, PlannedFetch
from ottla.client.errors import BrokerError, KafkaError, OffsetOutOfRange
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ottla.ports import Buffer
from ottla.records.batches.columns import build
from ottla.wire import errors as codes
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.metadata import MetadataResponse

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def metadata(**leaders: int) -> Metadata:
    made = Metadata()
    made.update(metadata_answer(**leaders))
    return made


def metadata_answer(**leaders: int) -> MetadataResponse:
    partition = MetadataResponse.MetadataResponsePartition
    topics = [
        MetadataResponse.MetadataResponseTopic(
            name="t", partitions=[partition(partition_index=index, leader_id=leaders.get(f"p{index}", 1)) for index in range(2)]
        )
    ]
    node = MetadataResponse.MetadataResponseBroker
    return MetadataResponse(brokers=[node(node_id=1, host="h", port=1), node(node_id=2, host="h", port=2)], topics=topics)


def batch(base_offset: int, values: Sequence[bytes], **fields: int | bool) -> bytes:
    return bytes(build(None, list(values), 0, base_offset=base_offset, **fields))  # type: ignore[arg-type]  # fields of build


def reading(*partitions: TopicPartition, **leaders: int) -> Fetcher:
    made = Fetcher(metadata(**leaders), FetchLimits(fetch_max_wait_ms=500))
    made.add(partitions)
    made.start(partitions)
    for where in partitions:
        made.seek(where, 0)
    return made


def asked(request: FetchRequest) -> dict[TopicPartition, int]:
    return {TopicPartition(topic.topic, part.partition): part.fetch_offset for topic in request.topics for part in topic.partitions}


def answer(parts: dict[TopicPartition, Buffer | int]) -> FetchResponse:
    """Per partition its records, or an error code."""
    data = [
        FetchResponse.PartitionData(
            partition_index=where.partition,
            error_code=found if isinstance(found, int) else 0,
            records=None if isinstance(found, int) else found,
            high_watermark=99,
        )
        for where, found in parts.items()
    ]
    return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=data)])


def values(chunk: Chunk | None) -> list[bytes | None]:
    assert chunk is not None
    return [record.value for record in Cursor(chunk).open()]


def test_one_request_asks_a_broker_for_all_its_partitions() -> None:
    [fetch] = reading(A, B).fetches(0)
    assert asked(fetch.request) == {A: 0, B: 0}
    assert fetch.request.max_wait_ms == 500


def test_each_leader_is_asked_for_its_own_and_once_at_a_time() -> None:
    made = reading(A, B, p1=2)
    assert {fetch.node_id: asked(fetch.request) for fetch in made.fetches(0)} == {1: {A: 0}, 2: {B: 0}}
    assert made.fetches(0) == []


def test_what_came_is_handed_out_and_the_next_fetch_begins_behind_it() -> None:
    made = reading(A)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer({A: batch(0, [b"x", b"y"]) + batch(2, [b"z"])}), 0)
    assert made.fetches(0) == [], "a partition with something buffered is not asked for"
    assert values(made.next_chunk()) == [b"x", b"y", b"z"]
    assert made.state_of(A).position == 3
    assert asked(made.fetches(0)[0].request) == {A: 3}
    assert made.next_chunk() is None


def test_records_before_the_position_are_left_out() -> None:
    made = reading(A)
    made.seek(A, 1)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer({A: batch(0, [b"x", b"y"])}), 0)
    assert values(made.next_chunk()) == [b"y"]


def test_a_torn_batch_is_fetched_again() -> None:
    made = reading(A)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer({A: batch(0, [b"x"]) + batch(1, [b"y"])[:-3]}), 0)
    assert values(made.next_chunk()) == [b"x"]
    assert asked(made.fetches(0)[0].request) == {A: 1}


def test_idle_partitions_are_waited_for_only_shortly_while_others_have_something_buffered() -> None:
    made = reading(A, B)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer({A: batch(0, [b"x"])}), 0)
    waits = []
    for _ in range(8):
        [fetch] = made.fetches(0)
        assert asked(fetch.request) == {B: 0}
        waits.append(fetch.request.max_wait_ms)
        made.on_answer(fetch, answer({}), 0)
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256]
    made.next_chunk()
    assert made.fetches(0)[0].request.max_wait_ms == 500


def test_an_answer_to_before_a_seek_is_dropped() -> None:
    made = reading(A)
    [fetch] = made.fetches(0)
    made.seek(A, 50)
    made.on_answer(fetch, answer({A: batch(0, [b"x"])}), 0)
    assert made.next_chunk() is None
    assert asked(made.fetches(0)[0].request) == {A: 50}


def test_an_answer_to_before_a_partition_was_taken_away_and_given_back_is_dropped() -> None:
    """Its fetch began behind what was buffered and dropped: those records would be left out."""
    made = reading(A)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer({A: batch(0, [b"x"])}), 0)
    assert made.next_chunk() is not None
    [later] = made.fetches(0)
    made.remove([A])
    made.add([A])
    made.seek(A, 0)
    made.start([A])
    made.on_answer(later, answer({A: batch(1, [b"y"])}), 0)
    assert made.next_chunk() is None
    assert asked(made.fetches(0)[0].request) == {A: 0}


def test_what_is_buffered_of_a_partition_taken_away_is_dropped() -> None:
    made = reading(A, B)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer({A: batch(0, [b"x"]), B: batch(0, [b"y"])}), 0)
    made.remove([A])
    assert values(made.next_chunk()) == [b"y"]
    with pytest.raises(KafkaError, match="t-0 is not assigned"):
        made.state_of(A)


def test_a_paused_partition_is_neither_asked_for_nor_handed_out() -> None:
    made = reading(A, B)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer({A: batch(0, [b"x"])}), 0)
    made.pause([A])
    assert made.next_chunk() is None
    made.pause([A], paused=False)
    assert values(made.next_chunk()) == [b"x"]


def test_a_moved_leader_is_asked_after_metadata_came() -> None:
    made = reading(A)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer({A: codes.NOT_LEADER_OR_FOLLOWER}), 0)
    assert made.wants_metadata == {"t"}
    made.metadata.update(MetadataResponse(topics=[]))
    assert made.fetches(1_000) == []
    made.metadata = metadata(p0=2)
    assert [fetch.node_id for fetch in made.fetches(1_000)] == [2]


def test_a_broken_connection_is_tried_again_after_a_pause() -> None:
    made = reading(A)
    [fetch] = made.fetches(0)
    made.broken(fetch, 0)
    assert made.fetches(99) == []
    assert made.next_wake_ms(99) == 100
    assert len(made.fetches(100)) == 1


def torn() -> bytes:
    """A batch whose checksum is wrong."""
    damaged = bytearray(batch(0, [b"a"]))
    damaged[-1] ^= 1
    return bytes(damaged)


def test_a_damaged_batch_is_not_asked_for_again_before_the_user_has_heard_of_it() -> None:
    made = reading(A, B)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer({A: torn(), B: batch(0, [b"b"])}), 0)
    assert made.fetches(1_000) == []
    with pytest.raises(BrokerError, match="Fetching t-0: CORRUPT_MESSAGE"):
        made.next_chunk()
    chunk = made.next_chunk()
    assert chunk is not None
    assert chunk.where == B
    with pytest.raises(BrokerError, match="Fetching t-0: CORRUPT_MESSAGE"):
        made.next_chunk()
    [again] = made.fetches(1_000)
    assert asked(again.request) == {A: 0, B: 1}
    made.on_answer(again, answer({A: batch(0, [b"a"])}), 1_000)
    assert made.next_chunk() is not None
    assert made.next_chunk() is None


def test_a_partition_that_stays_damaged_keeps_no_record_of_another_back() -> None:
    made = reading(A, B)
    found: list[int] = []
    for number in range(3):
        [fetch] = made.fetches(1_000 * number)
        made.on_answer(fetch, answer({A: codes.CORRUPT_MESSAGE, B: batch(number, [b"b"])}), 1_000 * number)
        if not number:
            with pytest.raises(BrokerError, match="Fetching t-0 from offset 0: CORRUPT_MESSAGE: The broker's log is damaged here"):
                made.next_chunk()
        chunk = made.next_chunk()
        assert chunk is not None, "what was told before waits for the records of others"
        found.append(chunk.from_offset)
        with pytest.raises(BrokerError, match="CORRUPT_MESSAGE"):
            made.next_chunk()
    assert found == [0, 1, 2]


def test_an_error_waits_for_the_next_take_where_there_are_records_already() -> None:
    made = reading(A, B)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer({A: codes.CORRUPT_MESSAGE, B: batch(0, [b"b"])}), 0)
    assert made.additional_chunk() is None
    with pytest.raises(BrokerError, match="CORRUPT_MESSAGE"):
        made.next_chunk()
    chunk = made.additional_chunk()
    assert chunk is not None
    assert chunk.where == B
    made.failure = BrokerError(codes.UNSUPPORTED_VERSION, "all of it")
    assert made.additional_chunk() is None
    with pytest.raises(BrokerError, match="all of it"):
        made.next_chunk()


def test_an_answer_that_is_an_error_as_a_whole_is_raised_where_trying_again_cannot_help() -> None:
    made = reading(A)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, FetchResponse(error_code=codes.FETCH_SESSION_ID_NOT_FOUND), 0)
    assert made.next_chunk() is None
    [fetch] = made.fetches(100)
    made.on_answer(fetch, FetchResponse(error_code=codes.UNSUPPORTED_VERSION), 100)
    with pytest.raises(BrokerError, match="UNSUPPORTED_VERSION"):
        made.next_chunk()


def without(code: int) -> MetadataResponse:
    return MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(name="t", error_code=code)])


def test_a_partition_that_no_broker_knows_is_an_error_once_patience_is_over_and_until_it_is_back() -> None:
    made = reading(A)
    made.metadata.update(without(codes.UNKNOWN_TOPIC_OR_PARTITION))
    assert made.fetches(0) == []
    assert made.wants_metadata == {"t"}
    assert made.next_chunk() is None
    assert made.fetches(60_000) == []
    for now_ms in (60_000, 70_000):
        with pytest.raises(BrokerError, match="Fetching t-0: UNKNOWN_TOPIC_OR_PARTITION"):
            made.next_chunk()
        assert made.fetches(now_ms) == []
    made.metadata.update(metadata_answer())
    [fetch] = made.fetches(80_000)
    made.on_answer(fetch, answer({A: b""}), 80_000)
    assert made.next_chunk() is None


def test_a_topic_that_may_not_be_seen_is_an_error_at_once() -> None:
    made = reading(A)
    made.metadata.update(without(codes.TOPIC_AUTHORIZATION_FAILED))
    assert made.fetches(0) == []
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        made.next_chunk()


def test_an_offset_out_of_range_is_reset_or_raised() -> None:
    made = reading(A)
    [fetch] = made.fetches(0)
    made.reset_timestamp = EARLIEST_TIMESTAMP
    made.on_answer(fetch, answer({A: codes.OFFSET_OUT_OF_RANGE}), 0)
    assert made.to_reset() == {A: EARLIEST_TIMESTAMP}
    made = reading(A)
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer({A: codes.OFFSET_OUT_OF_RANGE}), 0)
    for _ in range(3):
        with pytest.raises(OffsetOutOfRange, match="t-0 from offset 0"):
            made.next_chunk()
    made.seek(A, 1)
    assert made.next_chunk() is None


def test_a_damaged_batch_is_an_error_that_names_the_partition() -> None:
    made = reading(A)
    [fetch] = made.fetches(0)
    damaged = bytearray(batch(0, [b"x" * 50]))
    damaged[-1] ^= 1
    made.on_answer(fetch, answer({A: bytes(damaged)}), 0)
    with pytest.raises(BrokerError, match=r"t-0.*checksum"):
        made.next_chunk()


def test_a_fetch_names_the_turns_it_was_made_in() -> None:
    made = reading(A)
    [fetch] = made.fetches(0)
    assert isinstance(fetch, PlannedFetch)
    assert fetch.turns == {A: made.state_of(A).turn}


@pytest.mark.parametrize(
    ("high_watermark", "last_stable_offset", "log_start_offset", "records", "read_committed", "nothing"),
    [
        (10, 10, 0, b"", False, True),
        (9, 9, 0, b"", False, False),
        (10, 7, 0, b"", False, True),
        (10, 7, 0, b"", True, False),
        (10, 10, 0, b"some", True, False),
        (10, 10, 6, b"", False, False),
    ],
)
def test_an_answer_without_records_below_what_may_be_read_says_that_compaction_left_none(
    high_watermark: int, last_stable_offset: int, log_start_offset: int, records: bytes, read_committed: bool, nothing: bool
) -> None:
    found = FetchedPartition(A, 0, high_watermark, last_stable_offset, log_start_offset, [], memoryview(records), cut_short=False)
    assert holds_nothing_more(found, 5, 10, read_committed=read_committed) is nothing


def test_a_position_of_a_deleted_topic_is_none_of_the_topic_that_has_its_name_now() -> None:
    made = reading(A)
    made.reset_timestamp = LATEST_TIMESTAMP
    made.metadata.update(recreated(b"o" * 16))
    [fetch] = made.fetches(0)
    assert fetch.version(13) == 13
    made.on_answer(fetch, answer_by_id(b"o" * 16, batch(0, [b"x", b"y"])), 0, 13)
    made.metadata.update(recreated(b"n" * 16))
    assert values(made.next_chunk()) == [b"x", b"y"], "what has come is handed out"
    assert made.fetches(0) == [], "offset 2 is not asked for in another topic"
    assert made.to_reset() == {A: EARLIEST_TIMESTAMP}, "all of the new topic is newer"
    made.seek(A, 0)
    assert asked(made.fetches(0)[0].request) == {A: 0}


def test_a_position_of_a_deleted_topic_is_an_error_where_none_is_reset() -> None:
    made = reading(A)
    made.metadata.update(recreated(b"o" * 16))
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer_by_id(b"o" * 16, b""), 0, 13)
    made.metadata.update(recreated(b"n" * 16))
    assert made.fetches(0) == []
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange, match="deleted and recreated"):
            made.next_chunk()
        assert made.fetches(0) == []
    made.seek(A, 7)
    assert asked(made.fetches(0)[0].request) == {A: 7}, "the user has seen to it"


def test_a_seek_before_the_new_id_is_known_is_kept() -> None:
    made = reading(A)
    made.metadata.update(recreated(b"o" * 16))
    made.seek(A, 5)
    [fetch] = made.fetches(0)
    refused = answer_by_id(b"o" * 16, b"")
    refused.responses[0].partitions[0].error_code = codes.UNKNOWN_TOPIC_ID
    made.on_answer(fetch, refused, 0, 13)
    assert made.wants_metadata == {"t"}
    made.metadata.update(recreated(b"n" * 16))
    assert asked(made.fetches(100)[0].request) == {A: 5}


def test_metadata_without_ids_makes_no_topic_another_one() -> None:
    made = reading(A)
    made.metadata.update(recreated(b"o" * 16))
    [fetch] = made.fetches(0)
    made.on_answer(fetch, answer_by_id(b"o" * 16, batch(0, [b"x"])), 0, 13)
    assert values(made.next_chunk()) == [b"x"]
    made.metadata.update(metadata_answer())
    [fetch] = made.fetches(0)
    assert (asked(fetch.request), fetch.version(13)) == ({A: 1}, 12)


def test_a_topic_without_an_id_is_asked_for_by_name() -> None:
    [fetch] = reading(A).fetches(0)
    assert fetch.version(13) == 12
    assert fetch.version(4) == 4


def recreated(topic_id: bytes) -> MetadataResponse:
    found = metadata_answer()
    found.topics[0].topic_id = topic_id
    return found


def answer_by_id(topic_id: bytes, records: bytes) -> FetchResponse:
    found = answer({A: records})
    found.responses[0].topic, found.responses[0].topic_id = "", topic_id
    return found


def test_a_partition_is_fetched_only_after_its_start_from_the_last_position_set_before() -> None:
    made = reading()
    made.add([A])
    made.seek(A, 1)
    assert made.fetches(0) == []
    made.seek(A, 7)
    made.start([A])
    (fetch,) = made.fetches(0)
    assert asked(fetch.request) == {A: 7}
    made.remove([A])
    made.start([A])
    assert list(made.partitions) == []
