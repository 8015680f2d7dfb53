"""The small values that people and machines of the client hand to one another."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from ottla.records.columns import Record


class TopicPartition(NamedTuple):
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


class ConsumerRecord(Record):
    """One record as a consumer hands it out: the fields of `Record`, and where it comes from.

    `topic` and `partition` are those of the class: there is one for each partition read, so that no record carries them.
    """

    __slots__ = ()
    topic: ClassVar[str] = ""
    partition: ClassVar[int] = -1

    def __repr__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}(timestamp={self.timestamp}, key={self.key!r}, value={self.value!r})"

    def __reduce__(self) -> tuple[Callable[..., ConsumerRecord], tuple[object, ...]]:
        return _remade, (self.topic, self.partition, tuple(self))


def _remade(topic: str, partition: int, fields: tuple[Any, ...]) -> ConsumerRecord:
    return record_type(TopicPartition(topic, partition))(*fields)


@lru_cache(maxsize=4096)
def record_type(where: TopicPartition) -> type[ConsumerRecord]:
    """The class of the records of one partition."""
    return type("ConsumerRecord", (ConsumerRecord,), {"__slots__": (), "topic": where.topic, "partition": where.partition})


EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP = -2, -1, -3
"""What ListOffsets takes in place of a time in ms."""
