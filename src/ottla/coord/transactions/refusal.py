"""Error responses for inputs about transactional ids that the coordinator cannot decide. The module uses only messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never

from ottla.coord.transactions.inputs import Added, AddPartitions, Ended, EndTransaction, ListedSome, ListSome, MarkersWritten
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.list_transactions import ListTransactionsResponse


def refused(body: object, error_code: int) -> object:
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
