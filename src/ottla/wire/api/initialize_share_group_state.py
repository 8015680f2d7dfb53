"""InitializeShareGroupState (API key 83): the state of share partitions is initialized. KIP-932."""

from __future__ import annotations

from ottla.wire.api.write_share_group_state import WriteShareGroupStateResponse
from ottla.wire.schema import Message, Struct, Uuid, i32, i64, since


class InitializeShareGroupStateRequest(Message, key=83, valid="0", flexible="0+"):
    """A request to create the state of a share group's partitions, with the start offset of each partition."""

    class PartitionData(Struct):
        partition: i32 = since()
        state_epoch: i32 = since()
        start_offset: i64 = since()

    class InitializeStateData(Struct):
        topic_id: Uuid = since()
        partitions: list[InitializeShareGroupStateRequest.PartitionData] = since()

    group_id: str = since()
    topics: list[InitializeShareGroupStateRequest.InitializeStateData] = since()


class InitializeShareGroupStateResponse(Message, key=83, valid="0", flexible="0+"):
    """The answer to an InitializeShareGroupState request: an error code for each partition."""

    class InitializeStateResult(Struct):
        topic_id: Uuid = since()
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = since()

    results: list[InitializeShareGroupStateResponse.InitializeStateResult] = since()
