"""Produce (API key 0): batches of records are appended to partitions.

Before version 3 batches have magic 0 or 1. Version 7 allows zstd (KIP-110), 8 names the invalid records (KIP-467), 10 names the
current leader (KIP-951), 11 can return TRANSACTION_ABORTABLE and 12 adds partitions to a transaction implicitly (KIP-890), 13 names
topics by id (KIP-516).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Records, Struct, Uuid, i16, i32, i64, since


class ProduceRequest(Message, key=0, valid="0-13", flexible="9+"):
    """A request to append batches of records to partitions."""

    class PartitionProduceData(Struct):
        index: i32 = since()
        records: Records | None = since()

    class TopicProduceData(Struct):
        name: str = since("0-12", ignorable=True)
        topic_id: Uuid = since("13+", ignorable=True)
        partition_data: list[ProduceRequest.PartitionProduceData] = since()

    transactional_id: str | None = since("3+", default=None)
    acks: i16 = since()
    timeout_ms: i32 = since()
    topic_data: list[ProduceRequest.TopicProduceData] = since()


class ProduceResponse(Message, key=0, valid="0-13", flexible="9+"):
    """The answer to a Produce request: the base offset or an error code for each partition."""

    class BatchIndexAndErrorMessage(Struct):
        batch_index: i32 = since("8+")
        batch_index_error_message: str | None = since("8+", default=None)

    class LeaderIdAndEpoch(Struct):
        leader_id: i32 = since("10+", default=-1)
        leader_epoch: i32 = since("10+", default=-1)

    class PartitionProduceResponse(Struct):
        index: i32 = since()
        error_code: i16 = since()
        base_offset: i64 = since()
        log_append_time_ms: i64 = since("2+", default=-1, ignorable=True)
        log_start_offset: i64 = since("5+", default=-1, ignorable=True)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = since("8+", ignorable=True)
        error_message: str | None = since("8+", default=None, ignorable=True)
        current_leader: ProduceResponse.LeaderIdAndEpoch | None = since("10+", tag=0, default=None)

    class TopicProduceResponse(Struct):
        name: str = since("0-12", ignorable=True)
        topic_id: Uuid = since("13+", ignorable=True)
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = since()

    class NodeEndpoint(Struct):
        node_id: i32 = since("10+")
        host: str = since("10+")
        port: i32 = since("10+")
        rack: str | None = since("10+", default=None)

    responses: list[ProduceResponse.TopicProduceResponse] = since()
    throttle_time_ms: i32 = since("1+", ignorable=True)
    node_endpoints: list[ProduceResponse.NodeEndpoint] = since("10+", tag=0)
