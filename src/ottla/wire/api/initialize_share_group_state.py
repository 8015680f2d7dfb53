"""InitializeShareGroupState (API key 83): the state of share partitions is initialized.

KIP-932.
"""

from __future__ import annotations

from ottla.wire.api.write_share_group_state import WriteShareGroupStateResponse
from ottla.wire.schema import Message, Struct, Uuid, i32, i64, message, since, struct


@message(key=83, valid="0", flexible="0+")
class InitializeShareGroupStateRequest(Message):
    """The first offset of each partition."""

    @struct
    class PartitionData(Struct):
        partition: i32 = since()
        state_epoch: i32 = since()
        start_offset: i64 = since()

    @struct
    class InitializeStateData(Struct):
        topic_id: Uuid = since()
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = since()

    group_id: str = since()
    topics: list[InitializeShareGroupStateRequest.InitializeStateData] = since()


@message(key=83, valid="0", flexible="0+")
class InitializeShareGroupStateResponse(Message):
    """The error of each partition."""

    @struct
    class InitializeStateResult(Struct):
        topic_id: Uuid = since()
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = since()

    results: list[InitializeShareGroupStateResponse.InitializeStateResult] = since()
