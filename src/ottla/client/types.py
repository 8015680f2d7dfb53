"""The small values of the client's interface."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from ottla.records.record import ConsumerRecord

__all__ = [
    "EARLIEST_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "MAX_TIMESTAMP",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Place",
    "RecordMetadata",
    "TopicPartition",
]


class TopicPartition(NamedTuple):
    """A partition of a topic. A plain (topic, partition) serves as well."""

    topic: str
    partition: int


class Node(NamedTuple):
    """A broker, and where clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """`offset` is -1 where no record is as recent as asked for; `timestamp` (ms) is -1 where the broker gave none."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset: that of the next record to read, or -1 where nothing was committed."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """A member of a group as brokers know it, so that they refuse offsets of one whom the group has left behind (KIP-447).

    Without `member_id`, offsets are committed for a group that has no members.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class RecordMetadata(NamedTuple):
    """Where a record was written. `timestamp` is in ms since 1970.

    `offset` is -1 with acks=0, and where the broker recognised a duplicate without telling its offset.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


Place = TypeVar("Place", bound=tuple[str, int])
"""`TopicPartition`, or a plain (topic, partition), as the key of a mapping."""

EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP = -2, -1, -3
"""What ListOffsets takes in place of a time in ms."""
