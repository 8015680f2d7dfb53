"""The translation of today's requests into Kafka 0.7's requests, and of 0.7's answers into today's answers.

With it, the state machines of producer and consumer also work with 0.7 brokers. The module uses both message formats, and no
connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.client.errors import NotSupported
from ottla.client.older_records import NO_HEADERS_BYTES
from ottla.client.types import LATEST_TIMESTAMP
from ottla.kafka07 import wire as kafka07
from ottla.kafka07.client.partitions import BrokerPartition
from ottla.kafka07.records.fetched_messages import as_batch
from ottla.kafka07.records.messages import compress
from ottla.kafka07.records.renderer import render
from ottla.kafka07.wire import (
    FetchRequest07,
    FetchResponse07,
    MultiFetchRequest07,
    MultiFetchResponse07,
    MultiProduceRequest07,
    OffsetsRequest07,
    OffsetsResponse07,
    ProduceRequest07,
)
from ottla.ports import Buffer
from ottla.records import kernel
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import BadBatch, read_header
from ottla.records.compression.codecs import CodecFailed
from ottla.records.pauses import finish
from ottla.wire import errors as codes
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.schema import Message

MOST_FETCHES: Final = 0x7FFF
"""The most partitions in one fetch request of 0.7."""

NO_OFFSET: Final = -1

TORN: Final = memoryview(bytes(8) + b"\x7f\x00\x00\x00" + bytes(5))
"""The records of a fetch whose first message is incomplete: the beginning of a message in the format of Kafka 0.8."""

CODES: Final = {
    kafka07.NONE: codes.NONE,
    kafka07.OFFSET_OUT_OF_RANGE: codes.OFFSET_OUT_OF_RANGE,
    kafka07.INVALID_MESSAGE: codes.CORRUPT_MESSAGE,
    kafka07.WRONG_PARTITION: codes.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Kafka 0.7's error code -> today's. All other codes mean UNKNOWN_SERVER_ERROR: the broker does not serve the topic."""


def today(code: int) -> int:
    """Return the error code of newer Kafka versions that corresponds to an error code of 0.7."""
    return CODES.get(code, codes.UNKNOWN_SERVER_ERROR)


class Translation(NamedTuple):
    """A translated request: 0.7's requests in order, the classes of their answers, and the function that makes the final answer."""

    requests: list[kafka07.Request]
    answers: list[type[kafka07.Response]]
    read: Callable[[list[Any]], Message]


# --- reading


def fetches(body: FetchRequest) -> Translation:
    """Translate a fetch into one request for all its partitions. Raises `NotSupported` for more than `MOST_FETCHES` partitions."""
    wanted = [
        FetchRequest07(topic.topic, BrokerPartition.of(part.partition).partition, part.fetch_offset, part.partition_max_bytes)
        for topic in body.topics
        for part in topic.partitions
    ]
    if len(wanted) > MOST_FETCHES:
        raise NotSupported(f"Kafka 0.7 reads at most {MOST_FETCHES} partitions of a broker at once, not {len(wanted)}.")
    return Translation([MultiFetchRequest07(wanted)], [MultiFetchResponse07], partial(fetch_response, body))


def fetch_response(body: FetchRequest, answers: Sequence[MultiFetchResponse07]) -> FetchResponse:
    """Return the answer to `body` in the format of newer brokers: each partition's messages as one batch from the requested
    offset on.
    """
    parts = iter(answers[0].responses)
    responses = [
        FetchResponse.FetchableTopicResponse(
            topic=topic.topic, partitions=[_partition(part, next(parts, None)) for part in topic.partitions]
        )
        for topic in body.topics
    ]
    return FetchResponse(responses=responses)


def _partition(part: FetchRequest.FetchPartition, found: FetchResponse07 | None) -> FetchResponse.PartitionData:
    code, records = codes.UNKNOWN_SERVER_ERROR, memoryview(b"")
    if found is not None:
        code = today(found.error_code)
    if found is not None and not code and len(found.messages):
        try:
            records = memoryview(as_batch(found.messages, part.fetch_offset)) or TORN
        except (BadBatch, CodecFailed):
            code = codes.CORRUPT_MESSAGE
    known = part.fetch_offset if not code and not len(records) else NO_OFFSET
    return FetchResponse.PartitionData(
        partition_index=part.partition,
        error_code=code,
        high_watermark=known,
        records=records,
    )


# --- writing


