"""The one part of a consumer's own protocol that the coordinator reads: the topics it subscribes to."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct, error

_VERSION_AND_COUNT = Struct(">hi")
_LENGTH = Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that any of these subscriptions names; None if one of them can't be read.

    Subscriptions of all versions begin with their topics. The rest differs and is not read.
    """
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(_topics(subscription))
    except (error, ValueError):
        return None
    return frozenset(topics)


def _topics(subscription: bytes) -> list[str]:
    version, count = _VERSION_AND_COUNT.unpack_from(subscription)
    if version < 0 or count < 0:
        raise ValueError("a version or a number of topics below zero")
    position = _VERSION_AND_COUNT.size
    topics = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(subscription, position)
        position += _LENGTH.size
        if not 0 <= length <= len(subscription) - position:
            raise ValueError("a topic longer than the subscription")
        topics.append(str(subscription[position : position + length], "utf-8"))
        position += length
    return topics
