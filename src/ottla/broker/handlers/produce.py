"""Produce: batches of records from clients into logs. Knows headers of batches; `ottla.records` looks at what is in them.

All batches of a request are looked at before any is appended. What takes long is a job, for which only its connection waits.
Before version 3 a client may send message sets of magic 0 or 1, or a batch, whatever the version is: they become batches first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from ottla.broker.coordination.guard import Admission, TransactionGuard
from ottla.broker.failures import Mistake
from ottla.broker.partitions.partition import Checked, Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.replication.acknowledgements import Acknowledgements
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.long_checks import LARGE_BYTES, LongChecks
from ottla.broker.serving.purgatory import DelayedOperation, DelayedReply, Purgatory, Reply
from ottla.broker.serving.request import NO_REPLY, Close, Encoded, Ready, Request, Whole
from ottla.broker.serving.routes import serves
from ottla.broker.serving.slices import Slices, awaited
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import ADMIN_CLIENT, INTERNAL
from ottla.log.log import LogConfig
from ottla.ports import Buffer, Now, Steps
from ottla.records.batches.header import (
    HEADER_BYTES,
    MAGIC,
    MAGIC_POSITION,
    NO_HEADER,
    TRANSACTIONAL_BIT,
    BatchHeader,
    check,
    read_header,
)
from ottla.records.batches.verification import Refused
from ottla.records.compression.codecs import MOST_EXPANSION
from ottla.records.compression.limits import PAUSE_BYTES
from ottla.records.message_sets.up_conversion import Arrived, Terms, arrive
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.codec.blocks import BlockWriter
from ottla.wire.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_REQUIRED_ACKS,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    MESSAGE_TOO_LARGE,
    NONE,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    error_name,
)
from ottla.wire.framing import BOUNDED_BYTES

log = logging.getLogger("ottla.broker")

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1
ONE_BATCH_FROM = 3
"""From here on a partition's records are one batch of magic 2 (KIP-98); before, they are of any format."""

STORAGE_ERROR_FROM = 4
TOPIC_IDS_FROM = 13

BY_PARTITION: Final = (("topic_data", "partition_data"), ("responses", "partition_responses"))

TopicResponse = ProduceResponse.TopicProduceResponse
PartitionResponse = ProduceResponse.PartitionProduceResponse
RecordError = ProduceResponse.BatchIndexAndErrorMessage
PartitionData = ProduceRequest.PartitionProduceData


Unsynced = list[tuple[Partition, int, PartitionResponse]]
"""What a reply waits for (acks=all, or flush.messages): (partition, offset after its records, its part of the reply)."""

AT_ONCE_BYTES = PAUSE_BYTES
"""How many bytes of records are looked at while others wait. Each partition counts as some more: it takes time of its own."""

PARTITION_BYTES = 8192
PAUSE_PARTITIONS = 16
MISTAKEN = "%s: a batch met a bug in Ottla and was refused; please report these lines"
MISTAKE = "The batch was refused because of a bug in the broker: please report the exception in the broker's log."


Kept = tuple[Callable[[Callable[[int], None]], None], list[PartitionResponse]]
"""What tells when partitions are part of a transaction for good, and the parts of the reply that wait for it."""

Taken = tuple[int, Partition, LogConfig, bytearray | memoryview, tuple[BatchHeader, ...]]
"""(partition index, partition, its settings, batches as they are to be appended, their headers), once they were looked at."""

Looked = Taken | PartitionResponse
"""What became of one partition's part of a request: batches to be appended, or why there are none."""


class Converted(NamedTuple):
    """What old messages became, and on what terms."""

    terms: Terms
    arrived: Arrived


def _writes_to_transaction(body: ProduceRequest) -> bool:
    """Whether any records of a request are a transaction's. The id that others come with means nothing, as in Kafka."""
    return any(
        _is_batch(records) and len(records) >= HEADER_BYTES and read_header(records).is_transactional
        for topic in body.topic_data
        for data in topic.partition_data
        if (records := data.records) is not None
    )


