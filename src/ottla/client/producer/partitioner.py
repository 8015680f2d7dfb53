"""The partitioner. A key selects the partition by its murmur2 hash, as in Kafka; records without a key stay together (KIP-480)."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from ottla.client.arguments import whole
from ottla.client.errors import SettingError
from ottla.records.batches.rows import Order, Rows, by_partition
from ottla.records.kernel_arrow import murmur2

UNKNOWN = -1

OwnPartitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""A user's partitioner: (topic, key, value, number of partitions) -> a number of a partition."""


def own_partition(partitioner: OwnPartitioner, topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
    """Return the partition that a user's partitioner chooses. Raises its exceptions, and `TypeError` and `SettingError`."""
    chosen = whole("The result of partitioner", partitioner(topic, key, value, count))
    if chosen >= count:
        raise SettingError(f"partitioner returned {chosen} for topic {topic}, which has partitions 0 to {count - 1}.")
    return chosen


def own_spread(partitioner: OwnPartitioner, topic: str, rows: Rows, numbers: range, count: int) -> dict[int, Order]:
    """Return the rows of each partition, in their order, which a user's partitioner chooses for every row."""
    found: dict[int, array[int]] = {}
    for row in numbers:
        found.setdefault(own_partition(partitioner, topic, rows.key(row), rows.value(row), count), array("i")).append(row)
    return dict(found)


class Partitioner:
    """Chooses a partition for each record. `choose(n)` returns a random number below n.

    Records without a key go to one "sticky" partition of their topic until the batch of this partition is closed.
    """

    def __init__(self, choose: Callable[[int], int]) -> None:
        self._choose = choose
        self._sticky: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, count: int) -> int:
        """Return the partition of a record: a number below `count`."""
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % count
        partition = self._sticky.get(topic, UNKNOWN)
        return partition if 0 <= partition < count else self._another(topic, count)

    def spread(self, topic: str, rows: Rows, start: int, stop: int, count: int) -> dict[int, Order]:
        """Return the rows from `start` to `stop` of each partition, in their order. Rows without a key go to one partition."""
        chosen = rows.partitions(count)[start:stop]
        if UNKNOWN in chosen:
            keyless = self.partition(topic, None, count)
            chosen = array("i", (keyless if partition == UNKNOWN else partition for partition in chosen))
        starts, order = by_partition(chosen, count)
        if start:
            order = array("i", (start + row for row in order))
        return {partition: order[starts[partition] : starts[partition + 1]] for partition in range(count)}

    def _another(self, topic: str, count: int) -> int:
        before = self._before.get(topic, UNKNOWN)
        if count > 1 and 0 <= before < count:
            partition = self._choose(count - 1)
            partition += partition >= before
        else:
            partition = self._choose(count)
        self._sticky[topic] = self._before[topic] = partition
        return partition

    def leave(self, topic: str, partition: int) -> None:
        """Choose another sticky partition for the next records without a key, after the batch of this partition was closed."""
        if self._sticky.get(topic) == partition:
            self._sticky[topic] = UNKNOWN
