"""Transactions: the transactional ids, open and hanging transactions, and how to end them."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.console.broker_watch import now_ms
from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import Done, Part
from ottla.console.paths import path_of
from ottla.console.rows import Pages, cut, filter_rows, sorted_by
from ottla.console.views.topics import CHANGE_S

OPEN_STATES = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
HANGING_S = 30.0
"""The time, in s, for which a search for hanging transactions may take: it asks for the producers of all partitions."""


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transactional id. `open_ms` is the age of its open transaction, None without one."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int
    is_open: bool
    open_ms: int | None
    partitions: int | None


@dataclass(frozen=True, slots=True)
class HangingRow:
    """A transaction that no coordinator will end. `transactional_id` is None if it is unknown."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int | None
    start: int | None
    transactional_id: str | None


@dataclass(frozen=True, slots=True)
class TransactionList:
    """A page of transactional ids. `hanging` is None unless hanging transactions were searched for."""

    transactions: Part[list[TransactionRow]]
    place: Pages
    q: str
    sort: str
    open: bool
    hanging: Part[list[HangingRow]] | None
    minutes: int


SORTS = {
    "transactional_id": lambda row: row.transactional_id,
    "state": lambda row: row.state,
    "producer_id": lambda row: row.producer_id,
    "coordinator": lambda row: row.coordinator,
    "open_ms": lambda row: row.open_ms,
}


async def transactions(
    cluster: ClusterSession,
    q: str = "",
    sort: str = "transactional_id",
    page: int = 1,
    open: bool = False,
    hanging: bool = False,
    minutes: int = 15,
) -> TransactionList:
    """Return a page of transactional ids; with `hanging`, also transactions that nobody ended for some minutes."""
    listed = await cluster.part("transactions", lambda admin: admin.list_transactions(check=False))
    found = [each for each in listed.value or () if not open or each.state in OPEN_STATES]
    matching = filter_rows(found, q, lambda each: each.transactional_id)
    ages = await cluster.part(
        "transaction ages",
        lambda admin: admin.describe_transactions(
            *(each.transactional_id for each in matching if each.state in OPEN_STATES), check=False
        ),
    )
    rows = []
    for each in matching:
        described = ages.value.get(each.transactional_id) if ages.value is not None else None
        began = described.start_time_ms if described is not None else None
        age = None if began is None else max(now_ms() - began, 0)
        count = None if described is None else len(described.partitions)
        is_open = each.state in OPEN_STATES
        rows.append(TransactionRow(each.transactional_id, each.state, each.producer_id, each.coordinator_id, is_open, age, count))
    on_page, place = cut(sorted_by(rows, sort, SORTS), page, len(listed.value or ()))
    part = Part(None if listed.value is None else on_page, listed.trouble or ages.trouble, listed.as_of_ms)
    return TransactionList(part, place, q, sort, open, await _hanging(cluster, minutes) if hanging else None, minutes)


async def _hanging(cluster: ClusterSession, minutes: int) -> Part[list[HangingRow]]:
    found = await cluster.part(
        f"hanging {minutes}", lambda admin: admin.find_hanging_transactions(min_open_ms=max(minutes, 0) * 60_000), HANGING_S
    )
    if found.value is None:
        return Part(None, found.trouble)
    rows = [
        HangingRow(
            each.partition.topic,
            each.partition.partition,
            each.producer.producer_id,
            each.producer.producer_epoch,
            each.producer.coordinator_epoch,
            each.producer.transaction_start_offset,
            each.transactional_id,
        )
        for each in found.value
    ]
    return Part(rows, found.trouble, found.as_of_ms)


@dataclass(frozen=True, slots=True)
class TransactionDetails:
    """One transactional id with the partitions of its transaction, each as TOPIC-PARTITION."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    coordinator: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: list[str]
    is_open: bool


async def transaction(cluster: ClusterSession, transactional_id: str) -> TransactionDetails:
    """Return one transactional id with the partitions of its transaction."""
    found = await cluster.query(lambda admin: admin.describe_transactions(transactional_id))
    each = found[transactional_id]
    return TransactionDetails(
        transactional_id,
        each.state,
        each.producer_id,
        each.producer_epoch,
        each.coordinator_id,
        each.timeout_ms,
        each.start_time_ms,
        [f"{where.topic}-{where.partition}" for where in each.partitions],
        each.state in OPEN_STATES,
    )


async def terminate_transaction(cluster: ClusterSession, transactional_id: str) -> Done:
    """Abort the open transaction of a transactional id, and fence its producer."""
    await cluster.query(lambda admin: admin.terminate_transaction(transactional_id), CHANGE_S)
    sentence = f"The transaction of {transactional_id} was aborted, and its producer is fenced."
    return Done(sentence, path_of("/transactions/{transactional_id}", {"transactional_id": transactional_id}))


async def abort_hanging(
    cluster: ClusterSession,
    topic: str,
    partition: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int | None = None,
) -> Done:
    """Abort a hanging transaction in one partition."""
    call = (topic, partition, producer_id, producer_epoch, coordinator_epoch)
    await cluster.query(lambda admin: admin.abort_transaction(*call), CHANGE_S)
    return Done(f"The transaction of producer {producer_id} in {topic}-{partition} was aborted.")
