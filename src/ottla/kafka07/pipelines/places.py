"""The assignment of Kafka 0.7 partitions to partitions of the target, and their positions there. Pure functions.

A 0.7 partition belongs to a broker ("1-0"), and the target's are numbered throughout: each source partition gets one of its own for
good, so that its order is kept. Both facts are in the group's committed offset of the target partition: the offset is the byte of
the 0.7 log up to which it is written, and the metadata names the source partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.client.types import OffsetAndMetadata, TopicPartition
from ottla.kafka07.client.partitions import BrokerPartition
from ottla.pipelines.errors import PipelineError

MARK: Final = "kafka-0.7 "
"""The prefix of a mirror's commit metadata; the name of a source partition follows."""


class Places:
    """The source partitions, by their numbers (`BrokerPartition.number`), with their target partitions.

    `committed` are the offsets of the mirror's group at the target. Raises `PipelineError` for offsets that no mirror has
    committed.
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
        """Assign each new source partition the first free target partition, in order."""
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
        """Return the target partition of a source partition."""
        return self._there[source]

    def position(self, source: TopicPartition) -> int | None:
        """Return the byte up to which a source partition is written; None for nothing yet."""
        return self._positions.get(source)

    def reached(self, source: TopicPartition, position: int) -> None:
        """Store the position up to which a source partition is committed."""
        self._positions[source] = position

    def counts(self) -> dict[str, int]:
        """Return the number of partitions that each target topic needs."""
        counts: dict[str, int] = {}
        for topic, partition in self._there.values():
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        return counts

    def commits(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit at the target for source positions."""
        return {
            self._there[source]: OffsetAndMetadata(position, f"{MARK}{named(source)}") for source, position in positions.items()
        }


def _parsed(metadata: str) -> BrokerPartition | None:
    broker_id, _, partition = metadata.removeprefix(MARK).rpartition("-")
    is_one = metadata.startswith(MARK) and broker_id.isdecimal() and partition.isdecimal()
    return BrokerPartition(int(broker_id), int(partition)) if is_one else None


def named(source: TopicPartition) -> BrokerPartition:
    """Return the partition as 0.7 names it."""
    return BrokerPartition.of(source.partition)
