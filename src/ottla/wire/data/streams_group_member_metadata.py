"""A member of a streams group (KIP-1071)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i32, message, since, struct, u16


@message(key=19, valid="0")
class StreamsGroupMemberMetadataKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=19, valid="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Message):
    """The member's fields from its heartbeats."""

    @struct
    class Endpoint(Struct):
        host: str = since()
        port: u16 = since()

    @struct
    class KeyValue(Struct):
        key: str = since()
        value: str = since()

    instance_id: str | None = since()
    rack_id: str | None = since()
    client_id: str = since()
    client_host: str = since()
    rebalance_timeout_ms: i32 = since(default=-1)
    topology_epoch: i32 = since()
    process_id: str = since()
    user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None = since(default=None)
    client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = since()
