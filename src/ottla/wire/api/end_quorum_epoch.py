"""EndQuorumEpoch (API key 54): a controller resigns.

KIP-595. Version 1 adds endpoints (KIP-853).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, message, since, struct, u16


@message(key=54, valid="0-1", flexible="1+")
class EndQuorumEpochRequest(Message):
    """The preferred successors."""

    @struct
    class ReplicaInfo(Struct):
        candidate_id: i32 = since("1+")
        candidate_directory_id: Uuid = since("1+")

    @struct
    class PartitionData(Struct):
        partition_index: i32 = since()
        leader_id: i32 = since()
        leader_epoch: i32 = since()
        preferred_successors: list[i32] = since("0", ignorable=True)
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = since("1+", ignorable=True)

    @struct
    class TopicData(Struct):
        topic_name: str = since()
        partitions: list[EndQuorumEpochRequest.PartitionData] = since()

    @struct
    class LeaderEndpoint(Struct):
        name: str = since("1+")
        host: str = since("1+")
        port: u16 = since("1+")

    cluster_id: str | None = since(default=None)
    topics: list[EndQuorumEpochRequest.TopicData] = since()
    leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = since("1+", ignorable=True)


@message(key=54, valid="0-1", flexible="1+")
class EndQuorumEpochResponse(Message):
    """The leader and epoch in the voter's state."""

    @struct
    class PartitionData(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        leader_id: i32 = since()
        leader_epoch: i32 = since()

    @struct
    class TopicData(Struct):
        topic_name: str = since()
        partitions: list[EndQuorumEpochResponse.PartitionData] = since()

    @struct
    class NodeEndpoint(Struct):
        node_id: i32 = since("1+")
        host: str = since("1+")
        port: u16 = since("1+")

    error_code: i16 = since()
    topics: list[EndQuorumEpochResponse.TopicData] = since()
    node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = since("1+", tag=0)
