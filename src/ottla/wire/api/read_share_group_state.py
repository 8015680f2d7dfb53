"""ReadShareGroupState (API key 84): the state of share partitions is read. KIP-932."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i16, i32, i64, since


class ReadShareGroupStateRequest(Message, key=84, valid="0", flexible="0+"):
    """A request for the stored state of a share group's partitions."""

    class PartitionData(Struct):
        partition: i32 = since()
        leader_epoch: i32 = since()

    class ReadStateData(Struct):
        topic_id: Uuid = since()
        partitions: list[ReadShareGroupStateRequest.PartitionData] = since()

    group_id: str = since()
    topics: list[ReadShareGroupStateRequest.ReadStateData] = since()


class ReadShareGroupStateResponse(Message, key=84, valid="0", flexible="0+"):
    """The stored state of each partition: its start offset, and the delivery state of each range of offsets."""

    class StateBatch(Struct):
        first_offset: i64 = since()
        last_offset: i64 = since()
        delivery_state: i8 = since()
        delivery_count: i16 = since()

    class PartitionResult(Struct):
        partition: i32 = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)
        state_epoch: i32 = since()
        start_offset: i64 = since()
        state_batches: list[ReadShareGroupStateResponse.StateBatch] = since()

    class ReadStateResult(Struct):
        topic_id: Uuid = since()
        partitions: list[ReadShareGroupStateResponse.PartitionResult] = since()

    results: list[ReadShareGroupStateResponse.ReadStateResult] = since()
