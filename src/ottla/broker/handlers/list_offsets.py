"""ListOffsets: the offset at a time, or a special offset such as the log's end, without reading records of small batches.

Version 0 answers the start offsets of segments; 1 one offset, with its timestamp; 2 added the isolation level, 4 leader epochs, 5
OFFSET_NOT_AVAILABLE (KIP-207), 7 the largest timestamp (KIP-734), 8 and 9 offsets of tiered storage (KIP-405, KIP-1005), 11 the
earliest pending upload (KIP-1023). There is no tiered storage: these offsets are -1, and the earliest local offset is the log's
start.

OffsetForLeaderEpoch returns the end offset of a leader epoch, by which readers detect divergent logs (KIP-101, KIP-320).
Version 1 added the leader epoch to the response, 2 the current leader epoch to the request, 3 the replica id, which is ignored.
"""

from __future__ import annotations

from collections import Counter

from ottla.broker.handlers.fetch_reading import READ_COMMITTED
from ottla.broker.long_checks import LongChecks
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.timestamp_search import find_timestamp
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import BY_PARTITION
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.replicas.leader import LeaderState
from ottla.log.errors import Damaged
from ottla.log.segments.timestamps import Found
from ottla.log.segments.write_times import segment_times
from ottla.ports import Disk, Now, Steps, StorageFailed
from ottla.wire.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from ottla.wire.errors import (
    CORRUPT_MESSAGE,
    INVALID_REQUEST,
    KAFKA_STORAGE_ERROR,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_NOT_AVAILABLE,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_VERSION,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The first version of each special timestamp (KIP-734, KIP-405, KIP-1005, KIP-1023); lower versions refuse it."""

NOTHING = (-1, -1)
ONE_OFFSET_FROM = 1
STORAGE_ERROR_FROM = 4
LEADER_EPOCH_FROM = 4
NOT_AVAILABLE_FROM = 5
TopicResponse = ListOffsetsResponse.ListOffsetsTopicResponse
Asked = ListOffsetsRequest.ListOffsetsPartition
PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse

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


@serves(
    ListOffsetsRequest,
    Need(Operation.DESCRIBE, Resource.TOPIC, "topics.name"),
    parts=BY_PARTITION,
)
def list_offsets(request: Request[ListOffsetsRequest], partitions: Partitions, disk: Disk, checks: LongChecks) -> Steps[Reply]:
    """Return (timestamp, offset) per partition. Large batches are decompressed by workers."""
    response = ListOffsetsResponse()
    for topic in request.body.topics:
        times = Counter(part.partition_index for part in topic.partitions)
        answered = TopicResponse(name=topic.name)
        for part in topic.partitions:
            answer = PartitionResponse(partition_index=part.partition_index, timestamp=-1, offset=-1)
            if request.version >= ONE_OFFSET_FROM and times[part.partition_index] > 1:
                answer = PartitionResponse(partition_index=part.partition_index, error_code=INVALID_REQUEST)
            else:
                partition = partitions.get(topic.name, part.partition_index)
                if partition is None:
                    answer.error_code = partitions.absent_error(topic.name, part.partition_index)
                else:
                    yield from _answer(answer, partition, part, request, disk, checks)
            answered.partitions.append(answer)
        response.topics.append(answered)
    return response


def _answer(
    answer: PartitionResponse,
    partition: Partition,
    part: Asked,
    request: Request[ListOffsetsRequest],
    disk: Disk,
    checks: LongChecks,
) -> Steps[None]:
    version = request.version
    is_known = version >= _first_version(part.timestamp, version)
    sought = request.release.sought_time(part.timestamp, is_known=is_known)
    if version >= ONE_OFFSET_FROM and sought is None:
        answer.error_code = UNSUPPORTED_VERSION
    else:
        answer.error_code = _supported_error(partition.leader_error(part.current_leader_epoch), version)
    if answer.error_code:
        return
    try:
        if version < ONE_OFFSET_FROM:
            if part.max_num_offsets < 0:
                answer.error_code = UNKNOWN_SERVER_ERROR
            else:
                answer.old_style_offsets = _segment_offsets(disk, partition, part, request.now)
            return
        assert sought is not None, "it was not refused"
        answer.error_code = _early(partition, sought, request)
        if not answer.error_code:
            answer.timestamp, answer.offset = yield from _find(partition, sought, request.body, checks)
    except StorageFailed as failure:
        answer.error_code = CORRUPT_MESSAGE if isinstance(failure, Damaged) else _supported_error(KAFKA_STORAGE_ERROR, version)
    if answer.offset >= 0 and version >= LEADER_EPOCH_FROM:
        answer.leader_epoch = partition.leader_epoch


def _first_version(timestamp: int, version: int) -> int:
    """Return the first version that accepts a timestamp. Return a number above `version` if the timestamp has no meaning."""
    return 0 if timestamp >= EARLIEST else FIRST_VERSION.get(timestamp, version + 1)


def _supported_error(error_code: int, version: int) -> int:
    """Return NOT_LEADER_OR_FOLLOWER instead of a storage error to older clients (KIP-112), so that they find another leader."""
    return NOT_LEADER_OR_FOLLOWER if error_code == KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_FROM else error_code


def _segment_offsets(disk: Disk, partition: Partition, part: Asked, now: Now) -> list[int]:
    """Return segment offsets for version 0, newest first: the bases of segments written at or before a time, and the log's end.

    The timestamp -1 means all segments, and -2 the first segment. At most `max_num_offsets` offsets are returned, and no offset
    above the high watermark.
    """
    offset_times = segment_times(disk, partition.log, now.wall_ms)
    match part.timestamp:
        case -1:
            count = len(offset_times)
        case -2:
            count = 1
        case _:
            count = max((number for number, (_, time) in enumerate(offset_times, 1) if time <= part.timestamp), default=0)
    found = [offset for offset, _ in reversed(offset_times[:count])][: part.max_num_offsets]
    high_watermark = partition.high_watermark
    visible = [offset for offset in found if offset <= high_watermark]
    return visible if len(visible) == len(found) else [high_watermark, *visible]


def _early(partition: Partition, sought: int, request: Request[ListOffsetsRequest]) -> int:
    """Return the error for the end offset while a new leader has not determined the high watermark yet (KIP-207), else NONE."""
    leader = partition.replicas
    is_known = not isinstance(leader, LeaderState) or partition.high_watermark >= leader.start_offset
    if is_known or sought != LATEST or request.body.replica_id >= 0:
        return NONE
    return OFFSET_NOT_AVAILABLE if request.version >= NOT_AVAILABLE_FROM else LEADER_NOT_AVAILABLE


def _find(partition: Partition, timestamp: int, asked: ListOffsetsRequest, checks: LongChecks) -> Steps[Found]:
    latest = partition.last_stable_offset if asked.isolation_level == READ_COMMITTED else partition.high_watermark
    if partition.replicas is not None and asked.replica_id >= 0:
        latest = partition.log.log_end_offset
    match timestamp:
        case -1:
            return -1, latest
        case -2 | -4:
            return -1, partition.log.log_start_offset
        case -5 | -6:
            return NOTHING
        case _:
            found = yield from find_timestamp(partition, None if timestamp == MAX_TIMESTAMP else timestamp, checks)
    return found if found is not None and found[1] < latest else NOTHING