@serves(
    ProduceRequest,
    Need(Operation.WRITE, Resource.TRANSACTIONAL_ID, "transactional_id", when=_writes_to_transaction),
    Need(Operation.WRITE, Resource.TOPIC, "topic_data.name"),
    slices=Slices((BY_PARTITION,), whole_bytes=BOUNDED_BYTES, asked_whole=True, at_once=2000),
)
def produce(
    request: Request[ProduceRequest],
    partitions: Partitions,
    cluster: ClusterImage,
    purgatory: Purgatory,
    checks: LongChecks,
    guard: TransactionGuard,
) -> Reply:
    """Append each partition's batch; with acks=all the reply waits until all of it is on stable storage."""
    if request.whole is not None:
        return purgatory.run(_in_blocks(request, request.whole, partitions, cluster, purgatory, checks, guard))
    if request.body.transactional_id is not None:
        return purgatory.run(SlowProduce(request, partitions, cluster, purgatory, checks, guard).steps())
    if request.version < ONE_BATCH_FROM:
        return purgatory.run(_convert(request, partitions, cluster, purgatory, checks))
    return (
        (request.release.bad_batches_close and _other_than_batches(request))
        or _produce(request, partitions, cluster, purgatory)
        or purgatory.run(SlowProduce(request, partitions, cluster, purgatory, checks).steps())
    )


def _other_than_batches(request: Request[ProduceRequest]) -> Close | None:
    """The end of a connection, where a release ends it for what is no batch."""
    if not all(_is_batch(data.records or b"") for topic in request.body.topic_data for data in topic.partition_data):
        return Close("a produce request carries something else than one batch of magic 2 for a partition")
    return None


def _in_blocks(
    request: Request[ProduceRequest],
    whole: Whole,
    partitions: Partitions,
    cluster: ClusterImage,
    purgatory: Purgatory,
    checks: LongChecks,
    guard: TransactionGuard,
) -> Steps[Reply]:
    """A request of very many partitions: all are looked at, then all are appended to, then all are answered.

    Old messages are converted and appended a block at a time.
    """
    blocks: list[tuple[Request[ProduceRequest], SlowProduce | Steps[Ready]]] = []
    for block in whole.reader.blocks():
        part = replace(request, body=whole.reader.part(block), whole=None)
        stopped = whole.admit(part) or (_other_than_batches(part) if part.release.bad_batches_close else None)
        if isinstance(stopped, Close):
            return stopped
        if stopped is not None:
            blocks.append((part, awaited(purgatory, stopped)))
        elif part.version < ONE_BATCH_FROM:
            blocks.append((part, awaited(purgatory, (yield from _convert(part, partitions, cluster, purgatory, checks)))))
        else:
            slow = SlowProduce(part, partitions, cluster, purgatory, checks, guard)
            yield from slow.look()
            blocks.append((part, slow))
        yield None
    replies: list[tuple[Request[ProduceRequest], Steps[Ready]]] = []
    for part, found in blocks:
        replies.append((part, awaited(purgatory, (yield from found.append())) if isinstance(found, SlowProduce) else found))
    return (yield from _answered(request, whole, replies))


def _answered(
    request: Request[ProduceRequest], whole: Whole, replies: list[tuple[Request[ProduceRequest], Steps[Ready]]]
) -> Steps[Reply]:
    """The replies to all blocks as one: none, or the end of the connection, if one of them says so."""
    writer = BlockWriter(request.version, BY_PARTITION[1])
    instead: Reply | None = None
    for part, reply in replies:
        ready = yield from reply
        if isinstance(ready, ProduceResponse):
            writer.add(whole.tell(part, ready))
        elif instead is None or isinstance(ready, Close):
            instead = ready
        yield None
    return Encoded(writer.parts()) if instead is None else instead


