"""Produce: batches of records from clients into logs, with acks 0, 1 and all.

This module reads the headers of batches, and `ottla.records` their records. All batches of a request are checked before any is
appended. Long checks are jobs that delay only their own connection. Before version 3 records can have any format, and are converted
to batches of magic 2. Version 3 added transactional ids (KIP-98), 7 zstd (KIP-110), 8 errors by record (KIP-467), 10 the current
leader in errors (KIP-951), 12 implicit additions to transactions (KIP-890), 13 topic ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from ottla.broker.coordination.guard import Admission, TransactionGuard
from ottla.broker.failures import Mistake
from ottla.broker.handlers.produce_batches import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    Looked,
    PartitionData,
    PartitionResponse,
    Unsynced,
    append_part,
    check_part,
    check_slowly,
    error_response,
    internal_error,
    is_batch,
    is_current,
    refused_part,
    untaken,
)
from ottla.broker.handlers.produce_replies import ONE_BATCH_FROM, Kept, reply_to
from ottla.broker.long_checks import LARGE_BYTES, LongChecks
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts, ResponseWriter
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.serving.request import Close, Ready, Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import INTERNAL
from ottla.ports import Buffer, Steps
from ottla.records.batches.header import HEADER_BYTES, read_header
from ottla.records.compression.codecs import MOST_EXPANSION
from ottla.records.compression.limits import PAUSE_BYTES
from ottla.records.message_sets.up_conversion import Arrived, Terms, arrive
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.errors import (
    INVALID_REQUIRED_ACKS,
    MESSAGE_TOO_LARGE,
    NONE,
    UNKNOWN_SERVER_ERROR,
)
from ottla.wire.framing import BOUNDED_BYTES

TOPIC_IDS_FROM = 13

BY_PARTITION: Final = (("topic_data", "partition_data"), ("responses", "partition_responses"))
TopicResponse = ProduceResponse.TopicProduceResponse

AT_ONCE_BYTES = PAUSE_BYTES + 64 * 1024
"""Bytes of records checked in one step, such as those of a request of Kafka's default max.request.size.

Each partition counts as `PARTITION_BYTES` more, for its fixed cost.
"""

PARTITION_BYTES = 8192
PAUSE_PARTITIONS = 16
MISTAKE = "The batch was refused because of a bug in the broker: please report the exception in the broker's log."


class ProduceContext(NamedTuple):
    """The parts of the broker that a produce request uses."""

    partitions: Partitions
    cluster: ClusterImage
    purgatory: Purgatory
    checks: LongChecks
    guard: TransactionGuard


class Converted(NamedTuple):
    """Converted messages, and the terms under which they were converted."""

    terms: Terms
    arrived: Arrived


def _writes_to_transaction(body: ProduceRequest) -> bool:
    """Return whether any records are transactional. If none are, the transactional id is ignored, as in Kafka."""
    return any(
        is_batch(records) and len(records) >= HEADER_BYTES and read_header(records).is_transactional
        for topic in body.topic_data
        for data in topic.partition_data
        if (records := data.records) is not None
    )


@serves(
    ProduceRequest,
    Need(Operation.WRITE, Resource.TRANSACTIONAL_ID, "transactional_id", when=_writes_to_transaction),
    Need(Operation.WRITE, Resource.TOPIC, "topic_data.name"),
    parts=Parts((BY_PARTITION,), whole_bytes=BOUNDED_BYTES, together=True, at_once=2000),
)
def produce(request: Request[ProduceRequest], context: ProduceContext) -> Reply:
    """Append each partition's batch. With acks=all, the reply waits for stable storage and for the in-sync replicas."""
    if request.whole is not None:
        return _in_parts(request, context)
    if request.body.transactional_id is not None:
        return SlowProduce(request, context).steps()
    if request.version < ONE_BATCH_FROM:
        return _convert(request, context)
    return (
        (request.release.bad_batches_close and _other_than_batches(request))
        or _produce(request, context)
        or SlowProduce(request, context).steps()
    )


def _other_than_batches(request: Request[ProduceRequest]) -> Close | None:
    """Return a close of the connection if the records of any partition are not a batch of magic 2, else None."""
    if not all(is_batch(data.records or b"") for topic in request.body.topic_data for data in topic.partition_data):
        return Close("a produce request carries something else than one batch of magic 2 for a partition")
    return None


def _in_parts(request: Request[ProduceRequest], context: ProduceContext) -> Steps[Reply]:
    """Serve a request with very many partitions: check all parts, append all, then respond. Old messages are also converted."""
    checked: list[tuple[Request[ProduceRequest], SlowProduce | Steps[Ready]]] = []
    for part in request.parts():
        stopped = part.refused or (_other_than_batches(part) if part.release.bad_batches_close else None)
        if isinstance(stopped, Close):
            return stopped
        if stopped is not None:
            checked.append((part, context.purgatory.wait_for(stopped)))
        elif part.version < ONE_BATCH_FROM:
            checked.append((part, context.purgatory.wait_for((yield from _convert(part, context)))))
        else:
            slow = SlowProduce(part, context)
            yield from slow.check()
            checked.append((part, slow))
        yield None
    replies: list[tuple[Request[ProduceRequest], Steps[Ready]]] = []
    for part, found in checked:
        steps = context.purgatory.wait_for((yield from found.append())) if isinstance(found, SlowProduce) else found
        replies.append((part, steps))
    return (yield from _combine(request, replies))


