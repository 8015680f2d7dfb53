"""AlterPartitionReassignments (API key 45): partitions move to other replicas.

KIP-455. Version 1 can forbid a change of the replication factor (KIP-860).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, since


class AlterPartitionReassignmentsRequest(Message, key=45, valid="0-1", flexible="0+"):
    """A request to move partitions to new replicas. Null replicas cancel the reassignment of a partition."""

    class ReassignablePartition(Struct):
        partition_index: i32 = since()
        replicas: list[i32] | None = since(default=None)

    class ReassignableTopic(Struct):
        name: str = since()
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = since()

    timeout_ms: i32 = since(default=60000)
    allow_replication_factor_change: bool = since("1+", default=True)
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = since()


class AlterPartitionReassignmentsResponse(Message, key=45, valid="0-1", flexible="0+"):
    """The answer to an AlterPartitionReassignments request: an error code for each partition."""

    class ReassignablePartitionResponse(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        error_message: str | None = since()

    class ReassignableTopicResponse(Struct):
        name: str = since()
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = since()

    throttle_time_ms: i32 = since()
    allow_replication_factor_change: bool = since("1+", default=True, ignorable=True)
    error_code: i16 = since()
    error_message: str | None = since()
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = since()
