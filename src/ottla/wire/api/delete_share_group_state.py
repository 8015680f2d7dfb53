"""DeleteShareGroupState (API key 86): the state of share partitions is deleted. KIP-932."""

from __future__ import annotations

from ottla.wire.api.write_share_group_state import WriteShareGroupStateResponse
from ottla.wire.schema import Message, Struct, Uuid, i32, since


class DeleteShareGroupStateRequest(Message, key=86, valid="0", flexible="0+"):
    """A request to delete the stored state of a share group's partitions."""

    class PartitionData(Struct):
        partition: i32 = since()

    class DeleteStateData(Struct):
        topic_id: Uuid = since()
        partitions: list[DeleteShareGroupStateRequest.PartitionData] = since()

    group_id: str = since()
    topics: list[DeleteShareGroupStateRequest.DeleteStateData] = since()


class DeleteShareGroupStateResponse(Message, key=86, valid="0", flexible="0+"):
    """The answer to a DeleteShareGroupState request: an error code for each partition."""

    class DeleteStateResult(Struct):
        topic_id: Uuid = since()
        partitions: list[WriteShareGroupStateResponse.PartitionResult] = since()

    results: list[DeleteShareGroupStateResponse.DeleteStateResult] = since()
