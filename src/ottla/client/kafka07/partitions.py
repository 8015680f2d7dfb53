"""The partitions of Kafka 0.7: each broker has its own, which it counts from 0. Clients need one number for both.

Where there is one broker, and it is number 0, the number is 0.7's own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.client.errors import KafkaError

BITS: Final = 16
MOST_PARTITIONS: Final = 1 << BITS
"""Of one topic on one broker."""


class BrokerPartition(NamedTuple):
    """A partition as Kafka 0.7 names it: "1-0" is the first one of broker 1."""

    broker_id: int
    partition: int

    def __str__(self) -> str:
        return f"{self.broker_id}-{self.partition}"

    @property
    def number(self) -> int:
        """The `partition` of records and of a `TopicPartition`: broker_id * 65536 + partition. Raises `KafkaError`."""
        if not 0 <= self.partition < MOST_PARTITIONS:
            raise KafkaError(f"Partition {self} cannot be used: a broker has partitions 0 to {MOST_PARTITIONS - 1} of a topic.")
        return (self.broker_id << BITS) + self.partition

    @classmethod
    def of(cls, number: int) -> BrokerPartition:
        """The partition of this number."""
        return cls(number >> BITS, number & (MOST_PARTITIONS - 1))
