"""Fetch (API key 1): batches of records are read from partitions, by consumers and by followers.

Version 4 adds isolation levels (KIP-98), 7 sessions (KIP-227), 9 leader epochs (KIP-320), 10 zstd (KIP-110), 11 racks
(KIP-392), 12 divergence by epoch (KIP-595), 13 names topics by id (KIP-516), 14 can return OFFSET_MOVED_TO_TIERED_STORAGE
(KIP-405), 15 puts the follower's epoch into a tag (KIP-903), 16 names the current leader (KIP-951), 17 and 18 add the follower's
directory (KIP-853) and high watermark.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Records, Struct, Uuid, i8, i16, i32, i64, since


class FetchRequest(Message, key=1, valid="0-18", flexible="12+"):
    """A request for batches from a given offset of each partition. The broker waits up to `max_wait_ms` for `min_bytes`."""

    class ReplicaState(Struct):
        replica_id: i32 = since("15+", default=-1)
        replica_epoch: i64 = since("15+", default=-1)

    class FetchPartition(Struct):
        partition: i32 = since()
        current_leader_epoch: i32 = since("9+", default=-1, ignorable=True)
        fetch_offset: i64 = since()
        last_fetched_epoch: i32 = since("12+", default=-1)
        log_start_offset: i64 = since("5+", default=-1, ignorable=True)
        partition_max_bytes: i32 = since()
        replica_directory_id: Uuid = since("17+", tag=0, ignorable=True)
        high_watermark: i64 = since("18+", tag=1, default=(1 << 63) - 1, ignorable=True)

    class FetchTopic(Struct):
        topic: str = since("0-12", ignorable=True)
        topic_id: Uuid = since("13+", ignorable=True)
        partitions: list[FetchRequest.FetchPartition] = since()

    class ForgottenTopic(Struct):
        topic: str = since("7-12", ignorable=True)
        topic_id: Uuid = since("13+", ignorable=True)
        partitions: list[i32] = since("7+")

    cluster_id: str | None = since("12+", tag=0, default=None, ignorable=True)
    replica_id: i32 = since("0-14", default=-1)
    replica_state: FetchRequest.ReplicaState | None = since("15+", tag=1, default=None)
    max_wait_ms: i32 = since()
    min_bytes: i32 = since()
    max_bytes: i32 = since("3+", default=(1 << 31) - 1, ignorable=True)
    isolation_level: i8 = since("4+", ignorable=True)
    session_id: i32 = since("7+", ignorable=True)
    session_epoch: i32 = since("7+", default=-1, ignorable=True)
    topics: list[FetchRequest.FetchTopic] = since()
    forgotten_topics_data: list[FetchRequest.ForgottenTopic] = since("7+")
    rack_id: str = since("11+", ignorable=True)


class FetchResponse(Message, key=1, valid="0-18", flexible="12+"):
    """Fetched batches of each partition, exactly as in the log. The first batch contains the requested offset."""

    class EpochEndOffset(Struct):
        epoch: i32 = since("12+", default=-1)
        end_offset: i64 = since("12+", default=-1)

    class LeaderIdAndEpoch(Struct):
        leader_id: i32 = since("12+", default=-1)
        leader_epoch: i32 = since("12+", default=-1)

    class SnapshotId(Struct):
        end_offset: i64 = since(default=-1)
        epoch: i32 = since(default=-1)

    class AbortedTransaction(Struct):
        producer_id: i64 = since("4+")
        first_offset: i64 = since("4+")

    class PartitionData(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        high_watermark: i64 = since()
        last_stable_offset: i64 = since("4+", default=-1, ignorable=True)
        log_start_offset: i64 = since("5+", default=-1, ignorable=True)
        diverging_epoch: FetchResponse.EpochEndOffset | None = since("12+", tag=0, default=None)
        current_leader: FetchResponse.LeaderIdAndEpoch | None = since("12+", tag=1, default=None)
        snapshot_id: FetchResponse.SnapshotId | None = since("12+", tag=2, default=None)
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None = since("4+", ignorable=True)
        preferred_read_replica: i32 = since("11+", default=-1)
        records: Records | None = since()

    class FetchableTopicResponse(Struct):
        topic: str = since("0-12", ignorable=True)
        topic_id: Uuid = since("13+", ignorable=True)
        partitions: list[FetchResponse.PartitionData] = since()

    class NodeEndpoint(Struct):
        node_id: i32 = since("16+")
        host: str = since("16+")
        port: i32 = since("16+")
        rack: str | None = since("16+", default=None)

    throttle_time_ms: i32 = since("1+", ignorable=True)
    error_code: i16 = since("7+", ignorable=True)
    session_id: i32 = since("7+")
    responses: list[FetchResponse.FetchableTopicResponse] = since()
    node_endpoints: list[FetchResponse.NodeEndpoint] = since("16+", tag=0)
