"""DescribeQuorum (API key 55): state of the controllers' quorum.

KIP-595. Version 1 adds times (KIP-836), 2 directories and endpoints (KIP-853).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since, u16


class DescribeQuorumRequest(Message, key=55, valid="0-2", flexible="0+"):
    """A request for the state of the quorums of metadata partitions."""

    class PartitionData(Struct):
        partition_index: i32 = since()

    class TopicData(Struct):
        topic_name: str = since()
        partitions: list[DescribeQuorumRequest.PartitionData] = since()

    topics: list[DescribeQuorumRequest.TopicData] = since()


class DescribeQuorumResponse(Message, key=55, valid="0-2", flexible="0+"):
    """The quorum of each partition: its leader, and its voters and observers with their progress."""

    class ReplicaState(Struct):
        replica_id: i32 = since()
        replica_directory_id: Uuid = since("2+")
        log_end_offset: i64 = since()
        last_fetch_timestamp: i64 = since("1+", default=-1, ignorable=True)
        last_caught_up_timestamp: i64 = since("1+", default=-1, ignorable=True)

    class PartitionData(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        error_message: str | None = since("2+", ignorable=True)
        leader_id: i32 = since()
        leader_epoch: i32 = since()
        high_watermark: i64 = since()
        current_voters: list[DescribeQuorumResponse.ReplicaState] = since()
        observers: list[DescribeQuorumResponse.ReplicaState] = since()

    class TopicData(Struct):
        topic_name: str = since()
        partitions: list[DescribeQuorumResponse.PartitionData] = since()

    class Listener(Struct):
        name: str = since()
        host: str = since()
        port: u16 = since()

    class Node(Struct):
        node_id: i32 = since("2+")
        listeners: list[DescribeQuorumResponse.Listener] = since("2+")

    error_code: i16 = since()
    error_message: str | None = since("2+", ignorable=True)
    topics: list[DescribeQuorumResponse.TopicData] = since()
    nodes: list[DescribeQuorumResponse.Node] = since("2+")
