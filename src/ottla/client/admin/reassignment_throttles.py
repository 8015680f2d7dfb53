"""The settings that limit the network traffic of moving replicas (KIP-73). The module builds settings; it sends nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.types import TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
REPLICAS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)

Placed = Mapping[TopicPartition, Sequence[int]]


def throttled_replicas(before: Placed, after: Placed) -> dict[str, dict[str, str]]:
    """Return topic settings, by topic, that throttle a move: leaders on the old replicas, and followers on the new ones."""
    read: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    for where, replicas in sorted(after.items()):
        old = before[where]
        new = [node for node in replicas if node not in old]
        if new:
            read.setdefault(where.topic, []).extend(f"{where.partition}:{node}" for node in old)
            written.setdefault(where.topic, []).extend(f"{where.partition}:{node}" for node in new)
    return {topic: {LEADER_REPLICAS: ",".join(some), FOLLOWER_REPLICAS: ",".join(written[topic])} for topic, some in read.items()}


def throttled_brokers(before: Placed, after: Placed) -> list[int]:
    """Return the brokers that send or receive replicas in a move, sorted."""
    moving = [where for where, replicas in after.items() if set(replicas) - set(before[where])]
    return sorted({node for where in moving for node in (*before[where], *after[where])})
