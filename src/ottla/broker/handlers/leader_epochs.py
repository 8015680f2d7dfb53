"""OffsetForLeaderEpoch: the end offset of a leader epoch, by which readers detect divergent logs (KIP-101, KIP-320).

Version 1 added the leader epoch to the response, 2 the current leader epoch to the request, 3 the replica id, which is ignored.
"""

from __future__ import annotations

from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import BY_PARTITION
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

TopicResult = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
EpochEndOffset = OffsetForLeaderEpochResponse.EpochEndOffset
PartitionRequest = OffsetForLeaderEpochRequest.OffsetForLeaderPartition


@serves(
    OffsetForLeaderEpochRequest,
    Need(Operation.DESCRIBE, Resource.TOPIC, "topics.topic", instead=Operation.CLUSTER_ACTION),
    parts=BY_PARTITION,
)
def offset_for_leader_epoch(request: Request[OffsetForLeaderEpochRequest], partitions: Partitions) -> Reply:
    """Return the largest epoch up to the requested epoch, and its end offset; (-1, -1) if unknown."""
    return OffsetForLeaderEpochResponse(
        topics=[
            TopicResult(topic=topic.topic, partitions=[_end(partitions, topic.topic, part) for part in topic.partitions])
            for topic in request.body.topics
        ]
    )


def _end(partitions: Partitions, topic: str, asked: PartitionRequest) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    partition = partitions.get(topic, asked.partition)
    if partition is None:
        answer.error_code = partitions.absent_error(topic, asked.partition)
    else:
        answer.error_code = partition.leader_error(asked.current_leader_epoch)
    if partition is None or answer.error_code:
        return answer
    if asked.leader_epoch == partition.leader_epoch:  # the log contains the epoch only after its first batch
        answer.leader_epoch, answer.end_offset = asked.leader_epoch, partition.log.log_end_offset
    else:
        answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return answer
