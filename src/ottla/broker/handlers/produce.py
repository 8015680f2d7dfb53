"""Produce: batches of records from clients into logs. Knows headers of batches; `ottla.records` looks at what is in them.

Before version 3 a client may send message sets of magic 0 or 1, or a batch, whatever the version is: they become batches first, in
slices, so that a large set keeps nobody waiting.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Steps
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.later import LaterReplies, Promise, Reply, Waiting
from ottla.broker.serving.request import NO_REPLY, Close, Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage
from ottla.ports import Buffer, Now
from ottla.records.arrivals import Arrived, Terms, arrive
from ottla.records.batch import MAGIC, MAGIC_POSITION, BatchHeader, check
from ottla.records.verify import Refused
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_REQUIRED_ACKS,
    INVALID_TXN_STATE,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_name,
)

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
ONE_BATCH_FROM = 3
"""From here on a partition's records are one batch of magic 2 (KIP-98); before, they are of any format."""

STORAGE_ERROR_FROM = 4
TOPIC_IDS_FROM = 13

TopicResponse = ProduceResponse.TopicProduceResponse
PartitionResponse = ProduceResponse.PartitionProduceResponse
RecordError = ProduceResponse.BatchIndexAndErrorMessage
PartitionData = ProduceRequest.PartitionProduceData


Unsynced = list[tuple[Partition, int, PartitionResponse]]
"""What a reply waits for (acks=all, or flush.messages): (partition, offset after its records, its part of the reply)."""


class Converted(NamedTuple):
    """What old messages became, and on what terms."""

    terms: Terms
    arrived: Arrived


@serves(
    ProduceRequest,
    Need(Operation.WRITE, Resource.TRANSACTIONAL_ID, "transactional_id"),
    Need(Operation.WRITE, Resource.TOPIC, "topic_data.name"),
)
def produce(request: Request[ProduceRequest], partitions: Partitions, cluster: ClusterImage, later: LaterReplies) -> Reply:
    """Append each partition's batch; with acks=all the reply waits until all of it is on stable storage."""
    if request.version < ONE_BATCH_FROM:
        return later.computed(_convert(request, partitions, cluster))
    if request.release.bad_batches_close and not all(
        _is_batch(data.records or b"") for topic in request.body.topic_data for data in topic.partition_data
    ):
        return Close("a produce request carries something else than one batch of magic 2 for a partition")
    return _produce(request, partitions, cluster)


def _convert(request: Request[ProduceRequest], partitions: Partitions, cluster: ClusterImage) -> Steps[Reply]:
    """Old messages become batches before any is appended. The frame's bytes are copied, for they do not outlive a pause.

    Nor may the topic's settings: what was converted on other terms than those that hold in the end is converted again.
    """
    parts = [(topic.name, data) for topic in request.body.topic_data for data in topic.partition_data if data.records is not None]
    for _, data in parts:
        data.records = memoryview(bytearray(data.records or b""))
    converted: list[Converted | None] = [None] * len(parts)
    is_settled = False
    while not is_settled:
        is_settled = True
        for number, (topic, data) in enumerate(parts):
            terms, before = _terms(request, partitions.get(topic, data.index), data), converted[number]
            if terms is None:
                converted[number] = None
            elif before is None or before.terms != terms:
                converted[number] = Converted(terms, (yield from arrive(data.records or b"", terms)))
                is_settled = False
    for (_, data), conversion in zip(parts, converted, strict=True):
        if conversion is not None:
            data.records = conversion.arrived
    return _produce(request, partitions, cluster)


def _terms(request: Request[ProduceRequest], partition: Partition | None, data: PartitionData) -> Terms | None:
    """On what terms a partition takes these messages now; None if there is no such partition, or nothing to convert."""
    if partition is None or _is_batch(data.records or b""):
        return None
    return request.release.terms(partition.terms(request.now))


def _is_batch(records: Buffer) -> bool:
    return len(records) > MAGIC_POSITION and records[MAGIC_POSITION] == MAGIC


def _produce(request: Request[ProduceRequest], partitions: Partitions, cluster: ClusterImage) -> Reply:
    """Append what the request brings: a batch for each partition, or what became of older messages."""
    body, response = request.body, ProduceResponse()
    unsynced: Unsynced = []
    is_ordinary = body.acks in (ACKS_NONE, ACKS_LEADER, ACKS_ALL) and body.transactional_id is None
    refusal = NONE if is_ordinary else _refusal(request)
    for topic in body.topic_data:
        name = topic.name if request.version < TOPIC_IDS_FROM else cluster.name_of(topic.topic_id)
        parts = [
            _failed(data.index, refusal or UNKNOWN_TOPIC_ID)
            if refusal or name is None
            else _append(partitions.get(name, data.index), data, request, unsynced)
            for data in topic.partition_data
        ]
        response.responses.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts))
    if request.version < STORAGE_ERROR_FROM:
        _use_older_codes(response, request)
    if body.acks == ACKS_NONE:
        return _unanswered(response)
    if body.acks > ACKS_LEADER and request.release.waits_for_replicas(body.acks):
        return _too_few_replicas(response, request)
    return _when_synced(response, unsynced, request.version) if unsynced else response


