"""The bytes that members of a group exchange: subscriptions and assignments, each preceded by a version (KIP-429, KIP-792)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ottla.client.consumer.assignors import MemberSubscription, StatefulShare
from ottla.client.consumer.list_offsets import indexes
from ottla.client.errors import KafkaError
from ottla.client.types import TopicPartition
from ottla.ports import Buffer
from ottla.wire import Malformed, decode, encode
from ottla.wire.data.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.schema import Message

SUBSCRIPTION_VERSION = 2
ASSIGNMENT_VERSION = 0
_NEWEST = 3

M = TypeVar("M", bound=Message)


def encode_subscription(subscription: MemberSubscription) -> bytes:
    """Encode a member's subscription, for its JoinGroup request."""
    owned = [
        ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=some) for topic, some in indexes(subscription.owned)
    ]
    body = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.state or None,
        owned_partitions=owned,
        generation_id=subscription.generation_id,
    )
    return SUBSCRIPTION_VERSION.to_bytes(2, "big") + encode(body, SUBSCRIPTION_VERSION)


def decode_subscription(data: Buffer, group_instance_id: str | None = None) -> MemberSubscription:
    """Decode the subscription of another member. Raises `KafkaError` if its bytes cannot be decoded."""
    found = _decode(ConsumerProtocolSubscription, data)
    owned = [TopicPartition(part.topic, index) for part in found.owned_partitions for index in part.partitions]
    return MemberSubscription(found.topics, owned, found.generation_id, group_instance_id, bytes(found.user_data or b""))


def encode_assignment(partitions: Iterable[TopicPartition], state: bytes = b"") -> bytes:
    """Encode a member's partitions, for the leader's SyncGroup request."""
    assigned = [ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=some) for topic, some in indexes(partitions)]
    return ASSIGNMENT_VERSION.to_bytes(2, "big") + encode(
        ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=state or None), ASSIGNMENT_VERSION
    )


def decode_assignment(data: Buffer) -> StatefulShare:
    """Decode a member's partitions and state; empty bytes mean none. Raises `KafkaError` if the bytes cannot be decoded."""
    if not data:
        return StatefulShare([])
    found = _decode(ConsumerProtocolAssignment, data)
    partitions = [TopicPartition(part.topic, index) for part in found.assigned_partitions for index in part.partitions]
    return StatefulShare(partitions, bytes(found.user_data or b""))


def _decode(kind: type[M], data: Buffer) -> M:
    version = min(int.from_bytes(data[:2], "big"), _NEWEST)
    try:
        return decode(kind, version, bytes(data[2:]))
    except Malformed as error:
        raise KafkaError(f"The subscription or assignment of a member of the group cannot be read: {error}.") from error
