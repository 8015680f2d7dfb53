"""LeaderAndIsr (API key 4): the controller assigns a broker the partitions to lead or follow (until 3.9).

Version 3 adds the replicas that a reassignment adds and removes (KIP-455), 5 topic ids (KIP-516), 6 recovery from unclean elections
(KIP-704), 7 whether the controller is a KRaft controller (KIP-866).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i16, i32, i64, since


class LeaderAndIsrRequest(Message, key=4, valid="0-7", flexible="4+"):
    """A controller's command to a broker: the leader, leader epoch and in-sync replicas of each partition on the broker."""

    class LeaderAndIsrPartitionState(Struct):
        topic_name: str = since("0-1", ignorable=True)
        partition_index: i32 = since()
        controller_epoch: i32 = since()
        leader: i32 = since()
        leader_epoch: i32 = since()
        isr: list[i32] = since()
        partition_epoch: i32 = since()
        replicas: list[i32] = since()
        adding_replicas: list[i32] = since("3+", ignorable=True)
        removing_replicas: list[i32] = since("3+", ignorable=True)
        is_new: bool = since("1+", ignorable=True)
        leader_recovery_state: i8 = since("6+")

    class LeaderAndIsrTopicState(Struct):
        topic_name: str = since("2+")
        topic_id: Uuid = since("5+", ignorable=True)
        partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = since("2+")

    class LeaderAndIsrLiveLeader(Struct):
        broker_id: i32 = since()
        host_name: str = since()
        port: i32 = since()

    controller_id: i32 = since()
    is_kraft_controller: bool = since("7+")
    controller_epoch: i32 = since()
    broker_epoch: i64 = since("2+", default=-1, ignorable=True)
    type: i8 = since("5+")
    ungrouped_partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = since("0-1")
    topic_states: list[LeaderAndIsrRequest.LeaderAndIsrTopicState] = since("2+")
    live_leaders: list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader] = since()


class LeaderAndIsrResponse(Message, key=4, valid="0-7", flexible="4+"):
    """The answer to a LeaderAndIsr request: an error code for each partition."""

    class LeaderAndIsrPartitionError(Struct):
        topic_name: str = since("0-4", ignorable=True)
        partition_index: i32 = since()
        error_code: i16 = since()

    class LeaderAndIsrTopicError(Struct):
        topic_id: Uuid = since("5+")
        partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = since("5+")

    error_code: i16 = since()
    partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = since("0-4")
    topics: list[LeaderAndIsrResponse.LeaderAndIsrTopicError] = since("5+")
