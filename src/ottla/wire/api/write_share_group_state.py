"""WriteShareGroupState (API key 85): the state of share partitions is written.

KIP-932. Version 1 counts completed deliveries (KIP-1226).
"""

from __future__ import annotations

from ottla.wire.api.read_share_group_state import ReadShareGroupStateResponse
from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since


class WriteShareGroupStateRequest(Message, key=85, valid="0-1", flexible="0+"):
    """A request to store the state of a share group's partitions: the start offset, and each changed range of offsets."""

    class PartitionData(Struct):
        partition: i32 = since()
        state_epoch: i32 = since()
        leader_epoch: i32 = since()
        start_offset: i64 = since()
        delivery_complete_count: i32 = since("1+", default=-1, ignorable=True)
        state_batches: list[ReadShareGroupStateResponse.StateBatch] = since()

    class WriteStateData(Struct):
        topic_id: Uuid = since()
        partitions: list[WriteShareGroupStateRequest.PartitionData] = since()

    group_id: str = since()
    topics: list[WriteShareGroupStateRequest.WriteStateData] = since()


class WriteShareGroupStateResponse(Message, key=85, valid="0-1", flexible="0+"):
    """The answer to a WriteShareGroupState request: an error code for each partition."""

    class PartitionResult(Struct):
        partition: i32 = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)

    class WriteStateResult(Struct):
        topic_id: Uuid = since()
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = since()

    results: list[WriteShareGroupStateResponse.WriteStateResult] = since()
