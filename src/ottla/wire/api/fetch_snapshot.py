"""FetchSnapshot (API key 59): a controller reads a snapshot of the metadata.

KIP-630. Version 1 adds directories and endpoints (KIP-853).
"""

from __future__ import annotations

from ottla.wire.api.vote import VoteResponse
from ottla.wire.schema import Message, Records, Struct, Uuid, i16, i32, i64, since


class FetchSnapshotRequest(Message, key=59, valid="0-1", flexible="0+"):
    """A request for a part of a metadata snapshot, from a given byte position on."""

    class SnapshotId(Struct):
        end_offset: i64 = since()
        epoch: i32 = since()

    class PartitionSnapshot(Struct):
        partition: i32 = since()
        current_leader_epoch: i32 = since()
        snapshot_id: FetchSnapshotRequest.SnapshotId = since()
        position: i64 = since()
        replica_directory_id: Uuid = since("1+", tag=0, ignorable=True)

    class TopicSnapshot(Struct):
        name: str = since()
        partitions: list[FetchSnapshotRequest.PartitionSnapshot] = since()

    cluster_id: str | None = since(tag=0, default=None)
    replica_id: i32 = since(default=-1)
    max_bytes: i32 = since(default=(1 << 31) - 1)
    topics: list[FetchSnapshotRequest.TopicSnapshot] = since()


class FetchSnapshotResponse(Message, key=59, valid="0-1", flexible="0+"):
    """A part of the requested metadata snapshot, as bytes."""

    class LeaderIdAndEpoch(Struct):
        leader_id: i32 = since()
        leader_epoch: i32 = since()

    class PartitionSnapshot(Struct):
        index: i32 = since()
        error_code: i16 = since()
        snapshot_id: FetchSnapshotRequest.SnapshotId = since()
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch | None = since(tag=0, default=None)
        size: i64 = since()
        position: i64 = since()
        unaligned_records: Records = since()

    class TopicSnapshot(Struct):
        name: str = since()
        partitions: list[FetchSnapshotResponse.PartitionSnapshot] = since()

    throttle_time_ms: i32 = since(ignorable=True)
    error_code: i16 = since()
    topics: list[FetchSnapshotResponse.TopicSnapshot] = since()
    node_endpoints: list[VoteResponse.NodeEndpoint] = since("1+", tag=0)
