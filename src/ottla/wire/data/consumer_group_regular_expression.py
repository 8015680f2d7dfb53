"""consumer_group_regular_expression: …"""

from __future__ import annotations

from ottla.wire.schema import Message, i64, message, since


@message(key=16, valid="0")
class ConsumerGroupRegularExpressionKey(Message):
    """Data."""

    group_id: str = since("0")
    regular_expression: str = since("0")


@message(key=16, valid="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    """Data."""

    topics: list[str] = since()
    version: i64 = since()
    timestamp: i64 = since()
