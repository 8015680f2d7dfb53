"""DescribeProducers: the producer state of partitions, with open transactions (KIP-664).

Served by every replica of a partition. Version 0 is the only version.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts, ResponseWriter
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import name_error
from ottla.log.producer_state.producers import NO_SEQUENCE, ProducerState
from ottla.ports import Steps
from ottla.wire.api.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from ottla.wire.errors import ERRORS, INVALID_TOPIC_EXCEPTION, NONE, UNKNOWN_TOPIC_OR_PARTITION

TopicResult = DescribeProducersResponse.TopicResponse
PartitionResult = DescribeProducersResponse.PartitionResponse
State = DescribeProducersResponse.ProducerState


ANSWERED: Final = ("topics", "partitions", "active_producers")
AT_ONCE: Final = 500
"""Producers described between two pauses."""


@serves(
    DescribeProducersRequest,
    Need(Operation.READ, Resource.TOPIC, "topics.name"),
    parts=Parts(((("topics", "partition_indexes"), ANSWERED),), things=100, whole_bytes=512, together=True),
)
def describe_producers(request: Request[DescribeProducersRequest], cluster: ClusterImage, partitions: Partitions) -> Steps[Reply]:
    """Describe the active producers of each partition, led here or not. A partition without a replica here gets an error."""
    writer = ResponseWriter(request, ANSWERED, DescribeProducersResponse())
    for part in writer.admit(request):
        for topic in part.body.topics:
            errors = _unknown(cluster, topic)
            if errors:
                yield from writer.put((_piece(topic.name, *errors),))
            for index in () if errors else topic.partition_indexes:
                pieces = (_piece(topic.name, each) for each in _of_partition(partitions, topic.name, index))
                yield from writer.put(pieces)
                if writer.is_too_large:
                    return writer.reply()
    return writer.reply()


def _piece(topic: str, *parts: PartitionResult) -> DescribeProducersResponse:
    return DescribeProducersResponse(topics=[TopicResult(name=topic, partitions=list(parts))])


def _unknown(cluster: ClusterImage, topic: DescribeProducersRequest.TopicRequest) -> list[PartitionResult]:
    """Return an error for each partition of a topic that does not exist; an empty list if it exists."""
    error_code, message = NONE, name_error(topic.name)
    if message is not None:
        error_code = INVALID_TOPIC_EXCEPTION
    elif cluster.topics.get(topic.name) is None:
        error_code, message = UNKNOWN_TOPIC_OR_PARTITION, ERRORS[UNKNOWN_TOPIC_OR_PARTITION].sentence
    indexes = topic.partition_indexes if error_code else []
    return [PartitionResult(partition_index=index, error_code=error_code, error_message=message) for index in indexes]


def _of_partition(partitions: Partitions, topic: str, index: int) -> Iterator[PartitionResult]:
    """Yield several results for one partition, each with some of its producers, or one result with an error."""
    partition = partitions.get(topic, index)
    if partition is None:
        yield PartitionResult(partition_index=index, error_code=partitions.absent_error(topic, index))
    elif error_code := partition.reader_error():
        yield PartitionResult(partition_index=index, error_code=error_code, error_message=partition.offline)
    else:
        producers = iter(list(partition.log.producers.by_id.items()))
        first = list(islice(producers, AT_ONCE))
        while True:
            yield PartitionResult(partition_index=index, active_producers=[_state(*each) for each in first])
            first = list(islice(producers, AT_ONCE))
            if not first:
                return


def _state(producer_id: int, producer: ProducerState) -> State:
    return State(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.batches[-1].last_sequence if producer.batches else NO_SEQUENCE,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.txn_first_offset,
    )
