"""The partitioner of Kafka 0.7: the partition by the key's hash, or any partition without a key.

A message of 0.7 stores no key, so the key only selects the partition. Randomness is passed in as an argument.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.connection.metadata import Metadata
from ottla.client.producer.partitioner import Partitioner


class Partitioner07(Partitioner):
    """A partitioner over all partitions of all brokers, sorted by broker and index. Keyless messages of a batch stay together."""

    def __init__(self, choose: Callable[[int], int], metadata: Metadata) -> None:
        super().__init__(choose)
        self._metadata = metadata

    def partition(self, topic: str, key: bytes | None, count: int) -> int:
        found = self._metadata.partitions(topic)  # read once: the event loop may change the metadata between two reads
        index = super().partition(topic, None, len(found)) if key is None else abs(java_hash(key)) % len(found)
        return found[index].partition

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