def produces(body: ProduceRequest, codec: int, *, is_confirmed: bool) -> Translation:
    """Translate Produce: each partition's batch becomes a message set, compressed as a whole with `codec`.

    With `is_confirmed`, a second request follows whose answer confirms the first. Raises `NotSupported` for records that messages
    of 0.7 cannot hold.
    """
    found = [
        ProduceRequest07(topic.name, BrokerPartition.of(part.index).partition, memoryview(messages(part.records or b"", codec)))
        for topic in body.topic_data
        for part in topic.partition_data
    ]
    request: kafka07.Request = found[0] if len(found) == 1 else MultiProduceRequest07(found)
    if not is_confirmed:
        return Translation([request], [], partial(produce_response, body))
    return Translation([request, question(found)], [OffsetsResponse07], partial(produce_response, body))


def question(produced: Sequence[ProduceRequest07]) -> OffsetsRequest07:
    """Return a request whose answer confirms Produce: brokers process requests in order, and close the connection on errors."""
    last = produced[-1]
    return OffsetsRequest07(last.topic, last.partition, LATEST_TIMESTAMP, 1)


def messages(batch: Buffer, codec: int) -> Buffer:
    """Convert a batch to a message set. Raises `NotSupported` for records with headers or null values."""
    columns = open_batches(batch)
    if max(columns.span_column(kernel.HEADERS_SIZE), default=0) > NO_HEADERS_BYTES:
        raise NotSupported("Messages of Kafka 0.7 have no headers: leave them out, or use a newer broker.")
    if min(columns.span_column(kernel.VALUE_SIZE), default=0) < 0:
        raise NotSupported("Messages of Kafka 0.7 cannot be null: send b'' in its place, or use a newer broker.")
    rendered = finish(render(memoryview(batch), read_header(batch), 1))
    return compress(rendered, codec) if codec else rendered


def produce_response(body: ProduceRequest, answers: Sequence[object]) -> ProduceResponse:
    """Return the answer to `body` in the format of newer brokers, without errors and offsets, because Kafka 0.7 returns none."""
    part = ProduceResponse.PartitionProduceResponse
    responses = [
        ProduceResponse.TopicProduceResponse(
            name=topic.name,
            partition_responses=[
                part(index=each.index, error_code=codes.NONE, base_offset=NO_OFFSET) for each in topic.partition_data
            ],
        )
        for topic in body.topic_data
    ]
    return ProduceResponse(responses=responses)


# --- offsets


def lookups(body: ListOffsetsRequest) -> Translation:
    """Translate ListOffsets into one request per partition: 0.7 cannot look up several at once."""
    wanted: list[kafka07.Request] = [
        OffsetsRequest07(topic.name, BrokerPartition.of(part.partition_index).partition, part.timestamp, 1)
        for topic in body.topics
        for part in topic.partitions
    ]
    return Translation(wanted, [OffsetsResponse07] * len(wanted), partial(looked_up, body))


def looked_up(body: ListOffsetsRequest, answers: Sequence[OffsetsResponse07]) -> ListOffsetsResponse:
    """Return today's answer to ListOffsets: the newest offset of each answer of 0.7; -1 for an empty answer."""
    parts = iter(answers)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name, partitions=[_offset(part, next(parts)) for part in topic.partitions]
            )
            for topic in body.topics
        ]
    )


def _offset(
    part: ListOffsetsRequest.ListOffsetsPartition, answer: OffsetsResponse07
) -> ListOffsetsResponse.ListOffsetsPartitionResponse:
    offset = next(iter(answer.offsets), NO_OFFSET)
    return ListOffsetsResponse.ListOffsetsPartitionResponse(
        partition_index=part.partition_index, error_code=today(answer.error_code), offset=offset
    )


# --- the partitions of a broker


def probe(topics: Sequence[str], first: int, count: int) -> MultiFetchRequest07:
    """Build fetches of 0 bytes from `count` partitions of each topic: the broker refuses the ones that it does not have."""
    return MultiFetchRequest07([FetchRequest07(topic, first + each, 0, 0) for topic in topics for each in range(count)])


def probe_results(topics: Sequence[str], count: int, answer: MultiFetchResponse07) -> Iterator[tuple[str, int, int]]:
    """Yield (topic, number of probed partitions that exist, error code) for each topic. The error code is 0 for a served topic."""
    for index, topic in enumerate(topics):
        found = [part.error_code for part in answer.responses[index * count : (index + 1) * count]]
        is_refused = kafka07.UNKNOWN in found
        there = next((at for at, code in enumerate(found) if code == kafka07.WRONG_PARTITION), len(found))
        yield topic, 0 if is_refused else there, codes.UNKNOWN_SERVER_ERROR if is_refused else codes.NONE
