"""Requests of operators about transactions. The module decides which brokers get a request, and what is retried."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from ottla.client.admin import transactions as asked
from ottla.client.admin.results import outcome
from ottla.client.admin.transactions import FencedProducer, TransactionDescription, TransactionListing
from ottla.client.errors import KafkaError
from ottla.client.types import TopicPartition
from ottla.net.client.admin.bulk import BulkCall, Locate, Outcomes, Query, on_coordinators, on_nodes
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.coordinator import TRANSACTION
from ottla.net.client.leaders import request_leaders
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from ottla.wire.api.list_transactions import ListTransactionsRequest

FENCED_AT_A_TIME: Final = 50
"""The maximum number of producers that are fenced at the same time by one coordinator, which gets a request for each."""


def listings_query(cluster: ClusterLinks, request: ListTransactionsRequest) -> Query[int, list[TransactionListing]]:
    """Return the function that lists the transactional ids of one broker, by its node id."""

    async def query(node_id: int, some: list[int]) -> Outcomes[int, list[TransactionListing]]:
        return [(node_id, asked.read_transactions(await cluster.request(node_id, request), node_id))]

    return query


def descriptions_query(cluster: ClusterLinks) -> Query[str, TransactionDescription]:
    """Return the function that describes transactional ids of one coordinator."""

    async def query(node_id: int, names: list[str]) -> Outcomes[str, TransactionDescription]:
        answer = await cluster.request(node_id, DescribeTransactionsRequest(transactional_ids=names))
        return [
            (found.transactional_id, outcome(code, found, f"Transactional id {found.transactional_id}"))
            for code, found in asked.read_descriptions(answer, node_id)
        ]

    return query


def fencing_query(cluster: ClusterLinks) -> Query[str, FencedProducer]:
    """Return the function that fences the producers of transactional ids of one coordinator: each by one request."""

    async def fence(node_id: int, name: str) -> tuple[str, FencedProducer | KafkaError]:
        return name, asked.read_fenced(await cluster.request(node_id, asked.fence_request(name)), name)

    async def query(node_id: int, names: list[str]) -> Outcomes[str, FencedProducer]:
        return await asyncio.gather(*(fence(node_id, name) for name in names))

    return query


async def list_transactions(cluster: ClusterLinks, states: Sequence[str]) -> list[TransactionListing]:
    """Return the transactional ids of all brokers with one of these states, for clients without an `AsyncAdmin`."""
    request = asked.list_transactions_request(states, (), asked.ANY_DURATION, None)
    await cluster.retry(lambda: cluster.refresh([]))
    locate: Locate[int] = on_nodes(cluster, lambda node_id: node_id)
    found = await BulkCall(cluster, sorted(cluster.metadata.nodes), locate, listings_query(cluster, request)).run()
    return sorted(listing for some in found.raise_first().values() for listing in some)


async def fence_producer(cluster: ClusterLinks, transactional_id: str) -> FencedProducer:
    """Fence the producer of a transactional id, for clients without an `AsyncAdmin`."""
    call = BulkCall(cluster, [transactional_id], on_coordinators(cluster, TRANSACTION), fencing_query(cluster))
    return (await call.run()).raise_first()[transactional_id]


async def abort_transaction(
    cluster: ClusterLinks, where: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int | None
) -> None:
    """Make the leader of a partition write the abort marker of a transaction."""
    request = asked.abort_request(where, producer_id, producer_epoch, coordinator_epoch)
    doing = f"Aborting the transaction of producer {producer_id} in"
    await request_leaders(cluster, {where: None}, lambda wanted: request, asked.read_markers, doing)


def candidate_partitions(cluster: ClusterLinks, names: Iterable[str] | None) -> list[TopicPartition]:
    """Return all partitions in metadata of these topics; None means of all topics."""
    known = cluster.metadata.topics
    return [TopicPartition(name, index) for name in names or known for index in known[name].partitions]
