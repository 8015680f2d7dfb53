"""A member of a share group (KIP-932)."""

from __future__ import annotations

from ottla.wire.schema import Message, message, since


@message(key=10, valid="0")
class ShareGroupMemberMetadataKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=10, valid="0", flexible="0+")
class ShareGroupMemberMetadataValue(Message):
    """The member's fields from its heartbeats."""

    rack_id: str | None = since()
    client_id: str = since()
    client_host: str = since()
    subscribed_topic_names: list[str] = since()
