"""ListPartitionReassignments (API key 46): partitions that are moving.

KIP-455.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, message, since, struct


@message(key=46, valid="0", flexible="0+")
class ListPartitionReassignmentsRequest(Message):
    """The partitions; null means all."""

    @struct
    class ListPartitionReassignmentsTopics(Struct):
        name: str = since()
        partition_indexes: list[i32] = since()

    timeout_ms: i32 = since(default=60000)
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = since(default=None)


@message(key=46, valid="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    """The current replicas of each partition, and the replicas that are being added and removed."""

    @struct
    class OngoingPartitionReassignment(Struct):
        partition_index: i32 = since()
        replicas: list[i32] = since()
        adding_replicas: list[i32] = since()
        removing_replicas: list[i32] = since()

    @struct
    class OngoingTopicReassignment(Struct):
        name: str = since()
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = since()
