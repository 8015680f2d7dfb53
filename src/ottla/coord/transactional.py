"""Offsets committed within a transaction: the checks, and the records (KIP-98, KIP-447).

The offsets are pending until the transaction marker is appended. The module only reads state and returns records and error codes.
"""

from __future__ import annotations

from ottla.coord.classic.checks import generation_error
from ottla.coord.classic.group import ClassicGroup
from ottla.coord.consumer.group import ConsumerGroup
from ottla.coord.offsets import is_longer
from ottla.coord.records import OffsetCommitted, OffsetPending
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.wire.errors import ILLEGAL_GENERATION, NONE, OFFSET_METADATA_TOO_LARGE, UNKNOWN_MEMBER_ID

NO_GENERATION = -1


def classic_error(group: ClassicGroup | None, body: TxnOffsetCommitRequest) -> int:
    """Return why a classic group, or a missing one, accepts no offsets of this producer now; NONE if it does.

    Clients before KIP-447 name no member, and are not checked. Offsets are accepted during a rebalance: the transaction itself
    fences members of older generations.
    """
    generation = body.generation_id_or_member_epoch
    if group is None:
        return NONE if generation < 0 else ILLEGAL_GENERATION
    if _names_nobody(body):
        return NONE
    return generation_error(group, body.member_id, body.group_instance_id, generation)


def consumer_error(group: ConsumerGroup, body: TxnOffsetCommitRequest) -> int:
    """Return why a consumer group (KIP-848) accepts no offsets of this producer now; NONE if it does."""
    epoch = body.generation_id_or_member_epoch
    if _names_nobody(body) or (epoch < 0 and not group.members):
        return NONE
    member = group.members.get(body.member_id)
    if member is None:
        return UNKNOWN_MEMBER_ID
    return NONE if epoch == member.epoch else ILLEGAL_GENERATION


def commit(
    body: TxnOffsetCommitRequest, wall_ms: int, metadata_max_bytes: int
) -> tuple[list[OffsetPending], TxnOffsetCommitResponse]:
    """Return the records of a commit that its group allows. Too much metadata is an error of its partition, without a record."""
    records: list[OffsetPending] = []
    response = TxnOffsetCommitResponse()
    for topic in body.topics:
        parts = []
        for wanted in topic.partitions:
            metadata = wanted.committed_metadata or ""
            error_code = OFFSET_METADATA_TOO_LARGE if is_longer(metadata, metadata_max_bytes) else NONE
            if not error_code:
                offset = OffsetCommitted(
                    body.group_id,
                    topic.name,
                    wanted.partition_index,
                    wanted.committed_offset,
                    wanted.committed_leader_epoch,
                    metadata,
                    wall_ms,
                    topic_id=topic.topic_id,
                )
                records.append(OffsetPending(body.producer_id, offset))
            parts.append(_Partition(partition_index=wanted.partition_index, error_code=error_code))
        response.topics.append(_Topic(name=topic.name, topic_id=topic.topic_id, partitions=parts))
    return records, response


def refused(body: TxnOffsetCommitRequest, error_code: int) -> TxnOffsetCommitResponse:
    """Return a response with the error in every partition: the response has no error of its own."""
    return TxnOffsetCommitResponse(
        topics=[
            _Topic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _Partition(partition_index=wanted.partition_index, error_code=error_code) for wanted in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )


_Topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
_Partition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


def _names_nobody(body: TxnOffsetCommitRequest) -> bool:
    return body.generation_id_or_member_epoch == NO_GENERATION and not body.member_id and body.group_instance_id is None
