"""AlterPartition (API key 56): a leader reports its in-sync replicas to the controller.

KIP-497. Version 1 adds recovery (KIP-704), 2 names topics by id (KIP-841), 3 adds replicas' broker epochs (KIP-903).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i16, i32, i64, since


class AlterPartitionRequest(Message, key=56, valid="0-3", flexible="0+"):
    """A leader's request to the controller to change the in-sync replicas of partitions."""

    class BrokerState(Struct):
        broker_id: i32 = since("3+")
        broker_epoch: i64 = since("3+", default=-1)

    class PartitionData(Struct):
        partition_index: i32 = since()
        leader_epoch: i32 = since()
        new_isr: list[i32] = since("0-2")
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = since("3+")
        leader_recovery_state: i8 = since("1+")
        partition_epoch: i32 = since()

    class TopicData(Struct):
        topic_name: str = since("0-1", ignorable=True)
        topic_id: Uuid = since("2+", ignorable=True)
        partitions: list[AlterPartitionRequest.PartitionData] = since()

    broker_id: i32 = since()
    broker_epoch: i64 = since(default=-1)
    topics: list[AlterPartitionRequest.TopicData] = since()


class AlterPartitionResponse(Message, key=56, valid="0-3", flexible="0+"):
    """The answer to an AlterPartition request: the controller's current state of each partition, or an error code."""

    class PartitionData(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        leader_id: i32 = since()
        leader_epoch: i32 = since()
        isr: list[i32] = since()
        leader_recovery_state: i8 = since("1+", ignorable=True)
        partition_epoch: i32 = since()

    class TopicData(Struct):
        topic_name: str = since("0-1", ignorable=True)
        topic_id: Uuid = since("2+", ignorable=True)
        partitions: list[AlterPartitionResponse.PartitionData] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    topics: list[AlterPartitionResponse.TopicData] = since()
