"""AlterPartitionReassignments (API key 45): partitions move to other replicas.

KIP-455. Version 1 can forbid a change of the replication factor (KIP-860).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, message, since, struct


@message(key=45, valid="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Message):
    """The new replicas of each partition. Null cancels a reassignment."""

    @struct
    class ReassignablePartition(Struct):
        partition_index: i32 = since()
        replicas: list[i32] | None = since(default=None)

    @struct
    class ReassignableTopic(Struct):
        name: str = since()
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = since()

    timeout_ms: i32 = since(default=60000)
    allow_replication_factor_change: bool = since("1+", default=True)
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = since()


@message(key=45, valid="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    """The error of each partition."""

    @struct
    class ReassignablePartitionResponse(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        error_message: str | None = since()

    @struct
    class ReassignableTopicResponse(Struct):
        name: str = since()
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = since()

    throttle_time_ms: i32 = since()
    allow_replication_factor_change: bool = since("1+", default=True, ignorable=True)
    error_code: i16 = since()
    error_message: str | None = since()
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = since()
