"""A member of a consumer group (KIP-848)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i32, message, since, struct


@message(key=5, valid="0")
class ConsumerGroupMemberMetadataKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=5, valid="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    """The member's fields from its heartbeats, and its classic protocol metadata if it has any."""

    @struct
    class ClassicProtocol(Struct):
        name: str = since()
        metadata: bytes = since()

    @struct
    class ClassicMemberMetadata(Struct):
        session_timeout_ms: i32 = since()
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = since()

    instance_id: str | None = since()
    rack_id: str | None = since()
    client_id: str = since()
    client_host: str = since()
    subscribed_topic_names: list[str] = since()
    subscribed_topic_regex: str | None = since()
    rebalance_timeout_ms: i32 = since(default=-1)
    server_assignor: str | None = since()
    classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = since(tag=0, null="0+")