def _produce(request: Request[ProduceRequest], partitions: Partitions, cluster: ClusterImage, purgatory: Purgatory) -> Reply | None:
    """Look at all that the request brings, then append it; None if looking takes longer than others are kept waiting."""
    body, left = request.body, AT_ONCE_BYTES
    looked: list[Looked] = []
    refusal = NONE if body.acks in (ACKS_NONE, ACKS_LEADER, ACKS_ALL) else _refusal(request)
    for topic in body.topic_data:
        name = topic.name if request.version < TOPIC_IDS_FROM else cluster.name_of(topic.topic_id)
        for data in topic.partition_data:
            left -= PARTITION_BYTES + len(data.records or b"")
            found = _look(name, data, request, partitions, refusal) if left >= 0 else None
            if found is None:
                return None
            looked.append(found)
    response, at = ProduceResponse(), 0
    unsynced: Unsynced = []
    for topic in body.topic_data:
        end = at + len(topic.partition_data)
        parts = [_append(found, request, unsynced) for found in looked[at:end]]
        response.responses.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts))
        at = end
    return _reply(request, response, unsynced, purgatory)


class SlowProduce:
    """The same with pauses, and with what takes long to open on other threads."""

    def __init__(
        self,
        request: Request[ProduceRequest],
        partitions: Partitions,
        cluster: ClusterImage,
        purgatory: Purgatory,
        checks: LongChecks,
        guard: TransactionGuard | None = None,
    ) -> None:
        """Without a `guard` no records of transactions are taken."""
        self._guard = guard
        self._admission: Admission | None = None
        self._request = request
        self._purgatory = purgatory
        self._partitions = partitions
        self._checks = checks
        self._refusal = _refusal(request)
        self._looked: list[Looked] = []
        self._parts = [
            (topic.name if request.version < TOPIC_IDS_FROM else cluster.name_of(topic.topic_id), data)
            for topic in request.body.topic_data
            for data in topic.partition_data
        ]

    def steps(self) -> Steps[Reply]:
        """Everything is looked at, then appended."""
        yield from self.look()
        return (yield from self.append())

    def look(self) -> Steps[None]:
        """The first pause lets a frame go that is not the request's own."""
        if not self._request.is_owned:
            for _, data in self._parts:
                if isinstance(data.records, memoryview):
                    data.records = memoryview(bytearray(data.records))
        if self._guard is not None and self._request.body.transactional_id is not None and not self._refusal:
            self._admission = yield from self._guard.admit(self._request, self._present())
        for number, (name, data) in enumerate(self._parts):
            self._looked.append((yield from self._look(name, data)))
            if self._is_pause_due(number):
                yield None

    def append(self) -> Steps[Reply]:
        """What was looked at becomes part of the logs, after another look where something has changed meanwhile."""
        self._request.now = self._checks.now()
        unsynced: Unsynced = []
        parts: list[PartitionResponse] = []
        for (name, data), found in zip(self._parts, self._looked, strict=True):
            if isinstance(found, tuple) and not _holds(found, self._partitions):
                found = yield from self._look(name, data)
            parts.append(self._refused_by_guard(name, data.index, found) or _append(found, self._request, unsynced))
            if self._is_pause_due(len(parts) - 1):
                yield None
        response, answered = ProduceResponse(), iter(parts)
        for topic in self._request.body.topic_data:
            own = list(islice(answered, len(topic.partition_data)))
            response.responses.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=own))
        return _reply(self._request, response, unsynced, self._purgatory, self._kept(parts))

    def _kept(self, parts: list[PartitionResponse]) -> Kept | None:
        """What to wait for where the records began a transaction in a partition."""
        if self._guard is None or self._admission is None or not self._admission.added:
            return None
        added = [
            part
            for (name, data), part in zip(self._parts, parts, strict=True)
            if (name, data.index) in self._admission.added and not part.error_code
        ]
        return partial(self._guard.when_kept, self._request), added

    def _present(self) -> Iterator[tuple[Partition, Any]]:
        """The partitions that are there, each with its records."""
        for name, data in self._parts:
            partition = None if name is None else self._partitions.get(name, data.index)
            if partition is not None and not partition.leader_error():
                yield partition, data.records

    def _refused_by_guard(self, name: str | None, index: int, looked: Looked) -> PartitionResponse | None:
        """The answer to records whose transaction is not open here, whatever they are; None if there is nothing against them."""
        if self._admission is None:
            return None
        error_code = self._admission.errors.get((name or "", index), NONE)
        if not error_code and not isinstance(looked, PartitionResponse):
            _, partition, _, _, headers = looked
            error_code = self._admission.error_of(partition, headers[0])
        return _failed(index, error_code) if error_code else None

    def _is_pause_due(self, number: int) -> bool:
        """Whether this partition's part, and those before it since the last pause, may have taken a part of a millisecond."""
        return number % PAUSE_PARTITIONS == 0 or len(self._parts[number][1].records or b"") > PAUSE_PARTITIONS * PARTITION_BYTES

    def _look(self, name: str | None, data: PartitionData) -> Steps[Looked]:
        """Look at one partition's part. Nothing is changed by that, so that a mistake costs this part alone."""
        looked = yield from self._purgatory.spared(self._look_at_any_size(name, data))
        if isinstance(looked, Mistake):
            self._purgatory.changes.mistakes += 1
            log.error(MISTAKEN, self._request.peer, exc_info=looked.error, extra={"cause": "mistake"})
            return _failed(data.index, UNKNOWN_SERVER_ERROR, MISTAKE)
        return looked

    def _look_at_any_size(self, name: str | None, data: PartitionData) -> Steps[Looked]:
        request, partition = self._request, None if name is None else self._partitions.get(name, data.index)
        if partition is None or len(data.records or b"") <= AT_ONCE_BYTES:
            looked = _look(name, data, request, self._partitions, self._refusal)
            if looked is not None:
                return looked
        assert partition is not None, "what takes long is there"
        config, refusal = partition.config, self._refusal or (_internal_error(request) if name in INTERNAL else NONE)
        if refusal or partition.leader_error():
            return _untaken(name, data, self._partitions, refusal)
        batch, header, refused = yield from self._checks.run(_checked_slowly(partition, memoryview(data.records or b""), request))
        return _refused(data.index, refused) if refused is not None else (data.index, partition, config, batch, (header,))


