"""Which partition of the target each partition of a Kafka 0.7 goes to, and how far it is there. Pure.

A partition of 0.7 is one of a broker's ("1-0"), and the target's are counted through: each gets one of its own, so that its order
is kept, and keeps it. Both stand in what a group has committed for the target's partition: the offset is the byte of 0.7's log up
to which it is written, and the metadata names the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.kafka07.partitions import BrokerPartition
from ottla.client.types import OffsetAndMetadata, TopicPartition
from ottla.pipelines.errors import PipelineError

MARK: Final = "kafka-0.7 "
"""Metadata of what a mirror has committed begins with it; a partition's name follows."""


class Places:
    """The partitions of the source by their numbers (`BrokerPartition.number`), and those of the target.

    `committed` is what the mirror's group has at the target. Raises `PipelineError` for offsets that no mirror has committed.
    """

    def __init__(self, group: str, prefix: str, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._prefix = prefix
        self._there: dict[TopicPartition, TopicPartition] = {}
        self._positions: dict[TopicPartition, int] = {}
        for there, found in committed.items():
            partition = _parsed(found.metadata)
            if partition is None:
                raise PipelineError(
                    f"Group {group} has committed {found.offset} for {there.topic}-{there.partition} at the target, which no "
                    "mirror did: name another one with --group."
                )
            if there.topic.startswith(prefix):
                source = TopicPartition(there.topic[len(prefix) :], partition.number)
                self._there[source] = there
                self._positions[source] = found.offset

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        """Give each partition of the source that has none yet the first of the target's that is free, in their order."""
        taken = set(self._there.values())
        for source in sorted(partitions):
            if source in self._there:
                continue
            there = TopicPartition(self._prefix + source.topic, 0)
            while there in taken:
                there = there._replace(partition=there.partition + 1)
            self._there[source] = there
            taken.add(there)

    def there(self, source: TopicPartition) -> TopicPartition:
        """The partition of the target that one of the source goes to."""
        return self._there[source]

    def position(self, source: TopicPartition) -> int | None:
        """Up to which byte a partition of the source is written; None for nothing yet."""
        return self._positions.get(source)

    def reached(self, source: TopicPartition, position: int) -> None:
        """What was written is committed."""
        self._positions[source] = position

    def counts(self) -> dict[str, int]:
        """How many partitions topics of the target need."""
        counts: dict[str, int] = {}
        for topic, partition in self._there.values():
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        return counts

    def commits(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        """What to commit at the target for positions of the source."""
        return {
            self._there[source]: OffsetAndMetadata(position, f"{MARK}{named(source)}") for source, position in positions.items()
        }


def _parsed(metadata: str) -> BrokerPartition | None:
    broker_id, _, partition = metadata.removeprefix(MARK).rpartition("-")
    is_one = metadata.startswith(MARK) and broker_id.isdecimal() and partition.isdecimal()
    return BrokerPartition(int(broker_id), int(partition)) if is_one else None


def named(source: TopicPartition) -> BrokerPartition:
    """The partition as 0.7 names it."""
    return BrokerPartition.of(source.partition)
