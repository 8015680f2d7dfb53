"""Produce: batches of records from clients into logs. Knows headers of batches; `ottla.records` looks at what is in them."""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.partitions import Partition
from ottla.broker.request import NO_REPLY, Close, Handlers, Reply, Request, Waiting
from ottla.ports import Now
from ottla.records.batch import check
from ottla.records.verify import Refused
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.errors import (
    INVALID_RECORD,
    INVALID_REQUIRED_ACKS,
    INVALID_TXN_STATE,
    KAFKA_STORAGE_ERROR,
    NONE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_name,
)

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
TOPIC_IDS_FROM = 13

TopicResponse = ProduceResponse.TopicProduceResponse
PartitionResponse = ProduceResponse.PartitionProduceResponse
RecordError = ProduceResponse.BatchIndexAndErrorMessage
PartitionData = ProduceRequest.PartitionProduceData

Unsynced = list[tuple[Partition, int, PartitionResponse]]
"""What a reply waits for (acks=all, or flush.messages): (partition, offset after its records, its part of the reply)."""


def handle_produce(broker: Broker, request: Request) -> Reply:
    """Append each partition's batch; with acks=all the reply waits until all of it is on stable storage."""
    body: ProduceRequest = request.body
    unsynced: Unsynced = []
    response = ProduceResponse()
    refusal = _refusal(body)
    for topic in body.topic_data:
        name, unknown = _topic_name(broker, topic, request.version)
        parts = [
            _failed(data.index, refusal or unknown) if refusal or unknown else _append(broker, name, data, request, unsynced)
            for data in topic.partition_data
        ]
        response.responses.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts))
    if body.acks == ACKS_NONE:
        return _unanswered(response)
    if unsynced:
        return _when_synced(response, unsynced)
    return response


def _refusal(body: ProduceRequest) -> int:
    if body.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        return INVALID_REQUIRED_ACKS
    return INVALID_TXN_STATE if body.transactional_id is not None else NONE


def _topic_name(broker: Broker, topic: ProduceRequest.TopicProduceData, version: int) -> tuple[str, int]:
    if version < TOPIC_IDS_FROM:
        return topic.name, NONE
    name = broker.topics.name_of(topic.topic_id)
    return (name, NONE) if name is not None else ("", UNKNOWN_TOPIC_ID)


def _failed(index: int, error_code: int, message: str | None = None) -> PartitionResponse:
    return PartitionResponse(index=index, error_code=error_code, base_offset=-1, error_message=message)


def _append(broker: Broker, topic: str, data: PartitionData, request: Request, unsynced: Unsynced) -> PartitionResponse:
    partition = broker.partitions.get(topic, data.index)
    if partition is None:
        return _failed(data.index, UNKNOWN_TOPIC_OR_PARTITION)
    if data.records is None:
        return _failed(data.index, INVALID_RECORD, "The request holds no batch for this partition.")
    error_code, header = check(data.records, request.version)
    if header is None:
        return _failed(data.index, error_code)
    if header.is_transactional:
        return _failed(data.index, INVALID_TXN_STATE, "No transaction is open: produce without a transactional id.")
    header, refused = partition.check(data.records, header, request.now)
    if refused is not None:
        return _refused(data.index, refused)
    records, header, refused = partition.encode(data.records, header)
    if refused is not None:
        return _refused(data.index, refused)
    appended = partition.append(records, (header,), request.now)
    if appended.error_code:
        return _failed(data.index, appended.error_code)
    response = PartitionResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=partition.log.log_start_offset,
    )
    if partition.must_sync(acks_all=request.body.acks == ACKS_ALL):
        unsynced.append((partition, appended.last_offset + 1, response))
    return response


def _refused(index: int, refused: Refused) -> PartitionResponse:
    response = _failed(index, refused.error_code, refused.sentence)
    response.record_errors = [
        RecordError(batch_index=record, batch_index_error_message=sentence) for record, sentence in refused.records
    ]
    return response


def _unanswered(response: ProduceResponse) -> Reply:
    """acks=0 has no reply; a failure closes the connection, so that the producer looks for the leader anew."""
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code:
                return Close(
                    f"a produce request with acks=0 to {topic.name}-{part.index} failed with {error_name(part.error_code)}"
                )
    return NO_REPLY


def _when_synced(response: ProduceResponse, unsynced: Unsynced) -> Reply:
    """Wait without an end: a timeout would make the client send again what is being written."""

    def retry(now: Now, expired: bool) -> Reply:
        waiting = False
        for partition, offset, part in unsynced:
            if partition.offline is not None:
                part.error_code, part.base_offset = KAFKA_STORAGE_ERROR, -1
            elif not partition.is_synced(offset):
                waiting = True
        return keep if waiting else response

    keep = Waiting(tuple(partition.synced_key for partition, _, _ in unsynced), None, retry, blocking=False)
    return retry(Now(0, 0), False)


HANDLERS: Handlers = {0: (range(3, 14), handle_produce)}