def _convert(
    request: Request[ProduceRequest], partitions: Partitions, cluster: ClusterImage, purgatory: Purgatory, checks: LongChecks
) -> Steps[Reply]:
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
                converted[number] = Converted(terms, (yield from _arrive(data.records or b"", terms, checks)))
                is_settled = False
    for (_, data), conversion in zip(parts, converted, strict=True):
        if conversion is not None:
            data.records = conversion.arrived
    return (yield from SlowProduce(request, partitions, cluster, purgatory, checks).steps())


def _arrive(records: Buffer, terms: Terms, checks: LongChecks) -> Steps[Arrived]:
    """Old messages as batches, within the memory that there is: for as much as few have in them, or else for the most."""
    most_bytes = min(LARGE_BYTES, MOST_EXPANSION * len(records))
    arrived = yield from checks.holding(most_bytes, _arriving(records, terms._replace(limit_bytes=most_bytes)))
    if arrived.error_code == MESSAGE_TOO_LARGE:
        arrived = yield from checks.holding(terms.limit_bytes, _arriving(records, terms))
    return arrived


def _arriving(records: Buffer, terms: Terms) -> Steps[Arrived]:
    return (yield from arrive(records, terms))


def _terms(request: Request[ProduceRequest], partition: Partition | None, data: PartitionData) -> Terms | None:
    """On what terms a partition takes these messages now; None if there is no such partition, or nothing to convert."""
    if partition is None or _is_batch(data.records or b""):
        return None
    return request.release.terms(partition.terms(request.now))


