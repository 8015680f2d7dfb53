"""Inputs, orders, timers and settings that only the transaction machine has, and error responses for inputs that it cannot decide.
Values only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import NamedTuple, Never

from ottla.coord.transactions.additions import Added, AddPartitions
from ottla.coord.transactions.transaction import Partitions
from ottla.values import dataclass
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The settings of a transaction coordinator, with the names and defaults of the broker's settings."""

    transaction_max_timeout_ms: int = 900_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transactional_id_expiration_ms: int = 7 * DAY_MS
    ottla_max_transactional_id_bytes: int = 64 << 20
    transaction_version: int = 2
    """The finalized level of the feature. It determines how transactions are aborted and how states are stored."""


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """An input: a client ends its transaction. The reply is an `Ended`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int = 0


class Ended(NamedTuple):
    """The reply to `EndTransaction`: an error code, and the producer id and epoch with which the producer continues."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """An input: the transaction markers are written in all partitions that still exist."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class WriteMarkers(NamedTuple):
    """An instruction of the coordinator to its broker: write transaction markers into `partitions`, then submit `MarkersWritten`.

    The coordinator issues it again after a restart, so the broker may write the same markers twice.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: Partitions
    transaction_version: int


@dataclass(frozen=True, slots=True)
class ListSome:
    """An input: list ids in one step, from number `at` of `names` on. Without `names`, begin with all ids.

    The filters of `body` are already checked. The reply is a `ListedSome`.
    """

    body: ListTransactionsRequest
    names: tuple[str, ...] = field(default=(), repr=False)
    at: int = 0


class ListedSome(NamedTuple):
    """The ids of one step that match the filters, and the next step's input; None after the last step."""

    response: ListTransactionsResponse
    following: ListSome | None = None


@dataclass(frozen=True, slots=True)
class TimeoutsKey:
    """The timer of the check for transactions that exceed their timeout. A check continues with number `at` of `names`."""

    names: tuple[str, ...] = field(default=(), compare=False, repr=False)
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class IdExpiryKey:
    """The timer of the check for expired transactional ids. A check continues with number `at` of `names`."""

    names: tuple[str, ...] = field(default=(), compare=False, repr=False)
    at: int = field(default=0, compare=False)


def refuse(body: object, error_code: int) -> object:
    """Return the reply to an input with `error_code`."""
    return _REFUSED[type(body)](body, error_code)  # type: ignore[arg-type]  # the table's keys are the bodies' types


def init_refused(error_code: int) -> InitProducerIdResponse:
    """Return a response to InitProducerId without a producer id."""
    return InitProducerIdResponse(error_code=error_code, producer_id=-1, producer_epoch=-1)


def _describe(body: DescribeTransactionsRequest, error_code: int) -> DescribeTransactionsResponse:
    described = DescribeTransactionsResponse.TransactionState
    return DescribeTransactionsResponse(
        transaction_states=[described(transactional_id=name, error_code=error_code) for name in body.transactional_ids]
    )


_REFUSED: dict[type, Callable[[Never, int], object]] = {
    InitProducerIdRequest: lambda body, error_code: init_refused(error_code),
    AddPartitions: lambda body, error_code: Added(error_code),
    EndTransaction: lambda body, error_code: Ended(error_code),
    MarkersWritten: lambda body, error_code: error_code,
    DescribeTransactionsRequest: _describe,
    ListSome: lambda body, error_code: ListedSome(ListTransactionsResponse(error_code=error_code)),
}
