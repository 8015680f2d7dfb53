"""Fetch requests and answers: many partitions of one broker in one request. Records stay views of the answer's frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.client.connection.metadata import NO_TOPIC_ID
from ottla.client.connection.older_brokers import WHOLE_FROM_FETCH
from ottla.client.consumer.visible_batches import AbortedTransaction
from ottla.client.errors import KafkaError
from ottla.client.older_records import MAGIC_AT, OLDEST_BATCH, as_batches
from ottla.client.types import TopicPartition
from ottla.wire.api.fetch import FetchRequest, FetchResponse

NO_SESSION_EPOCH = -1
NAMED_UNTIL: Final = 12
"""The last version of Fetch that contains topic names. Later versions contain topic ids instead (KIP-516)."""
NO_IDS: Final[Mapping[str, bytes]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The limits of a fetch, with Kafka's names and defaults: how much a broker returns, and how long it waits for data."""

    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    read_committed: bool = False
    client_rack: str = ""
    """The rack of the client, for which a leader can name a closer replica (KIP-392)."""


class FetchPosition(NamedTuple):
    """The position of a fetch in a partition. `leader_epoch` is -1 if unknown."""

    offset: int
    leader_epoch: int


class FetchedPartition(NamedTuple):
    """One partition's part of an answer.

    `records` holds whole batches. The first can begin before the requested offset; the last can be incomplete. `cut_short`: even
    the first batch is incomplete, because it exceeds the fetch's limit (before KIP-74), so that another fetch with this limit does
    not help.
    """

    where: TopicPartition
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction]
    records: memoryview
    cut_short: bool
    preferred_read_replica: int = -1
    """The node id of a replica that is closer to the client, from which to fetch instead; -1 without one (KIP-392)."""
    current_leader: FetchResponse.LeaderIdAndEpoch | None = None
    """The leader, in errors of a broker that does not lead the partition (KIP-951)."""


def fetch_request(
    wanted: dict[TopicPartition, FetchPosition],
    limits: FetchLimits,
    max_wait_ms: int | None = None,
    ids: Mapping[str, bytes] = NO_IDS,
) -> FetchRequest:
    """Build one Fetch request for partitions of one leader. The partitions of a topic keep the order of `wanted`.

    Unless `ids` has the ids of all topics, the request can be sent in version `NAMED_UNTIL` at most.
    """
    partition = FetchRequest.FetchPartition
    topics = [
        FetchRequest.FetchTopic(
            topic=topic,
            topic_id=ids.get(topic, NO_TOPIC_ID),
            partitions=[
                partition(
                    partition=where.partition,
                    fetch_offset=wanted[where].offset,
                    current_leader_epoch=wanted[where].leader_epoch,
                    partition_max_bytes=limits.max_partition_fetch_bytes,
                )
                for where in group
            ],
        )
        for topic, group in _in_order(wanted)
    ]
    return FetchRequest(
        max_wait_ms=limits.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms,
        min_bytes=limits.fetch_min_bytes,
        max_bytes=limits.fetch_max_bytes,
        isolation_level=int(limits.read_committed),
        rack_id=limits.client_rack,
        session_epoch=NO_SESSION_EPOCH,
        topics=topics,
    )


def _in_order(wanted: Iterable[TopicPartition]) -> Iterable[tuple[str, list[TopicPartition]]]:
    # Brokers fill answers from the front. Therefore callers move partitions to the end, so that none starves.
    topics: dict[str, list[TopicPartition]] = {}
    for where in wanted:
        topics.setdefault(where.topic, []).append(where)
    return topics.items()


def read_fetch(answer: FetchResponse, version: int, ids: Mapping[str, bytes] = NO_IDS) -> Iterator[FetchedPartition]:
    """Yield the partitions of an answer in this version of Fetch. Raises `BadBatch`.

    The answer also has an `error_code` of its own, which the caller must check first. `ids` are the topic ids of the request, for
    versions without topic names.
    """
    names = {topic_id: name for name, topic_id in ids.items()} if version > NAMED_UNTIL else {}
    for topic in answer.responses:
        name = names.get(topic.topic_id, topic.topic)
        for found in topic.partitions:
            sent = memoryview(found.records or b"")
            records = as_batches(sent) if len(sent) > MAGIC_AT and sent[MAGIC_AT] < OLDEST_BATCH else sent
            yield FetchedPartition(
                TopicPartition(name, found.partition_index),
                found.error_code,
                found.high_watermark,
                found.last_stable_offset,
                found.log_start_offset,
                [
                    AbortedTransaction(transaction.producer_id, transaction.first_offset)
                    for transaction in found.aborted_transactions or ()
                ],
                records,
                version < WHOLE_FROM_FETCH and len(sent) > 0 and not len(records),
                found.preferred_read_replica,
                found.current_leader,
            )


def holds_nothing_more(found: FetchedPartition, offset: int, end: int, *, read_committed: bool) -> bool:
    """Return whether an answer without records proves that compaction has left none from `offset` to `end`.

    Brokers return at least one batch if there is any below the high watermark, or with `read_committed` below the last stable
    offset.
    """
    readable = found.last_stable_offset if read_committed else found.high_watermark
    return not len(found.records) and found.log_start_offset <= offset and readable >= end


def cut_short(where: TopicPartition, offset: int, limits: FetchLimits) -> KafkaError:
    """Return the exception for a message that exceeds the limits of the fetch. Brokers before KIP-74 return only its beginning."""
    return KafkaError(
        f"The message of {where.topic}-{where.partition} at offset {offset} is larger than "
        f"max_partition_fetch_bytes={limits.max_partition_fetch_bytes}: raise that setting."
    )