def _is_batch(records: Buffer) -> bool:
    return len(records) > MAGIC_POSITION and records[MAGIC_POSITION] == MAGIC


def _reply(
    request: Request[ProduceRequest],
    response: ProduceResponse,
    unsynced: Unsynced,
    purgatory: Purgatory,
    kept: Kept | None = None,
) -> Reply:
    """What is answered when all is appended that could be."""
    body = request.body
    if request.version < STORAGE_ERROR_FROM:
        _use_older_codes(response, request)
    if body.acks == ACKS_NONE:
        return _unanswered(request, response)
    if body.acks > ACKS_LEADER and request.release.waits_for_replicas(body.acks):
        return _too_few_replicas(response, request)
    if not unsynced and kept is None:
        return response
    for topic in body.topic_data:
        for data in topic.partition_data:
            data.records = None  # they are in the logs: what waits holds the frame no longer
    if body.acks not in (ACKS_NONE, ACKS_LEADER) and any(partition.replicas is not None for partition, _, _ in unsynced):
        until_ms = request.now.mono_ms + max(0, body.timeout_ms)
        acks = Acknowledgements(response, partial(_set_error, request.version), purgatory)
        return _also_kept(acks.delayed(unsynced, until_ms, has_more=kept is not None), kept)
    return _when_synced(response, unsynced, kept, request.version)


def _refusal(request: Request[ProduceRequest]) -> int:
    if request.release.refuses_acks(request.body.acks, request.version):
        return INVALID_REQUIRED_ACKS
    return NONE


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

    return DelayedOperation((), request.now.mono_ms + max(0, request.body.timeout_ms), retry)


def _failed(index: int, error_code: int, message: str | None = None) -> PartitionResponse:
    return PartitionResponse(index=index, error_code=error_code, base_offset=-1, error_message=message)


def _look(
    name: str | None, data: PartitionData, request: Request[ProduceRequest], partitions: Partitions, refusal: int
) -> Looked | None:
    """Look at the records for one partition; None if that takes long. Nothing is changed but the batch."""
    if name in INTERNAL and not refusal:
        refusal = _internal_error(request)
    partition = None if refusal or name is None else partitions.get(name, data.index)
    records: Any = data.records
    if partition is None or records is None or partition.leader_error():
        return _untaken(name, data, partitions, refusal)
    if isinstance(records, Arrived):
        return _arrived(partition, data.index, records)
    header = _sound(records, request)
    if isinstance(header, Refused):
        return _refused(data.index, header)
    checked = partition.check_at_once(records, header, request.now)
    if checked is None:
        return None
    batch, header, refused = checked
    return _refused(data.index, refused) if refused is not None else (data.index, partition, partition.config, batch, (header,))


def _internal_error(request: Request[ProduceRequest]) -> int:
    """Return the error of a topic that coordinators alone write to: what others append there could not be read again."""
    return NONE if request.client_id == ADMIN_CLIENT else INVALID_TOPIC_EXCEPTION


def _untaken(name: str | None, data: PartitionData, partitions: Partitions, refusal: int) -> PartitionResponse:
    """Why a partition takes no records, whatever they are."""
    if refusal or name is None:
        return _failed(data.index, refusal or UNKNOWN_TOPIC_ID)
    partition = partitions.get(name, data.index)
    error_code = partitions.absent_error(name, data.index) if partition is None else partition.leader_error()
    if error_code:
        return _failed(data.index, error_code)
    return _failed(data.index, INVALID_RECORD, "The request holds no batch for this partition.")


def _arrived(partition: Partition, index: int, arrived: Arrived) -> Looked:
    """What became of older messages."""
    if arrived.error_code:
        return _failed(index, arrived.error_code, arrived.sentence)
    if not arrived.headers:  # all was one message torn at the end
        return PartitionResponse(index=index, base_offset=-1)
    return index, partition, partition.config, arrived.view, arrived.headers


