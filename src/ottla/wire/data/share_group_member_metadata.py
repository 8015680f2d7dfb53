"""share_group_member_metadata: …"""

from __future__ import annotations

from ottla.wire.schema import Message, message, since


@message(key=10, valid="0")
class ShareGroupMemberMetadataKey(Message):
    """Data."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=10, valid="0", flexible="0+")
class ShareGroupMemberMetadataValue(Message):
    """Data."""

    rack_id: str | None = since()
    client_id: str = since()
    client_host: str = since()
    subscribed_topic_names: list[str] = since()
