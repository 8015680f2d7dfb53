"""The small value types of the client's public interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # type checkers have it; it need not be installed
else:
    from typing import TypeVar

from ottla.records.batches.record import ConsumerRecord

__all__ = [
    "EARLIEST_LOCAL_TIMESTAMP",
    "EARLIEST_PENDING_UPLOAD_TIMESTAMP",
    "EARLIEST_TIMESTAMP",
    "LATEST_TIERED_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "MAX_TIMESTAMP",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "Key_contra",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Place",
    "RawBytes",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
    "Value_contra",
]


class TopicPartition(NamedTuple):
    """A partition of a topic. A plain tuple (topic, partition) is accepted in its place."""

    topic: str
    partition: int


class SubscriptionPattern(NamedTuple):
    """A regular expression of topics' names for `subscribe`, in RE2's syntax, that the group's coordinator resolves (KIP-848)."""

    pattern: str


class Node(NamedTuple):
    """A broker with the address at which clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """The result of a search by timestamp. `offset` is -1 if no record is that recent, `timestamp` (ms) if the broker sent none."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the offset of the next record to read, or -1 if nothing was committed."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """A member's identity in its group. Brokers refuse offsets of a member that the group has fenced (KIP-447).

    Without `member_id`, offsets are committed for a group that has no members.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class RecordMetadata(NamedTuple):
    """The position of a written record. `timestamp` is in ms since 1970.

    `offset` is -1 with acks=0, or if the broker recognised a duplicate and did not return its offset.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


Place = TypeVar("Place", bound=tuple[str, int])
"""A `TopicPartition`, or a plain tuple (topic, partition), as the key of a mapping."""

RawBytes = bytes | bytearray | memoryview
"""A key or a value for a producer without serializers. `send` copies it."""

if TYPE_CHECKING:
    Key_contra = TypeVar("Key_contra", contravariant=True, default=RawBytes)
    Value_contra = TypeVar("Value_contra", contravariant=True, default=RawBytes)
else:
    Key_contra, Value_contra = TypeVar("Key_contra", contravariant=True), TypeVar("Value_contra", contravariant=True)

EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP = -2, -1, -3
"""The values that ListOffsets accepts in place of a timestamp in ms: the first record, the next one, the newest by time."""
EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP = -4, -5, -6
"""Further such values, for topics with tiered storage: the first record on the leader's disk (KIP-405), the last one that is stored
remotely (KIP-1005), and the first one that is not yet (KIP-1023). Releases before Kafka 4.2 lack some of them."""
