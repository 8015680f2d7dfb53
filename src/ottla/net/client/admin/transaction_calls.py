"""Calls of an admin client about transactions and their producers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Unpack

from ottla.client import arguments
from ottla.client.admin import transactions as transaction_requests
from ottla.client.admin.results import CallOptions, ResultList, Results
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
from ottla.net.client.admin.bulk import on_coordinators
from ottla.net.client.admin.calls import AdminCalls
from ottla.net.client.coordinator import TRANSACTION
from ottla.wire.errors import TRANSACTIONAL_ID_NOT_FOUND


class TransactionCalls(AdminCalls):
    """The methods of `AsyncAdmin` about transactions and their producers."""

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        min_duration_ms: int = ANY_DURATION,
        transactional_id_pattern: str | None = None,
        **options: Unpack[CallOptions],
    ) -> ResultList[TransactionListing]:
        """Return the transactional ids of all brokers, sorted. Without filters, return all of them (KIP-664).

        `states` are Kafka's names: Ongoing, Empty … `min_duration_ms` selects transactions that have been open for longer
        (KIP-994). `transactional_id_pattern` is a regular expression that matches whole ids (KIP-1152). The `errors` are those of
        brokers, by node id.
        """
        request = transaction_requests.list_transactions_request(
            arguments.several("states", states),
            arguments.several("producer_ids", producer_ids),
            min_duration_ms,
            transactional_id_pattern,
        )
        found = await self._each_broker(transactions.listings_query(self._cluster, request), options)
        return ResultList(sorted(listing for some in found.values() for listing in some), found.errors)

    async def describe_transactions(
        self, *transactional_ids: str, **options: Unpack[CallOptions]
    ) -> Results[str, TransactionDescription]:
        """Return the state, producer and partitions of each transactional id.

        Raises `BrokerError`, such as TRANSACTIONAL_ID_NOT_FOUND for an unknown id.
        """
        names = arguments.names("A transactional id", transactional_ids)
        locate, query = on_coordinators(self._cluster, TRANSACTION), transactions.descriptions_query(self._cluster)
        return await self._query_items(names, locate, query, options)

    async def describe_producers(
        self, partitions: Iterable[tuple[str, int]], **options: Unpack[CallOptions]
    ) -> Results[TopicPartition, list[ActiveProducer]]:
        """Return the active producers of partitions, by (topic, partition), with their open transactions (KIP-664).

        Raises `UnknownTopic` if a partition does not exist.
        """
        wanted = dict.fromkeys(places(partitions))
        build, read = transaction_requests.describe_producers_request, transaction_requests.read_producers
        return await self._query_leaders(wanted, build, read, "Describing the producers of", options)

    async def find_hanging_transactions(
        self, topics: Iterable[str] | None = None, *, min_open_ms: int = 900_000
    ) -> list[HangingTransaction]:
        """Return hanging transactions: no coordinator will end them, so readers of committed records cannot continue after them.

        `topics` None means all topics. Only transactions to which nothing was written for `min_open_ms` are returned, because the
        coordinator of a newer one may not have recorded it yet. Each is checked twice, because a transaction can end meanwhile.
        """
        names = None if topics is None else sorted(set(arguments.several("topics", topics)))
        await self._cluster.confirm(names)
        before_ms = int(time.time() * 1000) - min_open_ms
        producers = await self.describe_producers(transactions.candidate_partitions(self._cluster, names))
        candidates = transaction_requests.opened_before(before_ms, producers)
        if not candidates:
            return []
        listings = await self.list_transactions(producer_ids={producer.producer_id for _, producer in candidates})
        owners = await self.describe_transactions(*(listing.transactional_id for listing in listings), check=False)
        for error in owners.errors.values():
            if error.code != TRANSACTIONAL_ID_NOT_FOUND:
                raise error
        found = transaction_requests.find_hanging(candidates, owners.values())
        again = await self.describe_producers({each.partition for each in found})
        still = transaction_requests.opened_before(before_ms, again)
        return [each for each in found if (each.partition, each.producer) in still]

    async def abort_transaction(
        self, topic: str, partition: int, producer_id: int, producer_epoch: int, coordinator_epoch: int | None = None
    ) -> None:
        """Abort a hanging transaction in one partition (KIP-664). `describe_producers` returns the producer's id and epochs."""
        where = arguments.check_partition((topic, partition))
        await transactions.abort_transaction(self._cluster, where, producer_id, producer_epoch, coordinator_epoch)

    async def fence_producers(self, *transactional_ids: str, **options: Unpack[CallOptions]) -> Results[str, FencedProducer]:
        """Fence the producers that use these transactional ids, and abort their open transactions."""
        names = arguments.names("A transactional id", transactional_ids)
        locate, query = on_coordinators(self._cluster, TRANSACTION), transactions.fencing_query(self._cluster)
        return await self._query_items(names, locate, query, options, at_a_time=transactions.FENCED_AT_A_TIME)

    async def terminate_transaction(self, transactional_id: str) -> FencedProducer:
        """Abort the open transaction of an id, also a prepared one of a two-phase commit, and fence its producer (KIP-939)."""
        return (await self.fence_producers(transactional_id))[transactional_id]
