"""Vote (API key 52): a controller requests votes in an election.

KIP-595. Version 1 adds directory ids (KIP-853), 2 allows a pre-vote (KIP-996).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since, u16


class VoteRequest(Message, key=52, valid="0-2", flexible="0+"):
    """A candidate's request for a vote in an election, with the last epoch and the end offset of its log."""

    class PartitionData(Struct):
        partition_index: i32 = since()
        replica_epoch: i32 = since()
        replica_id: i32 = since()
        replica_directory_id: Uuid = since("1+", ignorable=True)
        voter_directory_id: Uuid = since("1+", ignorable=True)
        last_offset_epoch: i32 = since()
        last_offset: i64 = since()
        pre_vote: bool = since("2+")

    class TopicData(Struct):
        topic_name: str = since()
        partitions: list[VoteRequest.PartitionData] = since()

    cluster_id: str | None = since(default=None)
    voter_id: i32 = since("1+", default=-1, ignorable=True)
    topics: list[VoteRequest.TopicData] = since()


class VoteResponse(Message, key=52, valid="0-2", flexible="0+"):
    """The answer to a Vote request: whether the vote is granted, and the leader and epoch that the voter has."""

    class PartitionData(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        leader_id: i32 = since()
        leader_epoch: i32 = since()
        vote_granted: bool = since()

    class TopicData(Struct):
        topic_name: str = since()
        partitions: list[VoteResponse.PartitionData] = since()

    class NodeEndpoint(Struct):
        node_id: i32 = since("1+")
        host: str = since("1+")
        port: u16 = since("1+")

    error_code: i16 = since()
    topics: list[VoteResponse.TopicData] = since()
    node_endpoints: list[VoteResponse.NodeEndpoint] = since("1+", tag=0)
