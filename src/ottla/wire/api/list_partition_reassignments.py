"""ListPartitionReassignments (API key 46): partitions that are moving. KIP-455."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, since


class ListPartitionReassignmentsRequest(Message, key=46, valid="0", flexible="0+"):
    """A request for the reassignments of some partitions; null means all partitions."""

    class ListPartitionReassignmentsTopics(Struct):
        name: str = since()
        partition_indexes: list[i32] = since()

    timeout_ms: i32 = since(default=60000)
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = since(default=None)


class ListPartitionReassignmentsResponse(Message, key=46, valid="0", flexible="0+"):
    """The partitions under reassignment: their current replicas, and the replicas that are being added and removed."""

    class OngoingPartitionReassignment(Struct):
        partition_index: i32 = since()
        replicas: list[i32] = since()
        adding_replicas: list[i32] = since()
        removing_replicas: list[i32] = since()

    class OngoingTopicReassignment(Struct):
        name: str = since()
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = since()
