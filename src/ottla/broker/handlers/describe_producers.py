"""DescribeProducers: who wrote to a partition with a producer id, how far, and which transactions are open (KIP-664)."""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.serving.request import Handlers, Reply, Request
from ottla.cluster.names import name_error
from ottla.log.producers import NO_SEQUENCE, ProducerState
from ottla.wire.api.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from ottla.wire.errors import ERRORS, INVALID_TOPIC_EXCEPTION, KAFKA_STORAGE_ERROR, NONE, UNKNOWN_TOPIC_OR_PARTITION

TopicResult = DescribeProducersResponse.TopicResponse
PartitionResult = DescribeProducersResponse.PartitionResponse
State = DescribeProducersResponse.ProducerState


def handle_describe_producers(broker: Broker, request: Request) -> Reply:
    body: DescribeProducersRequest = request.body
    topics = [
        TopicResult(name=topic.name, partitions=_of_topic(broker, topic.name, topic.partition_indexes)) for topic in body.topics
    ]
    return DescribeProducersResponse(topics=topics)


def _of_topic(broker: Broker, topic: str, indexes: list[int]) -> list[PartitionResult]:
    error_code, message = NONE, name_error(topic)
    if message is not None:
        error_code = INVALID_TOPIC_EXCEPTION
    elif broker.topics.get(topic) is None:
        error_code, message = UNKNOWN_TOPIC_OR_PARTITION, ERRORS[UNKNOWN_TOPIC_OR_PARTITION].sentence
    if error_code:
        return [PartitionResult(partition_index=index, error_code=error_code, error_message=message) for index in indexes]
    return [_of_partition(broker, topic, index) for index in indexes]


def _of_partition(broker: Broker, topic: str, index: int) -> PartitionResult:
    result = PartitionResult(partition_index=index)
    partition = broker.partitions.get(topic, index)
    if partition is None:
        result.error_code = UNKNOWN_TOPIC_OR_PARTITION
    elif partition.offline is not None:
        result.error_code, result.error_message = KAFKA_STORAGE_ERROR, partition.offline
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


HANDLERS: Handlers = {61: (range(1), handle_describe_producers)}
