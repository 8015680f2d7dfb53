"""Calls of an admin client about transactions and their producers."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client import arguments
from ottla.client.admin.transactions import (
    ANY_DURATION,
    ActiveProducer,
    FencedProducer,
    HangingTransaction,
    TransactionDescription,
    TransactionListing,
)
from ottla.client.arguments import places
from ottla.client.types import TopicPartition
from ottla.net.client.admin import transactions
from ottla.net.client.admin.calls import AdminCalls


class TransactionCalls(AdminCalls):
    """The methods of `AsyncAdmin` about transactions and their producers."""

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        min_duration_ms: int = ANY_DURATION,
        transactional_id_pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all brokers, sorted. Without filters, return all of them (KIP-664).

        `states` are Kafka's names: Ongoing, Empty … `min_duration_ms` selects transactions that have been open for longer
        (KIP-994). `transactional_id_pattern` is a regular expression that matches whole ids (KIP-1152).
        """
        states, producer_ids = arguments.several("states", states), arguments.several("producer_ids", producer_ids)
        return await transactions.list_transactions(self._cluster, states, producer_ids, min_duration_ms, transactional_id_pattern)

    async def describe_transactions(self, *transactional_ids: str) -> dict[str, TransactionDescription]:
        """Return the state, producer and partitions of each transactional id.

        Raises `BrokerError`, such as TRANSACTIONAL_ID_NOT_FOUND for an unknown id.
        """
        names = arguments.names("A transactional id", transactional_ids)
        return await transactions.describe_transactions(self._cluster, names)

    async def describe_producers(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, list[ActiveProducer]]:
        """Return the active producers of partitions, by (topic, partition), with their open transactions (KIP-664).

        Raises `UnknownTopic` if a partition does not exist.
        """
        return await transactions.producers(self._cluster, places(partitions))

    async def find_hanging_transactions(
        self, topics: Iterable[str] | None = None, *, min_open_ms: int = 900_000
    ) -> list[HangingTransaction]:
        """Return hanging transactions: no coordinator will end them, so readers of committed records cannot continue after them.

        `topics` None means all topics. Only transactions to which nothing was written for `min_open_ms` are returned, because the
        coordinator of a newer one may not have recorded it yet.
        """
        names = None if topics is None else arguments.several("topics", topics)
        return await transactions.find_hanging(self._cluster, names, min_open_ms)

    async def abort_transaction(
        self, topic: str, partition: int, producer_id: int, producer_epoch: int, coordinator_epoch: int | None = None
    ) -> None:
        """Abort a hanging transaction in one partition (KIP-664). `describe_producers` returns the producer's id and epochs."""
        where = arguments.check_partition((topic, partition))
        await transactions.abort_transaction(self._cluster, where, producer_id, producer_epoch, coordinator_epoch)

    async def fence_producers(self, *transactional_ids: str) -> dict[str, FencedProducer]:
        """Fence the producers that use these transactional ids, and abort their open transactions."""
        return {
            name: await transactions.fence_producer(self._cluster, name)
            for name in arguments.names("A transactional id", transactional_ids)
        }
