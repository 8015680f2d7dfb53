"""DeleteTopics (API key 20): topics are deleted. Version 5 can be throttled (KIP-599), 6 accepts topic ids (KIP-516)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, since


class DeleteTopicsRequest(Message, key=20, valid="0-6", flexible="4+"):
    """A request to delete topics, by name, or from version 6 on by name or topic id."""

    class DeleteTopicState(Struct):
        name: str | None = since("6+", default=None)
        topic_id: Uuid = since("6+")

    topics: list[DeleteTopicsRequest.DeleteTopicState] = since("6+")
    topic_names: list[str] = since("0-5", ignorable=True)
    timeout_ms: i32 = since()


class DeleteTopicsResponse(Message, key=20, valid="0-6", flexible="4+"):
    """The answer to a DeleteTopics request: an error code for each topic."""

    class DeletableTopicResult(Struct):
        name: str | None = since(null="6+")
        topic_id: Uuid = since("6+", ignorable=True)
        error_code: i16 = since()
        error_message: str | None = since("5+", default=None, ignorable=True)

    throttle_time_ms: i32 = since("1+", ignorable=True)
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = since()
