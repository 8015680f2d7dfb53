"""DescribeTopicPartitions (API key 75): partitions of topics, page by page. KIP-966."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, since


class DescribeTopicPartitionsRequest(Message, key=75, valid="0", flexible="0+"):
    """A request for the partitions of topics, one page at a time: the cursor where the page begins, and the page size."""

    class TopicRequest(Struct):
        name: str = since()

    class Cursor(Struct):
        topic_name: str = since()
        partition_index: i32 = since()

    topics: list[DescribeTopicPartitionsRequest.TopicRequest] = since()
    response_partition_limit: i32 = since(default=2000)
    cursor: DescribeTopicPartitionsRequest.Cursor | None = since(default=None)


class DescribeTopicPartitionsResponse(Message, key=75, valid="0", flexible="0+"):
    """One page of partitions with their eligible leader replicas, and the cursor of the next page."""

    class DescribeTopicPartitionsResponsePartition(Struct):
        error_code: i16 = since()
        partition_index: i32 = since()
        leader_id: i32 = since()
        leader_epoch: i32 = since(default=-1, ignorable=True)
        replica_nodes: list[i32] = since()
        isr_nodes: list[i32] = since()
        eligible_leader_replicas: list[i32] | None = since(default=None)
        last_known_elr: list[i32] | None = since(default=None)
        offline_replicas: list[i32] = since(ignorable=True)

    class DescribeTopicPartitionsResponseTopic(Struct):
        error_code: i16 = since()
        name: str | None = since()
        topic_id: Uuid = since(ignorable=True)
        is_internal: bool = since(ignorable=True)
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = since()
        topic_authorized_operations: i32 = since(default=-(1 << 31))

    throttle_time_ms: i32 = since(ignorable=True)
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = since()
    next_cursor: DescribeTopicPartitionsRequest.Cursor | None = since(default=None)
