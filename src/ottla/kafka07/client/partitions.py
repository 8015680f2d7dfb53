"""The partitions of Kafka 0.7: each broker numbers its own from 0. Clients combine broker id and index in one number.

On broker 0 the combined number is the index itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.client.errors import KafkaError

BITS: Final = 16
MOST_PARTITIONS: Final = 1 << BITS
"""The limit on partitions of one topic on one broker."""


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
