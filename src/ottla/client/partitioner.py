"""Which partition a record goes to: by murmur2 of its key, as Kafka's default, or for keyless ones the sticky choice (KIP-794).

Randomness comes in as an argument.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.records.columns import murmur2

UNKNOWN = -1


class Partitioner:
    """`choose(n)` gives a number below n. Keyless records of a topic stay with one partition until its batch is full."""

    def __init__(self, choose: Callable[[int], int]) -> None:
        self._choose = choose
        self._sticky: dict[str, int] = {}

    def for_key(self, key: bytes, count: int) -> int:
        return (murmur2(key) & 0x7FFFFFFF) % count

    def sticky(self, topic: str, count: int) -> int:
        """Where keyless records go now."""
        partition = self._sticky.get(topic, UNKNOWN)
        if not 0 <= partition < count:
            partition = self._sticky[topic] = self._choose(count)
        return partition

    def move_on(self, topic: str, count: int) -> None:
        """The batch of the sticky partition was closed: go to another one."""
        before = self._sticky.get(topic, UNKNOWN)
        if count > 1:
            partition = self._choose(count - 1)
            self._sticky[topic] = partition + (partition >= before >= 0)
