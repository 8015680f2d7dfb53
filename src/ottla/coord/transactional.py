"""Offsets committed within a transaction, as records (KIP-98, KIP-447). They are pending until the transaction ends."""

from __future__ import annotations

from ottla.coord.offsets import is_longer
from ottla.coord.records import OffsetCommitted, OffsetPending
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.wire.errors import NONE, OFFSET_METADATA_TOO_LARGE

NO_GENERATION = -1


def commit(
    body: TxnOffsetCommitRequest, wall_ms: int, metadata_max_bytes: int
) -> tuple[list[OffsetPending], TxnOffsetCommitResponse]:
    """Return records and response of an allowed commit. Too much metadata is an error of its partition, without a record."""
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
    """Return a response with the error in every partition, because the response has no error field."""
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


def names_nobody(body: TxnOffsetCommitRequest) -> bool:
    """Return whether the commit contains no member id, as by clients from before KIP-447. Membership is not checked then."""
    return body.generation_id_or_member_epoch == NO_GENERATION and not body.member_id and body.group_instance_id is None
