"""DeleteShareGroupOffsets (API key 92): the offsets of topics in a share group are deleted. KIP-932."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, since


class DeleteShareGroupOffsetsRequest(Message, key=92, valid="0", flexible="0+"):
    """A request to delete the offsets of a share group in some topics."""

    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = since()

    group_id: str = since()
    topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = since()


class DeleteShareGroupOffsetsResponse(Message, key=92, valid="0", flexible="0+"):
    """The answer to a DeleteShareGroupOffsets request: an error code for each topic."""

    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = since()
        topic_id: Uuid = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(default=None)
    responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = since()
