"""DescribeProducers: who wrote to a partition with a producer id, how far, and which transactions are open (KIP-664)."""

from __future__ import annotations

from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.later import Reply
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


@serves(
    DescribeProducersRequest,
    Need(Operation.READ, Resource.TOPIC, "topics.name"),
    slices=Slices(((("topics", "partition_indexes"), ("topics", "partitions")),), things=100, whole_bytes=512),
)
def describe_producers(request: Request[DescribeProducersRequest], cluster: ClusterImage, partitions: Partitions) -> Reply:
    """Who writes to each partition, as any of its replicas knows it; an error of its own where that is not known."""
    results = []
    for topic in request.body.topics:
        parts = _unknown(cluster, topic) or [_of_partition(partitions, topic.name, index) for index in topic.partition_indexes]
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


def _of_partition(partitions: Partitions, topic: str, index: int) -> PartitionResult:
    result = PartitionResult(partition_index=index)
    partition = partitions.get(topic, index)
    if partition is None:
        result.error_code = partitions.absent_error(topic, index)
    elif error_code := partition.reader_error():
        result.error_code, result.error_message = error_code, partition.offline
    else:
        producers = partition.log.producers.by_id
        result.active_producers = [_state(producer_id, producer) for producer_id, producer in producers.items()]
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
