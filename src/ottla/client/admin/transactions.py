"""An admin client's requests about transactions (KIP-664). The module sends nothing.

A hanging transaction is open in a partition, but no coordinator will write its marker there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.admin.results import outcome
from ottla.client.arguments import whole
from ottla.client.consumer.list_offsets import indexes
from ottla.client.errors import KafkaError, raise_for
from ottla.client.types import TopicPartition
from ottla.wire.api.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from ottla.wire.api.describe_transactions import DescribeTransactionsResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

ANY_DURATION: Final = -1
FENCED_TIMEOUT_MS: Final = 1
"""The transaction timeout, in ms, that fencing gives to an id. It is valid until the id's next producer sets another one.

Every broker accepts this timeout.
"""


class TransactionListing(NamedTuple):
    """A transactional id, as listed by a broker. `state` is Kafka's name: Empty, Ongoing, PrepareCommit, CompleteAbort …"""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """A transactional id with its current transaction.

    `start_time_ms` (ms since 1970) is None without a current transaction. `partitions` are the partitions of an open transaction,
    or the partitions that still lack the marker of a transaction that is being committed or aborted.
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
    """The state of a producer in one partition.

    `coordinator_epoch` is the epoch of the coordinator that wrote the producer's last transaction marker, or None before the first
    marker. `transaction_start_offset` is None unless a transaction is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class FencedProducer(NamedTuple):
    """A transactional id's producer id and epoch after the fencing of its producer."""

    producer_id: int
    producer_epoch: int


class HangingTransaction(NamedTuple):
    """A transaction that no coordinator will end. `transactional_id` is None if no coordinator has its producer id."""

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
    """Return the transactional ids of one broker. Raises `BrokerError`, and `KafkaError` for an unknown state."""
    raise_for(answer.error_code, "Listing transactions")
    if answer.unknown_state_filters:
        unknown = ", ".join(answer.unknown_state_filters)
        raise KafkaError(f"Broker {coordinator_id} has no state {unknown}: choose Empty, Ongoing, PrepareCommit or the like.")
    return [
        TransactionListing(found.transactional_id, coordinator_id, found.producer_id, found.transaction_state)
        for found in answer.transaction_states
    ]


def read_descriptions(answer: DescribeTransactionsResponse, coordinator_id: int) -> Iterator[tuple[int, TransactionDescription]]:
    """Yield (error code, description) for each transactional id in the answer."""
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
    return DescribeProducersRequest(topics=[topic(name=name, partition_indexes=some) for name, some in indexes(wanted)])


def read_producers(answer: DescribeProducersResponse) -> Iterator[tuple[TopicPartition, int, list[ActiveProducer]]]:
    """Yield (partition, error code, producers) for each partition in the answer."""
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
    """Build the request that writes an abort marker.

    `coordinator_epoch` None is sent as 0, so that the partition's leader accepts markers of any coordinator afterwards.
    """
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=whole("producer_id", producer_id),
        producer_epoch=whole("producer_epoch", producer_epoch),
        transaction_result=False,
        topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=where.topic, partition_indexes=[where.partition])],
        coordinator_epoch=max(coordinator_epoch or 0, 0),
    )
    return WriteTxnMarkersRequest(markers=[marker])


def read_markers(answer: WriteTxnMarkersResponse) -> Iterator[tuple[TopicPartition, int, None]]:
    """Yield (partition, error code, None) for each partition in the answer."""
    for marker in answer.markers:
        for topic in marker.topics:
            for found in topic.partitions:
                yield TopicPartition(topic.name, found.partition_index), found.error_code, None


def fence_request(transactional_id: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=FENCED_TIMEOUT_MS)


def read_fenced(answer: InitProducerIdResponse, transactional_id: str) -> FencedProducer | KafkaError:
    """Return the new producer id and epoch, or the error: CONCURRENT_TRANSACTIONS while the old transaction is being aborted."""
    fenced = FencedProducer(answer.producer_id, answer.producer_epoch)
    return outcome(answer.error_code, fenced, f"Fencing the producer of {transactional_id}")


Open = tuple[TopicPartition, ActiveProducer]


def opened_before(time_ms: int, producers: Mapping[TopicPartition, Sequence[ActiveProducer]]) -> list[Open]:
    """Return the open transactions whose last write is before `time_ms` (Unix epoch), sorted by partition and start offset."""
    found = [
        (where, one.transaction_start_offset, one)
        for where, several in producers.items()
        for one in several
        if one.transaction_start_offset is not None and one.last_timestamp_ms < time_ms
    ]
    return [(where, one) for where, _, one in sorted(found)]


def find_hanging(candidates: Iterable[Open], descriptions: Iterable[TransactionDescription]) -> list[HangingTransaction]:
    """Return the candidates that no coordinator will end: no description has their producer id and their partition."""
    known = {found.producer_id: found for found in descriptions}
    found = []
    for where, producer in candidates:
        owner = known.get(producer.producer_id)
        if owner is None or where not in owner.partitions:
            found.append(HangingTransaction(where, producer, None if owner is None else owner.transactional_id))
    return found
