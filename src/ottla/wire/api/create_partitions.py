"""CreatePartitions (API key 37): topics get more partitions. KIP-195. Version 3 can be throttled (KIP-599)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, since


class CreatePartitionsRequest(Message, key=37, valid="0-3", flexible="2+"):
    """A request to add partitions to topics: the new total number, and optionally the replicas of the new partitions."""

    class CreatePartitionsAssignment(Struct):
        broker_ids: list[i32] = since()

    class CreatePartitionsTopic(Struct):
        name: str = since()
        count: i32 = since()
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = since()

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = since()
    timeout_ms: i32 = since()
    validate_only: bool = since()


class CreatePartitionsResponse(Message, key=37, valid="0-3", flexible="2+"):
    """The answer to a CreatePartitions request: an error code for each topic."""

    class CreatePartitionsTopicResult(Struct):
        name: str = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)

    throttle_time_ms: i32 = since()
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = since()
