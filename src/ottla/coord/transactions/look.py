"""What DescribeTransactions and ListTransactions tell of transactional ids (KIP-664, KIP-994, KIP-1152). Reads only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import groupby

from ottla.coord.transactions.transaction import NO_TIMESTAMP, Status, Transaction
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.errors import INVALID_REGULAR_EXPRESSION, INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND

Described = DescribeTransactionsResponse.TransactionState
Listed = ListTransactionsResponse.TransactionState

LABELS = {status.label for status in Status}


def described(by_id: Mapping[str, Transaction], body: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """The state of each of these ids."""
    return DescribeTransactionsResponse(transaction_states=[_described(by_id, name) for name in body.transactional_ids])


def _described(by_id: Mapping[str, Transaction], transactional_id: str) -> Described:
    known = by_id.get(transactional_id)
    if known is None:
        error_code = TRANSACTIONAL_ID_NOT_FOUND if transactional_id else INVALID_REQUEST
        return Described(transactional_id=transactional_id, error_code=error_code)
    return Described(
        transactional_id=transactional_id,
        transaction_state=known.status.label,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.started_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[
            DescribeTransactionsResponse.TopicData(topic=topic, partitions=[index for _, index in members])
            for topic, members in groupby(sorted(known.partitions), key=lambda partition: partition[0])
        ],
    )


def listed(known: Iterable[Transaction], body: ListTransactionsRequest, now_ms: int) -> ListTransactionsResponse:
    """Those that all filters let through; a filter that names nothing lets all through."""
    response = ListTransactionsResponse(unknown_state_filters=[each for each in body.state_filters if each not in LABELS])
    pattern = None
    if body.transactional_id_pattern:
        try:
            pattern = re.compile(body.transactional_id_pattern)
        except re.error:
            response.error_code = INVALID_REGULAR_EXPRESSION
            return response
    response.transaction_states = [
        Listed(transactional_id=each.transactional_id, producer_id=each.producer_id, transaction_state=each.status.label)
        for each in known
        if not body.state_filters or each.status.label in body.state_filters
        if not body.producer_id_filters or each.producer_id in body.producer_id_filters
        if body.duration_filter < 0 or (each.started_ms != NO_TIMESTAMP and now_ms - each.started_ms > body.duration_filter)
        if pattern is None or pattern.fullmatch(each.transactional_id)
    ]
    return response
