"""Requests of operators about transactions. The module decides which brokers get a request, and what is retried."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from ottla.client.admin import transactions as asked
from ottla.client.admin.transactions import (
    ActiveProducer,
    FencedProducer,
    HangingTransaction,
    TransactionDescription,
    TransactionListing,
)
from ottla.client.errors import broker_error, raise_for
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.coordinator import TRANSACTION, find_coordinator, find_coordinators
from ottla.net.client.leaders import request_leaders
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from ottla.wire.errors import NONE, TRANSACTIONAL_ID_NOT_FOUND, UNKNOWN_SERVER_ERROR

AT_A_TIME: Final = 500
"""The maximum number of partitions or transactional ids in one request. The limit keeps a broker's answer quick."""


async def list_transactions(
    cluster: ClusterLinks, states: Iterable[str], producer_ids: Iterable[int], min_duration_ms: int, pattern: str | None
) -> list[TransactionListing]:
    """Return the transactional ids of all brokers, sorted."""
    request = asked.list_transactions_request(states, producer_ids, min_duration_ms, pattern)

    async def attempt() -> list[TransactionListing]:
        answers = await cluster.request_each(request)
        return sorted(found for node_id, answer in answers.items() for found in asked.read_transactions(answer, node_id))

    return await cluster.retry(attempt)


async def describe_transactions(
    cluster: ClusterLinks, transactional_ids: Iterable[str], *, must_exist: bool = True
) -> dict[str, TransactionDescription]:
    """Return the states of transactional ids, in the given order.

    An unknown id raises an error if `must_exist`, and is left out otherwise.
    """
    wanted = list(dict.fromkeys(transactional_ids))
    found: dict[str, TransactionDescription] = {}
    for start in range(0, len(wanted), AT_A_TIME):
        found |= await _some_described(cluster, wanted[start : start + AT_A_TIME], must_exist=must_exist)
    return found


async def _some_described(
    cluster: ClusterLinks, transactional_ids: Sequence[str], *, must_exist: bool
) -> dict[str, TransactionDescription]:
    answered: dict[str, TransactionDescription | None] = {}

    async def describe_rest() -> None:
        await cluster.refresh([])
        refused = []
        unanswered = [name for name in transactional_ids if name not in answered]
        for node_id, group in (await find_coordinators(cluster, unanswered, TRANSACTION)).items():
            answer = await cluster.request(node_id, DescribeTransactionsRequest(transactional_ids=group))
            for error_code, description in asked.read_descriptions(answer, node_id):
                name = description.transactional_id
                if error_code == NONE or (error_code == TRANSACTIONAL_ID_NOT_FOUND and not must_exist):
                    answered[name] = None if error_code else description
                else:
                    refused.append(broker_error(error_code, f"Transactional id {name}"))
        # Errors that are not retriable come first.
        for error in sorted(refused, key=lambda error: error.retriable):
            raise error

    await cluster.retry(describe_rest)
    for name in transactional_ids:
        if name not in answered:
            raise_for(UNKNOWN_SERVER_ERROR, f"Transactional id {name}", "The broker's answer leaves it out.")
    return {name: known for name in transactional_ids if (known := answered[name]) is not None}


async def fence_producer(cluster: ClusterLinks, transactional_id: str) -> FencedProducer:
    """Fence the producer of a transactional id, and abort its open transaction. Retriable errors are retried."""

    async def attempt() -> FencedProducer:
        await cluster.refresh([])
        node_id = await find_coordinator(cluster, transactional_id, TRANSACTION)
        answer = await cluster.request(node_id, asked.fence_request(transactional_id))
        return asked.read_fenced(answer, transactional_id)

    return await cluster.retry(attempt)


async def producers(cluster: ClusterLinks, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[ActiveProducer]]:
    """Return the producers of each partition."""
    wanted = sorted(set(partitions))
    found: dict[TopicPartition, list[ActiveProducer]] = {}
    for start in range(0, len(wanted), AT_A_TIME):
        some = dict.fromkeys(wanted[start : start + AT_A_TIME])
        request, read = asked.describe_producers_request, asked.read_producers
        found |= await request_leaders(cluster, some, request, read, "Describing the producers of")
    return found


async def abort_transaction(
    cluster: ClusterLinks, where: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int | None
) -> None:
    """Make the leader of a partition write the abort marker of a transaction."""
    request = asked.abort_request(where, producer_id, producer_epoch, coordinator_epoch)
    doing = f"Aborting the transaction of producer {producer_id} in"
    await request_leaders(cluster, {where: None}, lambda wanted: request, asked.read_markers, doing)


async def find_hanging(cluster: ClusterLinks, topics: Iterable[str] | None, min_open_ms: int) -> list[HangingTransaction]:
    """Return the hanging transactions of `topics` (None: of all) that have been open for at least `min_open_ms`.

    Each is checked twice, because a transaction can end between two requests.
    """
    names = None if topics is None else sorted(set(topics))
    await cluster.confirm(names)
    known = cluster.metadata.topics
    partitions = [TopicPartition(name, index) for name in names or known for index in known[name].partitions]
    before_ms = int(time.time() * 1000) - min_open_ms
    candidates = asked.opened_before(before_ms, await producers(cluster, partitions))
    if not candidates:
        return []
    listings = await list_transactions(cluster, (), {producer.producer_id for _, producer in candidates}, asked.ANY_DURATION, None)
    owners = await describe_transactions(cluster, (listing.transactional_id for listing in listings), must_exist=False)
    found = asked.find_hanging(candidates, owners.values())
    still = asked.opened_before(before_ms, await producers(cluster, {each.partition for each in found}))
    return [each for each in found if (each.partition, each.producer) in still]
