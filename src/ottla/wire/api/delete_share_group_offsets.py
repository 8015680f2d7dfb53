"""DeleteShareGroupOffsets (API key 92): the offsets of topics in a share group are deleted.

KIP-932.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, message, since, struct


@message(key=92, valid="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Message):
    """The group and its topics."""

    @struct
    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = since()

    group_id: str = since()
    topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = since()


@message(key=92, valid="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Message):
    """The error of each topic."""

    @struct
    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = since()
        topic_id: Uuid = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(default=None)
    responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = since()
