"""One partition's part of a produce request: checked against its topic's config, then appended, without waiting."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ottla.broker.partitions.partition import Checked, Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving.request import Request
from ottla.cluster.names import ADMIN_CLIENT, INTERNAL
from ottla.log.log import LogConfig
from ottla.ports import Buffer
from ottla.records.batches.header import MAGIC, MAGIC_POSITION, NO_HEADER, TRANSACTIONAL_BIT, BatchHeader, check
from ottla.records.batches.verification import Refused
from ottla.records.message_sets.up_conversion import Arrived
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.errors import INVALID_RECORD, INVALID_TOPIC_EXCEPTION, NONE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1

PartitionResponse = ProduceResponse.PartitionProduceResponse
RecordError = ProduceResponse.BatchIndexAndErrorMessage
PartitionData = ProduceRequest.PartitionProduceData

Unsynced = list[tuple[Partition, int, PartitionResponse]]
"""Appended parts that a reply with acks=all or flush.messages waits for: (partition, offset after the records, response)."""

Taken = tuple[int, Partition, LogConfig, bytearray | memoryview, tuple[BatchHeader, ...]]
"""A checked part: (partition index, partition, its config at the check, batches to append, their headers)."""

Looked = Taken | PartitionResponse
"""The result of a check: batches to append, or the response that refuses them."""


def error_response(index: int, error_code: int, message: str | None = None) -> PartitionResponse:
    return PartitionResponse(index=index, error_code=error_code, base_offset=-1, error_message=message)


def check_part(
    name: str | None, data: PartitionData, request: Request[ProduceRequest], partitions: Partitions, refusal: int
) -> Looked | None:
    """Check the records for one partition; return None if the check takes long. Only the batch itself is changed."""
    if name in INTERNAL and not refusal:
        refusal = internal_error(request)
    partition = None if refusal or name is None else partitions.get(name, data.index)
    records: Any = data.records
    if partition is None or records is None or partition.leader_error():
        return untaken(name, data, partitions, refusal)
    if isinstance(records, Arrived):
        return _check_converted(partition, data.index, records)
    header = _sound(records, request)
    if isinstance(header, Refused):
        return refused_part(data.index, header)
    checked = partition.check_at_once(records, header, request.now)
    if checked is None:
        return None
    batch, header, refused = checked
    if refused is not None:
        partition.traffic.failed_produces += 1
        return refused_part(data.index, refused)
    return data.index, partition, partition.config, batch, (header,)


def internal_error(request: Request[ProduceRequest]) -> int:
    """Return the error for a topic that only coordinators write to, because other records in the topic could not be replayed."""
    return NONE if request.client_id == ADMIN_CLIENT else INVALID_TOPIC_EXCEPTION


def untaken(name: str | None, data: PartitionData, partitions: Partitions, refusal: int) -> PartitionResponse:
    """Return the error for a partition's records that can't be appended.

    The reason is a refusal, a missing partition or leader, or missing records.
    """
    if refusal or name is None:
        return error_response(data.index, refusal or UNKNOWN_TOPIC_ID)
    partition = partitions.get(name, data.index)
    error_code = partitions.absent_error(name, data.index) if partition is None else partition.leader_error()
    if error_code:
        return error_response(data.index, error_code)
    return error_response(data.index, INVALID_RECORD, "The request has no batch for this partition.")


def _check_converted(partition: Partition, index: int, arrived: Arrived) -> Looked:
    """Return the result of the check for messages of an old format that were converted to batches."""
    if arrived.error_code:
        return error_response(index, arrived.error_code, arrived.sentence)
    if not arrived.headers:  # there was only a truncated message
        return PartitionResponse(index=index, base_offset=-1)
    return index, partition, partition.config, arrived.view, arrived.headers


def is_current(taken: Taken, partitions: Partitions) -> bool:
    """Return whether the partition and its config are unchanged since the check."""
    index, partition, config, _, _ = taken
    return partitions.get(partition.topic, index) is partition and partition.config is config


def append_part(looked: Looked, request: Request[ProduceRequest], unsynced: Unsynced) -> PartitionResponse:
    """Append one partition's records, and record in `unsynced` whether the reply must wait for stable storage."""
    if isinstance(looked, PartitionResponse):
        return looked
    index, partition, _, records, headers = looked
    acks_all = request.body.acks not in (ACKS_NONE, ACKS_LEADER)
    if acks_all and partition.replicas is not None and (error_code := partition.acks_error()):
        return error_response(index, error_code)
    appended = partition.append(records, headers, request.now, writer=request.peer)
    traffic = partition.traffic
    if appended.error_code:
        traffic.failed_produces += 1
        return error_response(index, appended.error_code)
    traffic.produces += 1
    traffic.messages_in += appended.last_offset + 1 - appended.base_offset
    traffic.bytes_in += len(records)
    response = PartitionResponse(
        index=index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=partition.log.log_start_offset,
    )
    if (acks_all and partition.replicas is not None) or partition.must_sync(acks_all=acks_all):
        unsynced.append((partition, appended.last_offset + 1, response))
    return response


def _sound(records: memoryview, request: Request[ProduceRequest]) -> BatchHeader | Refused:
    """Check the header of a batch. Return the header if it is valid, otherwise the refusal."""
    error_code, header = check(records, request.version)
    if header is None:
        return Refused(error_code, "")
    if header.attributes & TRANSACTIONAL_BIT and request.body.transactional_id is None:
        return Refused(TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Records of a transaction came without a transactional id.")
    if not request.release.is_today and (error_code := request.release.batch_error(header.magic, header.codec)):
        return Refused(error_code, "")
    return header


def check_slowly(partition: Partition, records: memoryview, request: Request[ProduceRequest]) -> Generator[int, None, Checked]:
    """Return the batch to append, or the refusal, with pauses as in `Partition.check_slowly`."""
    header = _sound(records, request)
    if isinstance(header, Refused):
        return records, NO_HEADER, header
    return (yield from partition.check_slowly(records, header, request.now))


def refused_part(index: int, refused: Refused) -> PartitionResponse:
    response = error_response(index, refused.error_code, refused.sentence or None)
    response.record_errors = [
        RecordError(batch_index=record, batch_index_error_message=sentence) for record, sentence in refused.records
    ]
    return response


def is_batch(records: Buffer) -> bool:
    return len(records) > MAGIC_POSITION and records[MAGIC_POSITION] == MAGIC
