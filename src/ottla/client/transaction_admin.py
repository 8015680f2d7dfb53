"""What an admin client asks about transactions (KIP-664). Makes requests and reads answers; sends nothing.

A transaction hangs when it is open in a partition, and no coordinator knows that it has to end it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.errors import KafkaError, raise_for
from ottla.client.list_offsets import by_topic
from ottla.client.types import TopicPartition
from ottla.wire.api.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from ottla.wire.api.describe_transactions import DescribeTransactionsResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

ANY_DURATION: Final = -1
FENCED_TIMEOUT_MS: Final = 1
"""The timeout that a fenced id has until its next producer names another one. Every broker allows it."""


class TransactionListing(NamedTuple):
    """A transactional id in the list of all. `state` is spelled as in Kafka: Empty, Ongoing, PrepareCommit, CompleteAbort …"""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """A transactional id, and the transaction that it has under way.

    `start_time_ms` (Unix epoch) is None where none is. `partitions` are those of an open transaction, or those that have no marker
    yet.
    """

    transactional_id: str
    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: list[TopicPartition]


class ActiveProducer(NamedTuple):
    """A producer as a partition knows it.

    `coordinator_epoch` is that of its last marker there, None before the first. `transaction_start_offset` is None unless a
    transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class FencedProducer(NamedTuple):
    """What a transactional id has after its producer was fenced."""

    producer_id: int
    producer_epoch: int


class HangingTransaction(NamedTuple):
    """A transaction that nobody will end; `transactional_id` is None if no coordinator knows its producer."""

    partition: TopicPartition
    producer: ActiveProducer
    transactional_id: str | None


def list_transactions_request(
    states: Iterable[str], producer_ids: Iterable[int], min_duration_ms: int, pattern: str | None
) -> ListTransactionsRequest:
    return ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=min_duration_ms,
        transactional_id_pattern=pattern,
    )


def read_transactions(answer: ListTransactionsResponse, coordinator_id: int) -> list[TransactionListing]:
    """The transactional ids of one broker. Raises `BrokerError`, and `KafkaError` for a state that it does not know."""
    raise_for(answer.error_code, "Listing transactions")
    if answer.unknown_state_filters:
        unknown = ", ".join(answer.unknown_state_filters)
        raise KafkaError(f"Broker {coordinator_id} knows no state {unknown}: ask for Empty, Ongoing, PrepareCommit and the like.")
    return [
        TransactionListing(found.transactional_id, coordinator_id, found.producer_id, found.transaction_state)
        for found in answer.transaction_states
    ]


def read_descriptions(answer: DescribeTransactionsResponse, coordinator_id: int) -> Iterator[tuple[int, TransactionDescription]]:
    """(error code, description) of each transactional id in the answer."""
    for found in answer.transaction_states:
        yield (
            found.error_code,
            TransactionDescription(
                found.transactional_id,
                coordinator_id,
                found.transaction_state,
                found.producer_id,
                found.producer_epoch,
                found.transaction_timeout_ms,
                found.transaction_start_time_ms if found.transaction_start_time_ms > 0 else None,
                sorted(TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions),
            ),
        )


def describe_producers_request(wanted: Mapping[TopicPartition, None]) -> DescribeProducersRequest:
    topic = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(
        topics=[topic(name=name, partition_indexes=[where.partition for where in group]) for name, group in by_topic(wanted)]
    )


def read_producers(answer: DescribeProducersResponse) -> Iterator[tuple[TopicPartition, int, list[ActiveProducer]]]:
    """(partition, error code, producers) of each partition in the answer."""
    for topic in answer.topics:
        for found in topic.partitions:
            producers = [
                ActiveProducer(
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    None if each.coordinator_epoch < 0 else each.coordinator_epoch,
                    None if each.current_txn_start_offset < 0 else each.current_txn_start_offset,
                )
                for each in found.active_producers
            ]
            yield TopicPartition(topic.name, found.partition_index), found.error_code, producers


def abort_request(
    where: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int | None
) -> WriteTxnMarkersRequest:
    """A marker that aborts. The epoch of a coordinator that wrote none there yet counts as 0, which no later one is below."""
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=where.topic, partition_indexes=[where.partition])],
        coordinator_epoch=max(coordinator_epoch or 0, 0),
    )
    return WriteTxnMarkersRequest(markers=[marker])


def read_markers(answer: WriteTxnMarkersResponse) -> Iterator[tuple[TopicPartition, int, None]]:
    """(partition, error code, None) of each partition in the answer."""
    for marker in answer.markers:
        for topic in marker.topics:
            for found in topic.partitions:
                yield TopicPartition(topic.name, found.partition_index), found.error_code, None


def fence_request(transactional_id: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=FENCED_TIMEOUT_MS)


def read_fenced(answer: InitProducerIdResponse, transactional_id: str) -> FencedProducer:
    """What the id goes on with. Raises `BrokerError`: CONCURRENT_TRANSACTIONS while what was open is being aborted."""
    raise_for(answer.error_code, f"Fencing the producer of {transactional_id}")
    return FencedProducer(answer.producer_id, answer.producer_epoch)


Open = tuple[TopicPartition, ActiveProducer]


def opened_before(time_ms: int, producers: Mapping[TopicPartition, Sequence[ActiveProducer]]) -> list[Open]:
    """The transactions that are open, and into which nothing was written since `time_ms` (Unix epoch), in their order."""
    found = [
        (where, one.transaction_start_offset, one)
        for where, several in producers.items()
        for one in several
        if one.transaction_start_offset is not None and one.last_timestamp_ms < time_ms
    ]
    return [(where, one) for where, _, one in sorted(found)]


def hanging(candidates: Iterable[Open], descriptions: Iterable[TransactionDescription]) -> list[HangingTransaction]:
    """Those of which no coordinator knows that they are open in their partition, or have yet to get their marker there."""
    known = {found.producer_id: found for found in descriptions}
    found = []
    for where, producer in candidates:
        owner = known.get(producer.producer_id)
        if owner is None or where not in owner.partitions:
            found.append(HangingTransaction(where, producer, None if owner is None else owner.transactional_id))
    return found
