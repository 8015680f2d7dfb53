"""ListOffsets: the offset at a time, or at one of the log's marks. Knows no records, only the log's indexes."""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.handlers.fetch import READ_COMMITTED, epoch_error
from ottla.broker.partitions import Partition
from ottla.broker.request import Handlers, Reply, Request
from ottla.ports import StorageFailed
from ottla.wire.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.errors import INVALID_REQUEST, KAFKA_STORAGE_ERROR, UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_VERSION

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""Marks that came later (KIP-734, KIP-405, KIP-1005, KIP-1023); a lower version that asks for one is refused."""

NOTHING = (-1, -1)
LEADER_EPOCH_FROM = 4
TopicResponse = ListOffsetsResponse.ListOffsetsTopicResponse
PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse


def handle_list_offsets(broker: Broker, request: Request) -> Reply:
    """Answer (timestamp, offset) for each partition asked for."""
    body: ListOffsetsRequest = request.body
    response = ListOffsetsResponse()
    for topic in body.topics:
        asked = [part.partition_index for part in topic.partitions]
        parts = [
            PartitionResponse(partition_index=part.partition_index, error_code=INVALID_REQUEST)
            if asked.count(part.partition_index) > 1
            else _answer(broker, topic.name, part, body.isolation_level, request.version)
            for part in topic.partitions
        ]
        response.topics.append(TopicResponse(name=topic.name, partitions=parts))
    return response


def _answer(
    broker: Broker, topic: str, part: ListOffsetsRequest.ListOffsetsPartition, isolation_level: int, version: int
) -> PartitionResponse:
    answer = PartitionResponse(partition_index=part.partition_index, timestamp=-1, offset=-1)
    partition = broker.partitions.get(topic, part.partition_index)
    if partition is None:
        answer.error_code = UNKNOWN_TOPIC_OR_PARTITION
    elif partition.offline is not None:
        answer.error_code = KAFKA_STORAGE_ERROR
    elif part.timestamp < LATEST and version < FIRST_VERSION.get(part.timestamp, 0 if part.timestamp == EARLIEST else version + 1):
        answer.error_code = UNSUPPORTED_VERSION
    else:
        answer.error_code = epoch_error(partition, part.current_leader_epoch)
    if partition is None or answer.error_code:
        return answer
    try:
        answer.timestamp, answer.offset = _find(partition, part.timestamp, isolation_level)
    except StorageFailed:
        answer.error_code = KAFKA_STORAGE_ERROR
    if answer.offset >= 0 and version >= LEADER_EPOCH_FROM:
        answer.leader_epoch = partition.leader_epoch
    return answer


def _find(partition: Partition, timestamp: int, isolation_level: int) -> tuple[int, int]:
    latest = partition.last_stable_offset if isolation_level == READ_COMMITTED else partition.high_watermark
    match timestamp:
        case -1:
            return -1, latest
        case -2 | -4:
            return -1, partition.log.log_start_offset
        case -5 | -6:
            return NOTHING
        case -3:
            found = partition.log.max_timestamp_offset()
        case _:
            found = partition.log.offset_for_timestamp(timestamp)
    return found if found is not None and found[1] < latest else NOTHING


HANDLERS: Handlers = {2: (range(1, 12), handle_list_offsets)}
