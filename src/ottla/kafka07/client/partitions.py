"""The partitions of Kafka 0.7: each broker numbers its own from 0. Clients combine broker id and index in one number.

On broker 0 the combined number is the index itself.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.client.connection.metadata import Metadata
from ottla.client.errors import KafkaError
from ottla.client.producer.partitioner import Partitioner
from ottla.records.batches.rows import Order, Rows

BITS: Final = 16
MOST_PARTITIONS: Final = 1 << BITS
"""The limit on partitions of one topic on one broker."""


class Partitioner07(Partitioner):
    """A partitioner over all partitions of all brokers, sorted by broker and index. Keyless messages of a batch stay together."""

    def __init__(self, choose: Callable[[int], int], metadata: Metadata) -> None:
        super().__init__(choose)
        self._metadata = metadata

    def partition(self, topic: str, key: bytes | None, count: int) -> int:
        found = self._metadata.partitions(topic)  # read once: the event loop may change the metadata between two reads
        index = super().partition(topic, None, len(found)) if key is None else abs(java_hash(key)) % len(found)
        return found[index].partition

    def spread(self, topic: str, rows: Rows, start: int, stop: int, count: int) -> dict[int, Order]:
        found: dict[int, array[int]] = {}
        for row in range(start, stop):
            found.setdefault(self.partition(topic, rows.key(row), count), array("i")).append(row)
        return dict(found)

    def leave(self, topic: str, partition: int) -> None:
        numbers = [where.partition for where in self._metadata.partitions(topic)]
        if partition in numbers:
            super().leave(topic, numbers.index(partition))


def java_hash(key: bytes) -> int:
    """Return Java's `String.hashCode` of the key as text; in bytes that are not UTF-8, each byte counts as a character."""
    try:
        units = memoryview(key.decode().encode("utf-16-le")).cast("H").tolist()
    except UnicodeDecodeError:
        units = list(key)
    number = 0
    for unit in units:
        number = (31 * number + unit) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


class BrokerPartition(NamedTuple):
    """A partition as Kafka 0.7 names it: "1-0" is the first partition of broker 1."""

    broker_id: int
    partition: int

    def __str__(self) -> str:
        return f"{self.broker_id}-{self.partition}"

    @property
    def number(self) -> int:
        """Return the `partition` of records and of a `TopicPartition`: broker_id * 65536 + partition. Raises `KafkaError`."""
        if not 0 <= self.partition < MOST_PARTITIONS:
            raise KafkaError(f"Partition {self} cannot be used: a broker has partitions 0 to {MOST_PARTITIONS - 1} of a topic.")
        return (self.broker_id << BITS) + self.partition

    @classmethod
    def of(cls, number: int) -> BrokerPartition:
        """Return the partition whose combined number is `number`."""
        return cls(number >> BITS, number & (MOST_PARTITIONS - 1))
