"""StopReplica (API key 5): the controller makes a broker stop or delete replicas (until 3.9).

Version 3 adds leader epochs (KIP-570), 4 whether the controller is a KRaft controller (KIP-866).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class StopReplicaRequest(Message, key=5, valid="0-4", flexible="2+"):
    """A controller's command to a broker to stop replicas, and to delete some of them."""

    class StopReplicaPartitionV0(Struct):
        topic_name: str = since("0")
        partition_index: i32 = since("0")

    class StopReplicaTopicV1(Struct):
        name: str = since("1-2")
        partition_indexes: list[i32] = since("1-2")

    class StopReplicaPartitionState(Struct):
        partition_index: i32 = since("3+")
        leader_epoch: i32 = since("3+", default=-1)
        delete_partition: bool = since("3+")

    class StopReplicaTopicState(Struct):
        topic_name: str = since("3+")
        partition_states: list[StopReplicaRequest.StopReplicaPartitionState] = since("3+")

    controller_id: i32 = since()
    is_kraft_controller: bool = since("4+")
    controller_epoch: i32 = since()
    broker_epoch: i64 = since("1+", default=-1, ignorable=True)
    delete_partitions: bool = since("0-2")
    ungrouped_partitions: list[StopReplicaRequest.StopReplicaPartitionV0] = since("0")
    topics: list[StopReplicaRequest.StopReplicaTopicV1] = since("1-2")
    topic_states: list[StopReplicaRequest.StopReplicaTopicState] = since("3+")


class StopReplicaResponse(Message, key=5, valid="0-4", flexible="2+"):
    """The answer to a StopReplica request: an error code for each replica."""

    class StopReplicaPartitionError(Struct):
        topic_name: str = since()
        partition_index: i32 = since()
        error_code: i16 = since()

    error_code: i16 = since()
    partition_errors: list[StopReplicaResponse.StopReplicaPartitionError] = since()
