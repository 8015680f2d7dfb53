"""The input that adds partitions to a transaction. Every broker has it, also those that coordinate no transactions."""

from __future__ import annotations

from typing import NamedTuple

from ottla.coord.transactions.transaction import Partitions, TopicPartition
from ottla.values import dataclass


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """An input: add partitions to a producer's transaction. With `verify_only`, only return which partitions are missing.

    The reply is an `Added`. With `leaves_early`, the reply precedes the durability of the change, and the sender waits for it
    instead.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    transaction_version: int = 0
    verify_only: bool = False
    leaves_early: bool = False


class Added(NamedTuple):
    """The reply to `AddPartitions`: an error for all partitions, or the partitions `absent` from the transaction."""

    error_code: int
    absent: Partitions = frozenset()

    def error_of(self, partition: TopicPartition, if_absent: int) -> int:
        return self.error_code or (if_absent if partition in self.absent else 0)