def _combine(request: Request[ProduceRequest], replies: list[tuple[Request[ProduceRequest], Steps[Ready]]]) -> Steps[Reply]:
    """Return the combined response of all parts. A close, or no reply, in any part replaces it."""
    writer = ResponseWriter(request, BY_PARTITION[1])
    instead: Reply | None = None
    for part, reply in replies:
        ready = yield from reply
        if isinstance(ready, ProduceResponse):
            writer.add(ready, part)
        elif instead is None or isinstance(ready, Close):
            instead = ready
        yield None
    return writer.reply() if instead is None else instead


def _produce(request: Request[ProduceRequest], context: ProduceContext) -> Reply | None:
    """Check all records, then append them; return None if the check takes too long for one step."""
    topics = request.body.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        return _produce_one(request, context, topics[0])
    partitions, cluster, purgatory, _, _ = context
    body = request.body
    sizes = [PARTITION_BYTES + len(data.records or b"") for topic in body.topic_data for data in topic.partition_data]
    if sum(sizes) > AT_ONCE_BYTES:  # no part is checked twice then
        return None
    looked: list[Looked] = []
    refusal = NONE if body.acks in (ACKS_NONE, ACKS_LEADER, ACKS_ALL) else _refusal(request)
    for topic in body.topic_data:
        name = topic.name if request.version < TOPIC_IDS_FROM else cluster.name_of(topic.topic_id)
        for data in topic.partition_data:
            found = check_part(name, data, request, partitions, refusal)
            if found is None:
                return None
            looked.append(found)
    response, at = ProduceResponse(), 0
    unsynced: Unsynced = []
    for topic in body.topic_data:
        end = at + len(topic.partition_data)
        parts = [append_part(found, request, unsynced) for found in looked[at:end]]
        response.responses.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts))
        at = end
    return reply_to(request, response, unsynced, purgatory)


def _produce_one(request: Request[ProduceRequest], context: ProduceContext, topic: ProduceRequest.TopicProduceData) -> Reply | None:
    """Do the same for one partition, as a client asks that sends each record at once, without the lists of several."""
    partitions, cluster, purgatory, _, _ = context
    data = topic.partition_data[0]
    if PARTITION_BYTES + len(data.records or b"") > AT_ONCE_BYTES:
        return None
    name = topic.name if request.version < TOPIC_IDS_FROM else cluster.name_of(topic.topic_id)
    refusal = NONE if request.body.acks in (ACKS_NONE, ACKS_LEADER, ACKS_ALL) else _refusal(request)
    found = check_part(name, data, request, partitions, refusal)
    if found is None:
        return None
    unsynced: Unsynced = []
    part = append_part(found, request, unsynced)
    response = ProduceResponse(responses=[TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[part])])
    return reply_to(request, response, unsynced, purgatory)


