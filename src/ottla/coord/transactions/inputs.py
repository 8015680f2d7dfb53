"""Inputs, orders, timers and settings of the machine of transactions, besides those that every coordinator has. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.coord.transactions.transaction import Partitions, TopicPartition
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Settings of a transaction coordinator, with the names and defaults of the broker's."""

    transaction_max_timeout_ms: int = 900_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transactional_id_expiration_ms: int = 7 * DAY_MS
    ottla_max_transactional_id_bytes: int = 64 << 20
    transaction_version: int = 2
    """The finalised feature: what the coordinator ends by itself, and how it stores states, goes by it."""


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Make partitions part of a producer's transaction; with `verify_only` tell which of them are.

    The reply is an `Added`. With `leaves_early` it does not wait until that is durable: whoever asks sees to it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    transaction_version: int = 0
    verify_only: bool = False
    leaves_early: bool = False


class Added(NamedTuple):
    """An error of them all, or of those partitions alone that are not part of the transaction."""

    error_code: int
    absent: Partitions = frozenset()

    def error_of(self, partition: TopicPartition, if_absent: int) -> int:
        return self.error_code or (if_absent if partition in self.absent else 0)


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """A client ends its transaction. The reply is an `Ended`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int = 0


class Ended(NamedTuple):
    """How an end went, and what the producer goes on with."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """The markers of a transaction stand in all its partitions, or those partitions are no more."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class WriteMarkers(NamedTuple):
    """An order: write the end of a transaction into its partitions, then say `MarkersWritten`. It may come twice."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: Partitions
    transaction_version: int


@dataclass(frozen=True, slots=True)
class ListSome:
    """Tell of some ids, from number `at` of `names` on; without names, of the first of all there are.

    The filters of `body` are legal. The reply is a `ListedSome`.
    """

    body: ListTransactionsRequest
    names: tuple[str, ...] = field(default=(), repr=False)
    at: int = 0


class ListedSome(NamedTuple):
    """What the filters let through, and how to ask for more; None after the last."""

    response: ListTransactionsResponse
    following: ListSome | None = None


@dataclass(frozen=True, slots=True)
class TimeoutsKey:
    """The next look for transactions that are open for too long; one that is under way goes on with number `at` of `names`."""

    names: tuple[str, ...] = field(default=(), compare=False, repr=False)
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class IdExpiryKey:
    """The next look for transactional ids that nobody has used for long.

    One that is under way goes on with number `at` of `names`.
    """

    names: tuple[str, ...] = field(default=(), compare=False, repr=False)
    at: int = field(default=0, compare=False)
