"""The one part of a consumer's own protocol that the coordinator reads: the topics it subscribes to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct, error
from typing import Final

_VERSION_AND_COUNT = Struct(">hi")
_LENGTH = Struct(">h")

MOST_NAMES: Final = 8_000
"""Of all subscriptions together, as far as they differ: to read more would hold up others."""
FEW: Final = 8
"""Sets of so many topics are shared by all groups that read the same."""


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that any of these subscriptions names; None if one of them can't be read, or if they name too many.

    Subscriptions of all versions begin with their topics. The rest differs and is not read.
    """
    topics: set[str] = set()
    read = b""
    left = MOST_NAMES
    try:
        for subscription in subscriptions:
            if read and subscription.startswith(read):  # as members that run the same program subscribe to the same
                continue
            named, end = _topics(subscription, left)
            left -= len(named)
            read = subscription[:end]
            topics.update(named)
    except (error, ValueError):
        return None
    found = frozenset(topics)
    return _shared(found) if len(found) <= FEW else found


@lru_cache(maxsize=256)
def _shared(topics: frozenset[str]) -> frozenset[str]:
    """Many groups read the same few topics: the first of equal sets serves all of them."""
    return topics


def _topics(subscription: bytes, most: int) -> tuple[list[str], int]:
    """The topics that a subscription names, and where they end. Raises ValueError and `error`."""
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