class SlowProduce:
    """A produce request that is checked in steps with pauses. Workers run its long checks."""

    def __init__(self, request: Request[ProduceRequest], context: ProduceContext) -> None:
        partitions, cluster, purgatory, checks, guard = context
        self._guard = None if request.body.transactional_id is None else guard
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
        """Check all parts, then append them."""
        yield from self.check()
        return (yield from self.append())

    def check(self) -> Steps[None]:
        """Check all parts.

        Records in a frame that the request does not own are copied, because the first pause releases the frame.
        """
        if not self._request.is_owned:
            for _, data in self._parts:
                if isinstance(data.records, memoryview):
                    data.records = memoryview(bytearray(data.records))
        if self._guard is not None and not self._refusal:
            self._admission = yield from self._guard.admit(self._request, self._present())
        for number, (name, data) in enumerate(self._parts):
            self._looked.append((yield from self.check_part(name, data)))
            if self._is_pause_due(number):
                yield None

    def append(self) -> Steps[Reply]:
        """Append the checked records; a part whose partition or config has changed since its check is checked once more."""
        self._request.now = self._checks.now()
        unsynced: Unsynced = []
        parts: list[PartitionResponse] = []
        for (name, data), found in zip(self._parts, self._looked, strict=True):
            if isinstance(found, tuple) and not is_current(found, self._partitions):
                found = yield from self.check_part(name, data)
            parts.append(self._refused_by_guard(name, data.index, found) or append_part(found, self._request, unsynced))
            if self._is_pause_due(len(parts) - 1):
                yield None
        response, answered = ProduceResponse(), iter(parts)
        for topic in self._request.body.topic_data:
            own = list(islice(answered, len(topic.partition_data)))
            response.responses.append(TopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=own))
        return reply_to(self._request, response, unsynced, self._purgatory, self._add_results(parts))

    def _add_results(self, parts: list[PartitionResponse]) -> Kept | None:
        """Return the results of partitions that were added to a transaction, and how the reply waits for their durability.

        This is (function that takes a callback, results), or None if no partition was added.
        """
        if self._guard is None or self._admission is None or not self._admission.added:
            return None
        added = [
            part
            for (name, data), part in zip(self._parts, parts, strict=True)
            if (name, data.index) in self._admission.added and not part.error_code
        ]
        return partial(self._guard.when_kept, self._request), added

    def _present(self) -> Iterator[tuple[Partition, Any]]:
        """Yield the partitions of the request that this broker leads, each with its records."""
        for name, data in self._parts:
            partition = None if name is None else self._partitions.get(name, data.index)
            if partition is not None and not partition.leader_error():
                yield partition, data.records

    def _refused_by_guard(self, name: str | None, index: int, looked: Looked) -> PartitionResponse | None:
        """Return the refusal by the transaction guard. Return None if it admits the records."""
        if self._admission is None:
            return None
        error_code = self._admission.errors.get((name or "", index), NONE)
        if not error_code and not isinstance(looked, PartitionResponse):
            _, partition, _, _, headers = looked
            error_code = self._admission.error_of(partition, headers[0])
        return error_response(index, error_code) if error_code else None

    def _is_pause_due(self, number: int) -> bool:
        """Return whether to pause at part `number`: after every `PAUSE_PARTITIONS` parts, and at a large part."""
        return number % PAUSE_PARTITIONS == 0 or len(self._parts[number][1].records or b"") > PAUSE_PARTITIONS * PARTITION_BYTES

    def check_part(self, name: str | None, data: PartitionData) -> Steps[Looked]:
        """Check one partition's part without changing state, so that a bug fails this part alone."""
        looked = self._purgatory.changes.attempt(partial(self._check_at_once, name, data))
        if looked is None:
            looked = yield from self._purgatory.spared(self._check_slowly(name, data))
        if isinstance(looked, Mistake):
            self._purgatory.changes.report(looked.error, f"{self._request.peer}: a batch", data.records or b"")
            return error_response(data.index, UNKNOWN_SERVER_ERROR, MISTAKE)
        return looked

    def _check_at_once(self, name: str | None, data: PartitionData) -> Looked | None:
        """Check one partition's part; return None if the check takes long."""
        if len(data.records or b"") > AT_ONCE_BYTES and name is not None and self._partitions.get(name, data.index) is not None:
            return None
        return check_part(name, data, self._request, self._partitions, self._refusal)

    def _check_slowly(self, name: str | None, data: PartitionData) -> Steps[Looked]:
        request, partition = self._request, None if name is None else self._partitions.get(name, data.index)
        assert partition is not None, "what takes long is there"
        config, refusal = partition.config, self._refusal or (internal_error(request) if name in INTERNAL else NONE)
        if refusal or partition.leader_error():
            return untaken(name, data, self._partitions, refusal)
        batch, header, refused = yield from self._checks.run(check_slowly(partition, memoryview(data.records or b""), request))
        return refused_part(data.index, refused) if refused is not None else (data.index, partition, config, batch, (header,))


def _convert(request: Request[ProduceRequest], context: ProduceContext) -> Steps[Reply]:
    """Convert old messages to batches before any is appended. The frame's bytes are copied, because a pause releases them.

    Configs can change during a pause. Messages are then converted again under the new terms.
    """
    partitions, checks = context.partitions, context.checks
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
    return (yield from SlowProduce(request, context).steps())


def _arrive(records: Buffer, terms: Terms, checks: LongChecks) -> Steps[Arrived]:
    """Convert old messages to batches within the memory limit: with little memory first, then with the maximum if necessary."""
    most_bytes = min(LARGE_BYTES, MOST_EXPANSION * len(records))
    arrived = yield from checks.hold_during(most_bytes, _convert_within(records, terms._replace(limit_bytes=most_bytes)))
    if arrived.error_code == MESSAGE_TOO_LARGE:
        arrived = yield from checks.hold_during(terms.limit_bytes, _convert_within(records, terms))
    return arrived


def _convert_within(records: Buffer, terms: Terms) -> Steps[Arrived]:
    return (yield from arrive(records, terms))


def _terms(request: Request[ProduceRequest], partition: Partition | None, data: PartitionData) -> Terms | None:
    """Return the terms for converting a partition's old messages. Return None if the partition or old messages are missing."""
    if partition is None or is_batch(data.records or b""):
        return None
    return request.release.terms(partition.terms(request.now))


def _refusal(request: Request[ProduceRequest]) -> int:
    if request.release.refuses_acks(request.body.acks, request.version):
        return INVALID_REQUIRED_ACKS
    return NONE
