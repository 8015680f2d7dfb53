"""OffsetCommit (API key 8): a group's offsets are stored.

Version 0 is stored in ZooKeeper. Version 1 adds generation, member and timestamps, 2 a retention time (until 4), 6 leader epochs
(KIP-320), 7 static members (KIP-345), 9 member epochs (KIP-848), 10 names topics by id (KIP-848).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since


class OffsetCommitRequest(Message, key=8, valid="0-10", flexible="8+"):
    """A request to store committed offsets of a group. A member also sends its member id and generation, which must be current."""

    class OffsetCommitRequestPartition(Struct):
        partition_index: i32 = since()
        committed_offset: i64 = since()
        committed_leader_epoch: i32 = since("6+", default=-1, ignorable=True)
        commit_timestamp: i64 = since("1", default=-1)
        committed_metadata: str | None = since()

    class OffsetCommitRequestTopic(Struct):
        name: str = since("0-9", ignorable=True)
        topic_id: Uuid = since("10+", ignorable=True)
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = since()

    group_id: str = since()
    generation_id_or_member_epoch: i32 = since("1+", default=-1, ignorable=True)
    member_id: str = since("1+", ignorable=True)
    group_instance_id: str | None = since("7+", default=None)
    retention_time_ms: i64 = since("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = since()


class OffsetCommitResponse(Message, key=8, valid="0-10", flexible="8+"):
    """The answer to an OffsetCommit request: an error code for each partition."""

    class OffsetCommitResponsePartition(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()

    class OffsetCommitResponseTopic(Struct):
        name: str = since("0-9", ignorable=True)
        topic_id: Uuid = since("10+", ignorable=True)
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = since()

    throttle_time_ms: i32 = since("3+", ignorable=True)
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = since()
