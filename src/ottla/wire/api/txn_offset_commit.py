"""TxnOffsetCommit (API key 28): offsets are stored as part of a transaction.

KIP-98. Version 2 adds leader epochs (KIP-320), 3 group metadata (KIP-447), 4 can return TRANSACTION_ABORTABLE (KIP-890), 5 adds the
group to the transaction implicitly (KIP-890), 6 names topics by id (KIP-1319).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since


class TxnOffsetCommitRequest(Message, key=28, valid="0-6", flexible="3+"):
    """A request to commit offsets of a group in a transaction. From version 3 on it has the group's generation and member id."""

    class TxnOffsetCommitRequestPartition(Struct):
        partition_index: i32 = since()
        committed_offset: i64 = since()
        committed_leader_epoch: i32 = since("2+", default=-1, ignorable=True)
        committed_metadata: str | None = since()

    class TxnOffsetCommitRequestTopic(Struct):
        name: str = since("0-5", ignorable=True)
        topic_id: Uuid = since("6+", ignorable=True)
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = since()

    transactional_id: str = since()
    group_id: str = since()
    producer_id: i64 = since()
    producer_epoch: i16 = since()
    generation_id_or_member_epoch: i32 = since("3+", default=-1)
    member_id: str = since("3+")
    group_instance_id: str | None = since("3+", default=None)
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = since()


class TxnOffsetCommitResponse(Message, key=28, valid="0-6", flexible="3+"):
    """The answer to a TxnOffsetCommit request: an error code for each partition."""

    class TxnOffsetCommitResponsePartition(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()

    class TxnOffsetCommitResponseTopic(Struct):
        name: str = since("0-5", ignorable=True)
        topic_id: Uuid = since("6+", ignorable=True)
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = since()

    throttle_time_ms: i32 = since()
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = since()
