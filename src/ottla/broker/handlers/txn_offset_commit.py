"""TxnOffsetCommit: offsets that take effect when their transaction is committed.

Topics are checked here, the rest by the coordinator. Version 3 added the member's identity, 4 TRANSACTION_ABORTABLE, 5 adds the
group's partition to the transaction (KIP-890), 6 names topics by id (KIP-1319).
"""

from __future__ import annotations

from dataclasses import replace

from ottla.broker.coordination.groups import GroupShards
from ottla.broker.coordination.guard import TransactionGuard, still_admitted
from ottla.broker.handlers.offsets import split_known
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.settings import SettingsInForce
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import OFFSETS_TOPIC
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.offsets import pending_refused
from ottla.coord.transactions.additions import AddPartitions
from ottla.ports import Steps
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.wire.errors import (
    INVALID_GROUP_ID,
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    NONE,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
)

ABORTABLE_FROM = 4
ADDS_FROM = 5
"""The first version in which the commit adds the group's partition to the transaction (KIP-890)."""
TOPIC_IDS_FROM = 6
"""The first version with topic ids (KIP-1319)."""

Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
TopicResult = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
PartitionResult = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


@serves(
    TxnOffsetCommitRequest,
    Need(Operation.WRITE, Resource.TRANSACTIONAL_ID, "transactional_id"),
    Need(Operation.READ, Resource.GROUP, "group_id"),
    Need(Operation.READ, Resource.TOPIC, "topics.name"),
    parts=Parts(((("topics", "partitions"), ("topics", "partitions")),), things=500, whole_bytes=8192),
)
def txn_offset_commit(
    request: Request[TxnOffsetCommitRequest],
    cluster: ClusterImage,
    groups: GroupShards,
    guard: TransactionGuard,
    partitions: Partitions,
    settings: SettingsInForce,
) -> Steps[Reply]:
    """Commit the offsets of existing partitions, after verifying that the transaction has the group's partition."""
    body = request.body
    if not body.group_id:
        return pending_refused(body, INVALID_GROUP_ID)
    by_id = request.version >= TOPIC_IDS_FROM
    known, unknown = split_known(cluster, body.topics, _error_topic, by_id=by_id, committable=lambda count: count or 0)
    if not known:
        return TxnOffsetCommitResponse(topics=unknown)
    part = replace(body, topics=known)
    error_code = NONE
    if groups.count and (request.version >= ADDS_FROM or settings.value.transaction_partition_verification_enable):
        partition = partitions.get(OFFSETS_TOPIC, partition_of(body.group_id, groups.count))
        if partition is not None and not partition.leader_error():
            error_code = yield from _admit(request, partition, guard)
    if error_code:
        response = pending_refused(part, error_code)
        response.topics += unknown
        return response

    def finish(response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        response.topics += unknown
        return response

    return groups.request(body.group_id, part, request, finish)


def _admit(request: Request[TxnOffsetCommitRequest], partition: Partition, guard: TransactionGuard) -> Steps[int]:
    """Return NONE if the transaction has the group's partition and did not end during the verification, else the error."""
    body, adds = request.body, request.version >= ADDS_FROM
    if adds:
        yield from guard.ended(body.transactional_id, request)
    place = (partition.topic, partition.index)
    wanted = AddPartitions(
        body.transactional_id,
        body.producer_id,
        body.producer_epoch,
        frozenset((place,)),
        transaction_version=2 if adds else 0,
        verify_only=not adds,
    )
    tokens = {partition: partition.log.producers.token(body.producer_id)}
    added = yield from guard.add(wanted, request, {place: partition}, tokens)
    error_code = _error_of_version(added.error_of(place, TRANSACTION_ABORTABLE), request.version)
    return error_code or still_admitted(partition, body.producer_id, body.producer_epoch, tokens[partition])


def _error_of_version(error_code: int, version: int) -> int:
    """Return the equivalent of a coordinator's error code for this version of the request."""
    if error_code == PRODUCER_FENCED:
        return INVALID_PRODUCER_EPOCH
    return INVALID_TXN_STATE if error_code == TRANSACTION_ABORTABLE and version < ABORTABLE_FROM else error_code


def _error_topic(topic: Topic, indexes: list[int], error_code: int) -> TopicResult:
    parts = [PartitionResult(partition_index=index, error_code=error_code) for index in indexes]
    return TopicResult(name=topic.name, topic_id=topic.topic_id, partitions=parts)
