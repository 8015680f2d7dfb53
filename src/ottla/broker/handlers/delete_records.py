"""DeleteRecords: a later start offset for the logs of partitions (KIP-107).

Offset -1 is the high watermark. The reply waits until all live replicas have the new start offset, for `timeout_ms` at most.
Segments are deleted later, by retention. Versions differ in encoding only.
"""

from __future__ import annotations

from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import BY_PARTITION
from ottla.broker.serving.purgatory import DelayedOperation, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.names import INTERNAL
from ottla.ports import Now, Steps
from ottla.wire.api.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from ottla.wire.errors import (
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    OFFSET_OUT_OF_RANGE,
    POLICY_VIOLATION,
    REQUEST_TIMED_OUT,
)

TO_HIGH_WATERMARK = -1
NO_OFFSET = -1
TopicResult = DeleteRecordsResponse.DeleteRecordsTopicResult
PartitionResult = DeleteRecordsResponse.DeleteRecordsPartitionResult


@serves(
    DeleteRecordsRequest,
    Need(Operation.DELETE, Resource.TOPIC, "topics.name"),
    parts=BY_PARTITION,
)
def delete_records(request: Request[DeleteRecordsRequest], partitions: Partitions) -> Steps[Reply]:
    """Set the log start offsets; if a partition is named twice, the last offset counts."""
    wanted: dict[str, dict[int, int]] = {}
    for topic in request.body.topics:
        wanted.setdefault(topic.name, {}).update((part.partition_index, part.offset) for part in topic.partitions)
    starts: dict[Partition, int] = {}
    results = {
        name: [_new_start(partitions, name, index, offset, starts) for index, offset in offsets.items()]
        for name, offsets in wanted.items()
    }
    yield from partitions.checkpoints.begin_at(starts)
    for partition, offset in starts.items():
        part = _part(results, partition)
        is_gone = partitions.get(partition.topic, partition.index) is not partition
        part.error_code = partitions.absent_error(partition.topic, partition.index) if is_gone else partition.leader_error()
        if not part.error_code and partition.log.log_start_offset < offset:
            part.error_code = KAFKA_STORAGE_ERROR  # the new start offset could not be written, so the old one remains
        if not part.error_code:
            part.low_watermark = partition.log.log_start_offset
    response = DeleteRecordsResponse(topics=[TopicResult(name=name, partitions=parts) for name, parts in results.items()])
    replicated = {partition: offset for partition, offset in starts.items() if partition.replicas is not None}
    until_ms = request.now.mono_ms + max(0, request.body.timeout_ms)
    return _by_all_replicas(response, results, replicated, until_ms) if replicated else response


def _by_all_replicas(
    response: DeleteRecordsResponse, results: dict[str, list[PartitionResult]], starts: dict[Partition, int], until_ms: int
) -> Reply:
    """Return the response once all live replicas have the start offsets `starts`, or at `until_ms` on the monotonic clock."""
    parts = {partition: _part(results, partition) for partition in starts}
    left = {partition: offset for partition, offset in starts.items() if not parts[partition].error_code}

    def retry(now: Now, expired: bool) -> Reply | None:
        for partition, offset in list(left.items()):
            part = parts[partition]
            part.error_code = partition.leader_error()
            part.low_watermark = NO_OFFSET if part.error_code else partition.low_watermark
            if part.error_code or part.low_watermark >= offset:
                del left[partition]
            elif expired:
                part.error_code = REQUEST_TIMED_OUT
        return None if left and not expired else response

    return retry(Now(0, 0), False) or DelayedOperation(tuple(partition.key for partition in left), until_ms, retry)


def _part(results: dict[str, list[PartitionResult]], partition: Partition) -> PartitionResult:
    return next(part for part in results[partition.topic] if part.partition_index == partition.index)


def _new_start(partitions: Partitions, topic: str, index: int, offset: int, starts: dict[Partition, int]) -> PartitionResult:
    """Return the result for a partition. Unless it is an error, add the partition's new start offset to `starts`."""
    partition = partitions.get(topic, index)
    error_code = partitions.absent_error(topic, index) if partition is None else _refusal(partition, offset)
    if partition is not None and not error_code:
        starts[partition] = partition.high_watermark if offset == TO_HIGH_WATERMARK else offset
    return PartitionResult(partition_index=index, low_watermark=NO_OFFSET, error_code=error_code)


def _refusal(partition: Partition, offset: int) -> int:
    if partition.topic in INTERNAL:
        return INVALID_TOPIC_EXCEPTION
    error_code = partition.leader_error()
    if error_code:
        return error_code
    if partition.config.compacts and not partition.config.deletes:
        return POLICY_VIOLATION
    return NONE if TO_HIGH_WATERMARK <= offset <= partition.high_watermark else OFFSET_OUT_OF_RANGE
