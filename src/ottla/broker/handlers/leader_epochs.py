"""OffsetForLeaderEpoch: where a leader epoch ended, by which a reader finds out that its log has diverged (KIP-101, KIP-320)."""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.handlers.fetch import epoch_error
from ottla.broker.serving.request import Handlers, Reply, Request
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from ottla.wire.errors import KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_OR_PARTITION

TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
EpochEndOffset = OffsetForLeaderEpochResponse.EpochEndOffset
PartitionRequest = OffsetForLeaderEpochRequest.OffsetForLeaderPartition


def handle_offset_for_leader_epoch(broker: Broker, request: Request) -> Reply:
    """The largest epoch up to the one asked for, and where it ends; (-1, -1) where that is not known."""
    body: OffsetForLeaderEpochRequest = request.body
    return OffsetForLeaderEpochResponse(
        topics=[
            TopicResult(topic=topic.topic, partitions=[_end(broker, topic.topic, part) for part in topic.partitions])
            for topic in body.topics
        ]
    )


def _end(broker: Broker, topic: str, asked: PartitionRequest) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    partition = broker.partitions.get(topic, asked.partition)
    if partition is None:
        answer.error_code = UNKNOWN_TOPIC_OR_PARTITION
    elif partition.offline is not None:
        answer.error_code = KAFKA_STORAGE_ERROR
    else:
        answer.error_code = epoch_error(partition, asked.current_leader_epoch)
    if partition is None or answer.error_code:
        return answer
    if asked.leader_epoch == partition.leader_epoch:  # the log learns of it with the first batch only
        answer.leader_epoch, answer.end_offset = asked.leader_epoch, partition.log.log_end_offset
    else:
        answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return answer


HANDLERS: Handlers = {23: (range(5), handle_offset_for_leader_epoch)}
