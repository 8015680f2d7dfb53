"""The encoded subscriptions and assignments of consumers in the classic protocol, for groups with members of both protocols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.coord.consumer.assign import Partitions
from ottla.coord.consumer.topics import KnownTopics
from ottla.wire import Malformed
from ottla.wire.data import decode_from_member, encode_value, peek
from ottla.wire.data.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.schema import Uuid

PROTOCOL_TYPE = "consumer"
NEWEST = 3


class EmbeddedSubscription(NamedTuple):
    """A member's subscription. `owned` are its partitions by topic id, assigned in `generation` (-1 if unknown)."""

    topics: frozenset[str]
    rack_id: str | None
    owned: Mapping[Uuid, frozenset[int]]
    generation: int


class UnreadableAssignment(ValueError):
    """The coordinator cannot use an encoded assignment of the classic protocol. The text says why, in one sentence."""


def read_subscription(metadata: bytes, topics: KnownTopics) -> EmbeddedSubscription:
    """Parse a subscription. Raises `Malformed` if it cannot be parsed."""
    _, held = decode_from_member(ConsumerProtocolSubscription, metadata)
    owned = topics.by_id({each.topic: each.partitions for each in held.owned_partitions})
    return EmbeddedSubscription(frozenset(held.topics), held.rack_id or None, owned, held.generation_id)


def read_assignment(assignment: bytes, topics: KnownTopics) -> Partitions:
    """Parse a member's assignment; empty bytes mean that it has none yet. Raises `Malformed` or `UnreadableAssignment`."""
    if not assignment:
        return {}
    _, held = decode_from_member(ConsumerProtocolAssignment, assignment)
    if held.user_data:
        raise UnreadableAssignment("its assignor stores user data with the assignments")
    return topics.by_id({each.topic: each.partitions for each in held.assigned_partitions})


def write_assignment(partitions: Mapping[Uuid, Iterable[int]], topics: KnownTopics, metadata: bytes) -> bytes:
    """Encode an assignment in the version of the member's subscription `metadata`. Deleted topics are left out."""
    named = ((topics.with_id(topic_id), indexes) for topic_id, indexes in partitions.items())
    held = ConsumerProtocolAssignment.TopicPartition
    assigned = [held(topic=topic.name, partitions=sorted(indexes)) for topic, indexes in named if topic is not None]
    return encode_value(ConsumerProtocolAssignment(assigned_partitions=assigned), _version(metadata))


def _version(metadata: bytes) -> int:
    try:
        return max(0, min(peek(metadata), NEWEST))
    except Malformed:
        return 0