def _refusal(request: Request[ProduceRequest]) -> int:
    if request.release.refuses_acks(request.body.acks, request.version):
        return INVALID_REQUIRED_ACKS
    return INVALID_TXN_STATE if request.body.transactional_id is not None else NONE


def _use_older_codes(response: ProduceResponse, request: Request[ProduceRequest]) -> None:
    """Replace the codes that were added after a version by those that its clients know."""
    instead = {KAFKA_STORAGE_ERROR: NOT_LEADER_OR_FOLLOWER}
    if request.version < ONE_BATCH_FROM and request.release.is_today:
        instead[INVALID_RECORD] = CORRUPT_MESSAGE
    for topic in response.responses:
        for part in topic.partition_responses:
            part.error_code = instead.get(part.error_code, part.error_code)


def _too_few_replicas(response: ProduceResponse, request: Request[ProduceRequest]) -> Reply:
    """Release 0.8.2 waits until as many replicas as acks says have the records: here there is one, and the time runs out."""

    def retry(now: Now, expired: bool) -> Reply:
        for topic in response.responses:
            for part in topic.partition_responses:
                part.error_code = part.error_code or REQUEST_TIMED_OUT
        return response

    return Waiting((), request.now.mono_ms + max(0, request.body.timeout_ms), retry)


def _failed(index: int, error_code: int, message: str | None = None) -> PartitionResponse:
    return PartitionResponse(index=index, error_code=error_code, base_offset=-1, error_message=message)


def _append(
    partition: Partition | None, data: PartitionData, request: Request[ProduceRequest], unsynced: Unsynced
) -> PartitionResponse:
    """Append one partition's records, and note them if the reply has to wait until they are on stable storage."""
    if partition is None:
        return _failed(data.index, UNKNOWN_TOPIC_OR_PARTITION)
    error_code = partition.leader_error()
    if error_code:
        return _failed(data.index, error_code)
    if data.records is None:
        return _failed(data.index, INVALID_RECORD, "The request holds no batch for this partition.")
    arrived = data.records
    if not isinstance(arrived, Arrived):
        checked = _checked(partition, data.records, request)
        if isinstance(checked, Refused):
            return _refused(data.index, checked)
        appended = partition.append(*checked, request.now)
    elif arrived.error_code:
        return _failed(data.index, arrived.error_code, arrived.sentence)
    elif not arrived.headers:  # all was one message torn at the end
        return PartitionResponse(index=data.index, base_offset=-1)
    else:
        appended = partition.append(arrived.view, arrived.headers, request.now)
    if appended.error_code:
        return _failed(data.index, appended.error_code)
    response = PartitionResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=partition.log.log_start_offset,
    )
    if partition.must_sync(acks_all=request.body.acks not in (ACKS_NONE, ACKS_LEADER)):
        unsynced.append((partition, appended.last_offset + 1, response))
    return response


def _checked(
    partition: Partition, records: memoryview, request: Request[ProduceRequest]
) -> tuple[memoryview | bytearray, tuple[BatchHeader]] | Refused:
    """A batch as it is to be appended, or why not."""
    error_code, header = check(records, request.version)
    if header is None:
        return Refused(error_code, "")
    if header.is_transactional:
        return Refused(INVALID_TXN_STATE, "No transaction is open: produce without a transactional id.")
    if not request.release.is_today and (error_code := request.release.batch_error(header.magic, header.codec)):
        return Refused(error_code, "")
    batch, header, refused = partition.check(records, header, request.now)
    return (batch, (header,)) if refused is None else refused


def _refused(index: int, refused: Refused) -> PartitionResponse:
    response = _failed(index, refused.error_code, refused.sentence or None)
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


def _when_synced(response: ProduceResponse, unsynced: Unsynced, version: int) -> Reply:
    """The response, once all that it tells of is on stable storage, or never will be."""
    promise = Promise(lambda: response, blocking=False, missing=len(unsynced))
    for partition, offset, part in unsynced:
        partition.when_synced(offset, partial(_synced, promise, part, version))
    return promise.reply()


def _synced(promise: Promise, part: PartitionResponse, version: int, error_code: int) -> None:
    if error_code:
        part.error_code, part.base_offset = _known(error_code, version), -1
    promise.happened()


def _known(error_code: int, version: int) -> int:
    return NOT_LEADER_OR_FOLLOWER if error_code == KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_FROM else error_code
