"""What operators do about transactions: asks coordinators and leaders. Knows which broker to ask, and what is asked again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.client import transaction_admin as asked
from ottla.client.errors import BrokerError
from ottla.client.transaction_admin import (
    ActiveProducer,
    FencedProducer,
    HangingTransaction,
    TransactionDescription,
    TransactionListing,
)
from ottla.client.types import TopicPartition
from ottla.client.versions import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
)
from ottla.net.client.cluster import Cluster
from ottla.net.client.coordinator import TRANSACTION, find_coordinator
from ottla.net.client.leaders import ask_leaders
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from ottla.wire.api.init_producer_id import InitProducerIdResponse
from ottla.wire.errors import TRANSACTIONAL_ID_NOT_FOUND
from ottla.wire.schema import Message

AT_A_TIME: Final = 500
"""So many partitions are asked about in one round: a broker has to look at the producers of each."""

Response = TypeVar("Response", bound=Message)
Result = TypeVar("Result")


async def listed(
    cluster: Cluster, states: Iterable[str], producer_ids: Iterable[int], min_duration_ms: int, pattern: str | None
) -> list[TransactionListing]:
    """The transactional ids of all brokers, sorted."""
    request = asked.list_transactions_request(states, producer_ids, min_duration_ms, pattern)

    async def ask() -> list[TransactionListing]:
        await cluster.refresh([])
        nodes = list(cluster.metadata.nodes)
        answers = await asyncio.gather(*(cluster.ask(node_id, LIST_TRANSACTIONS, request) for node_id in nodes))
        return sorted(
            found for node_id, answer in zip(nodes, answers, strict=True) for found in asked.read_transactions(answer, node_id)
        )

    return await cluster.retried(ask)


async def described(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    """The state of a transactional id."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    return await _ask_coordinator(cluster, transactional_id, DESCRIBE_TRANSACTIONS, request, asked.read_transaction)


async def fenced(cluster: Cluster, transactional_id: str) -> FencedProducer:
    """Fence the producer of a transactional id; what it has open is aborted."""

    def read(answer: InitProducerIdResponse, node_id: int) -> FencedProducer:
        return asked.read_fenced(answer, transactional_id)

    return await _ask_coordinator(cluster, transactional_id, INIT_PRODUCER_ID, asked.fence_request(transactional_id), read)


async def _ask_coordinator(
    cluster: Cluster, transactional_id: str, api_key: int, body: Message, read: Callable[[Response, int], Result]
) -> Result:
    """What `read` makes of the coordinator's answer and its node id; asked again while it fails with a retriable error."""

    async def ask() -> Result:
        await cluster.refresh([])
        node_id = await find_coordinator(cluster, transactional_id, TRANSACTION)
        return read(await cluster.ask(node_id, api_key, body), node_id)

    return await cluster.retried(ask)


async def producers(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[ActiveProducer]]:
    """The producers that each partition knows."""
    wanted = sorted(set(partitions))
    found: dict[TopicPartition, list[ActiveProducer]] = {}
    for start in range(0, len(wanted), AT_A_TIME):
        some = dict.fromkeys(wanted[start : start + AT_A_TIME])
        request, read = asked.describe_producers_request, asked.read_producers
        found |= await ask_leaders(cluster, some, DESCRIBE_PRODUCERS, request, read, "Describing the producers of")
    return found


async def aborted(
    cluster: Cluster, where: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int | None
) -> None:
    """Have the leader of a partition write the end of a transaction."""
    request = asked.abort_request(where, producer_id, producer_epoch, coordinator_epoch)
    doing = f"Aborting the transaction of producer {producer_id} in"
    await ask_leaders(cluster, {where: None}, WRITE_TXN_MARKERS, lambda wanted: request, asked.read_markers, doing)


async def hanging(cluster: Cluster, topics: Iterable[str] | None, min_open_ms: int) -> list[HangingTransaction]:
    """The transactions of these topics, or (None) of all, that are open for so long, and that no coordinator will end.

    A transaction may end between two questions, so those found are looked at once more.
    """
    names = None if topics is None else sorted(set(topics))

    async def refresh() -> None:
        await cluster.refresh(names)
        cluster.metadata.check(names or ())

    await cluster.retried(refresh, must_exist=True)
    known = cluster.metadata.topics
    partitions = [TopicPartition(name, index) for name in names or known for index in known[name].partitions]
    before_ms = int(time.time() * 1000) - min_open_ms
    candidates = asked.opened_before(before_ms, await producers(cluster, partitions))
    if not candidates:
        return []
    listings = await listed(cluster, (), {producer.producer_id for _, producer in candidates}, asked.ANY_DURATION, None)
    owners = [await _described_if_known(cluster, listing.transactional_id) for listing in listings]
    found = asked.hanging(candidates, [owner for owner in owners if owner is not None])
    still = asked.opened_before(before_ms, await producers(cluster, {each.partition for each in found}))
    return [each for each in found if (each.partition, each.producer) in still]


async def _described_if_known(cluster: Cluster, transactional_id: str) -> TransactionDescription | None:
    try:
        return await described(cluster, transactional_id)
    except BrokerError as error:
        if error.code != TRANSACTIONAL_ID_NOT_FOUND:
            raise
        return None
