"""DescribeProducers: who wrote to a partition with a producer id, how far, and which transactions are open (KIP-664)."""

from __future__ import annotations

from typing import Final

from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Steps
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.later import LaterReplies, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.serving.slices import Slices
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import name_error
from ottla.log.producers import NO_SEQUENCE, ProducerState
from ottla.wire.api.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from ottla.wire.errors import ERRORS, INVALID_TOPIC_EXCEPTION, NONE, UNKNOWN_TOPIC_OR_PARTITION

TopicResult = DescribeProducersResponse.TopicResponse
PartitionResult = DescribeProducersResponse.PartitionResponse
State = DescribeProducersResponse.ProducerState

AT_ONCE: Final = 500
"""Producers that are described in one step, which takes about a millisecond."""


@serves(
    DescribeProducersRequest,
    Need(Operation.READ, Resource.TOPIC, "topics.name"),
    slices=Slices(((("topics", "partition_indexes"), ("topics", "partitions")),), things=10, whole_bytes=64),
)
def describe_producers(
    request: Request[DescribeProducersRequest], cluster: ClusterImage, partitions: Partitions, later: LaterReplies
) -> Reply:
    """Describe who writes to each partition, as any of its replicas knows it; an error of its own where that is not known.

    A partition may remember ten thousand producers: some of them are described at a time.
    """
    return later.computed(_described(request.body, cluster, partitions))


def _described(body: DescribeProducersRequest, cluster: ClusterImage, partitions: Partitions) -> Steps[Reply]:
    results = []
    for topic in body.topics:
        parts = _unknown(cluster, topic)
        if not parts:
            for index in topic.partition_indexes:
                parts.append((yield from _of_partition(partitions, topic.name, index)))
        results.append(TopicResult(name=topic.name, partitions=parts))
    return DescribeProducersResponse(topics=results)


def _unknown(cluster: ClusterImage, topic: DescribeProducersRequest.TopicRequest) -> list[PartitionResult]:
    """The error of each partition of a topic that is not there; nothing if it is."""
    error_code, message = NONE, name_error(topic.name)
    if message is not None:
        error_code = INVALID_TOPIC_EXCEPTION
    elif cluster.topics.get(topic.name) is None:
        error_code, message = UNKNOWN_TOPIC_OR_PARTITION, ERRORS[UNKNOWN_TOPIC_OR_PARTITION].sentence
    indexes = topic.partition_indexes if error_code else []
    return [PartitionResult(partition_index=index, error_code=error_code, error_message=message) for index in indexes]


def _of_partition(partitions: Partitions, topic: str, index: int) -> Steps[PartitionResult]:
    result = PartitionResult(partition_index=index)
    partition = partitions.get(topic, index)
    if partition is None:
        result.error_code = partitions.absent_error(topic, index)
    elif error_code := partition.reader_error():
        result.error_code, result.error_message = error_code, partition.offline
    else:
        producers = list(partition.log.producers.by_id.items())  # others write meanwhile
        for start in range(0, len(producers), AT_ONCE):
            result.active_producers += [_state(*producer) for producer in producers[start : start + AT_ONCE]]
            yield None
    return result


def _state(producer_id: int, producer: ProducerState) -> State:
    return State(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.batches[-1].last_sequence if producer.batches else NO_SEQUENCE,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.txn_first_offset,
    )
