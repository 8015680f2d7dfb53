"""The topics that match a regular expression of a consumer group (KIP-848)."""

from __future__ import annotations

from ottla.wire.schema import Message, i64, message, since


@message(key=16, valid="0")
class ConsumerGroupRegularExpressionKey(Message):
    """Group and pattern."""

    group_id: str = since("0")
    regular_expression: str = since("0")


@message(key=16, valid="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    """The topics, and the version and time of the metadata in which they were found."""

    topics: list[str] = since()
    version: i64 = since()
    timestamp: i64 = since()
