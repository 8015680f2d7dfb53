"""The assignment of Kafka 0.7 partitions to partitions of the target, and their positions there. Pure functions.

A 0.7 partition belongs to a broker ("1-0"), but the target's partitions are numbered from 0. Each source partition gets its own
target partition permanently, so that its order is kept. The group's committed offset of the target partition records this: the
offset is the byte of the 0.7 log up to which it is copied, and the metadata names the source partition.
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

    `committed` are the offsets of the mirror's group at the target. Raises `PipelineError` if anything but a mirror has committed
    an offset of the group.
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
        """Assign the first free target partition to each new source partition, in order."""
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
        """Return the byte up to which a source partition is copied; None if nothing is copied yet."""
        return self._positions.get(source)

    def reached(self, source: TopicPartition, position: int) -> None:
        """Record that a source partition is copied and committed up to `position`."""
        self._positions[source] = position

    def counts(self) -> dict[str, int]:
        """Return the number of partitions that each target topic needs."""
        counts: dict[str, int] = {}
        for topic, partition in self._there.values():
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        return counts

    def commits(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit at the target; `positions` are those of source partitions."""
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
