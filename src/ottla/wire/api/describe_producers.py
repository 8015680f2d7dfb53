"""DescribeProducers (API key 61): producers that wrote to partitions. KIP-664."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class DescribeProducersRequest(Message, key=61, valid="0", flexible="0+"):
    """A request for the active producers of partitions."""

    class TopicRequest(Struct):
        name: str = since()
        partition_indexes: list[i32] = since()

    topics: list[DescribeProducersRequest.TopicRequest] = since()


class DescribeProducersResponse(Message, key=61, valid="0", flexible="0+"):
    """The active producers of each partition, each with its epoch, last sequence number and open transaction."""

    class ProducerState(Struct):
        producer_id: i64 = since()
        producer_epoch: i32 = since()
        last_sequence: i32 = since(default=-1)
        last_timestamp: i64 = since(default=-1)
        coordinator_epoch: i32 = since()
        current_txn_start_offset: i64 = since(default=-1)

    class PartitionResponse(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)
        active_producers: list[DescribeProducersResponse.ProducerState] = since()

    class TopicResponse(Struct):
        name: str = since()
        partitions: list[DescribeProducersResponse.PartitionResponse] = since()

    throttle_time_ms: i32 = since()
    topics: list[DescribeProducersResponse.TopicResponse] = since()
