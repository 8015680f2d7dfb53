"""The parser of the topics in a consumer's subscription. The coordinator reads no other part of the members' metadata."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct, error
from typing import Final

_VERSION_AND_COUNT = Struct(">hi")
_LENGTH = Struct(">h")

MOST_NAMES: Final = 8_000
"""The most distinct names that are read from all subscriptions of a group, because more would delay other work."""
FEW: Final = 8
"""The most topics in a set of which all groups share one object."""


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return all topics in these subscriptions; None if one of them cannot be parsed, or if there are too many names.

    Subscriptions of all versions begin with their topics. The rest differs and is not read.
    """
    topics: set[str] = set()
    read = b""
    left = MOST_NAMES
    try:
        for subscription in subscriptions:
            if read and subscription.startswith(read):  # members that run the same program have the same subscription
                continue
            named, end = _topics(subscription, left)
            left -= len(named)
            read = subscription[:end]
            topics.update(named)
    except (error, ValueError):
        return None
    found = frozenset(topics)
    return _share_equal(found) if len(found) <= FEW else found


@lru_cache(maxsize=256)
def _share_equal(topics: frozenset[str]) -> frozenset[str]:
    """Return a cached set equal to `topics`, so that many groups with the same few topics share one set in memory."""
    return topics


def _topics(subscription: bytes, most: int) -> tuple[list[str], int]:
    """Return the topics of a subscription, and the position after them. Raises `ValueError` or `struct.error`."""
    version, count = _VERSION_AND_COUNT.unpack_from(subscription)
    if version < 0 or not 0 <= count <= most:
        raise ValueError("a version or a number of topics below zero, or more topics than are read")
    position = _VERSION_AND_COUNT.size
    topics = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(subscription, position)
        position += _LENGTH.size
        if not 0 <= length <= len(subscription) - position:
            raise ValueError("a topic longer than the subscription")
        topics.append(str(subscription[position : position + length], "utf-8"))
        position += length
    return topics, position