def _holds(taken: Taken, partitions: Partitions) -> bool:
    """Whether it is still that partition, under the same settings."""
    index, partition, config, _, _ = taken
    return partitions.get(partition.topic, index) is partition and partition.config is config


def _append(looked: Looked, request: Request[ProduceRequest], unsynced: Unsynced) -> PartitionResponse:
    """Append one partition's records, and note them if the reply has to wait until they are on stable storage."""
    if isinstance(looked, PartitionResponse):
        return looked
    index, partition, _, records, headers = looked
    acks_all = request.body.acks not in (ACKS_NONE, ACKS_LEADER)
    if acks_all and partition.replicas is not None and (error_code := partition.acks_error()):
        return _failed(index, error_code)
    appended = partition.append(records, headers, request.now, writer=request.peer)
    if appended.error_code:
        return _failed(index, appended.error_code)
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
    """The header of a batch that may be taken as far as it shows there, or why not."""
    error_code, header = check(records, request.version)
    if header is None:
        return Refused(error_code, "")
    if header.attributes & TRANSACTIONAL_BIT and request.body.transactional_id is None:
        return Refused(TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Records of a transaction came without a transactional id.")
    if not request.release.is_today and (error_code := request.release.batch_error(header.magic, header.codec)):
        return Refused(error_code, "")
    return header


def _checked_slowly(partition: Partition, records: memoryview, request: Request[ProduceRequest]) -> Generator[int, None, Checked]:
    """A batch as it is to be appended, or why not, with pauses as `check_slowly` has them."""
    header = _sound(records, request)
    if isinstance(header, Refused):
        return records, NO_HEADER, header
    return (yield from partition.check_slowly(records, header, request.now))


def _refused(index: int, refused: Refused) -> PartitionResponse:
    response = _failed(index, refused.error_code, refused.sentence or None)
    response.record_errors = [
        RecordError(batch_index=record, batch_index_error_message=sentence) for record, sentence in refused.records
    ]
    return response


def _unanswered(request: Request[ProduceRequest], response: ProduceResponse) -> Reply:
    """acks=0 has no reply; a failure closes the connection, so that the producer looks for the leader anew."""
    if request.denied is not None:
        return Close(f"a produce request with acks=0 names a topic to which {request.peer.principal} may not write")
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code:
                return Close(
                    f"a produce request with acks=0 to {topic.name}-{part.index} failed with {error_name(part.error_code)}"
                )
    return NO_REPLY


def _when_synced(response: ProduceResponse, unsynced: Unsynced, kept: Kept | None, version: int) -> Reply:
    """The response, once all that it tells of is on stable storage, or never will be."""
    delayed = DelayedReply(lambda: response, blocking=False, missing=len(unsynced) + (kept is not None))
    for partition, offset, part in unsynced:
        partition.when_synced(offset, partial(_synced, delayed, part, version))
    return _also_kept(delayed, kept)


def _also_kept(delayed: DelayedReply, kept: Kept | None) -> Reply:
    if kept is not None:
        when_kept, added = kept
        when_kept(partial(_added_for_good, delayed, added))
    return delayed.reply()


def _added_for_good(delayed: DelayedReply, added: list[PartitionResponse], error_code: int) -> None:
    """Whether partitions are part of the transaction for good. If not, its coordinator is gone: the client looks anew."""
    if error_code:
        for part in added:
            part.error_code, part.base_offset = NOT_COORDINATOR, -1
    delayed.happened()


def _synced(delayed: DelayedReply, part: PartitionResponse, version: int, error_code: int) -> None:
    if error_code:
        _set_error(version, part, error_code)
    delayed.happened()


def _set_error(version: int, part: PartitionResponse, error_code: int) -> None:
    part.error_code, part.base_offset = _known(error_code, version), -1


def _known(error_code: int, version: int) -> int:
    return NOT_LEADER_OR_FOLLOWER if error_code == KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_FROM else error_code
