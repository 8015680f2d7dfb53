"""BeginQuorumEpoch (API key 53): a newly elected controller notifies the voters. KIP-595. Version 1 adds endpoints (KIP-853)."""

from __future__ import annotations

from ottla.wire.api.vote import VoteResponse
from ottla.wire.schema import Message, Struct, Uuid, i16, i32, since, u16


class BeginQuorumEpochRequest(Message, key=53, valid="0-1", flexible="1+"):
    """A new quorum leader's message to the voters: the leader and the epoch of each partition."""

    class PartitionData(Struct):
        partition_index: i32 = since()
        voter_directory_id: Uuid = since("1+", ignorable=True)
        leader_id: i32 = since()
        leader_epoch: i32 = since()

    class TopicData(Struct):
        topic_name: str = since()
        partitions: list[BeginQuorumEpochRequest.PartitionData] = since()

    class LeaderEndpoint(Struct):
        name: str = since("1+")
        host: str = since("1+")
        port: u16 = since("1+")

    cluster_id: str | None = since(default=None)
    voter_id: i32 = since("1+", default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequest.TopicData] = since()
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = since("1+", ignorable=True)


class BeginQuorumEpochResponse(Message, key=53, valid="0-1", flexible="1+"):
    """A voter's answer to a BeginQuorumEpoch request: the leader and the epoch that the voter has for each partition."""

    class PartitionData(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        leader_id: i32 = since()
        leader_epoch: i32 = since()

    class TopicData(Struct):
        topic_name: str = since()
        partitions: list[BeginQuorumEpochResponse.PartitionData] = since()

    error_code: i16 = since()
    topics: list[BeginQuorumEpochResponse.TopicData] = since()
    node_endpoints: list[VoteResponse.NodeEndpoint] = since("1+", tag=0)
