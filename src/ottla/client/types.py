"""The small values that people and machines of the client hand to one another."""

from __future__ import annotations

from typing import NamedTuple

from ottla.records.record import ConsumerRecord

__all__ = [
    "EARLIEST_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "MAX_TIMESTAMP",
    "ConsumerRecord",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "TopicPartition",
]


class TopicPartition(NamedTuple):
    """One partition of a topic; a consumer takes a plain (topic, partition) too."""

    topic: str
    partition: int


class Node(NamedTuple):
    """A broker as metadata names it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """`offset` is -1 where no record is that young; `timestamp` (ms) is -1 where the broker gave none."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next record to read. `offset` is -1 where nothing was committed."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class RecordMetadata(NamedTuple):
    """Where a produced record landed.

    `offset` is -1 with acks=0, or where the broker recognised a repeated batch without saying its offset.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP = -2, -1, -3
"""What ListOffsets takes in place of a time in ms."""
