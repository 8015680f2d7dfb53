"""EndQuorumEpoch (API key 54): a controller resigns. KIP-595. Version 1 adds endpoints (KIP-853)."""

from __future__ import annotations

from ottla.wire.api.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.wire.api.vote import VoteResponse
from ottla.wire.schema import Message, Struct, Uuid, i16, i32, since


class EndQuorumEpochRequest(Message, key=54, valid="0-1", flexible="1+"):
    """The message of a quorum leader that resigns: for each partition, the preferred next leaders, best first."""

    class ReplicaInfo(Struct):
        candidate_id: i32 = since("1+")
        candidate_directory_id: Uuid = since("1+")

    class PartitionData(Struct):
        partition_index: i32 = since()
        leader_id: i32 = since()
        leader_epoch: i32 = since()
        preferred_successors: list[i32] = since("0", ignorable=True)
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = since("1+", ignorable=True)

    class TopicData(Struct):
        topic_name: str = since()
        partitions: list[EndQuorumEpochRequest.PartitionData] = since()

    cluster_id: str | None = since(default=None)
    topics: list[EndQuorumEpochRequest.TopicData] = since()
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = since("1+", ignorable=True)


class EndQuorumEpochResponse(Message, key=54, valid="0-1", flexible="1+"):
    """A voter's answer to an EndQuorumEpoch request: the leader and the epoch that the voter has for each partition."""

    class TopicData(Struct):
        topic_name: str = since()
        partitions: list[BeginQuorumEpochResponse.PartitionData] = since()

    error_code: i16 = since()
    topics: list[EndQuorumEpochResponse.TopicData] = since()
    node_endpoints: list[VoteResponse.NodeEndpoint] = since("1+", tag=0)
