"""The responses to DescribeTransactions and ListTransactions (KIP-664, KIP-994, KIP-1152). They only read the state."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Final

from ottla.coord.patterns import IllegalPattern, matcher
from ottla.coord.transactions.inputs import ListedSome, ListSome
from ottla.coord.transactions.transaction import NO_TIMESTAMP, Status, Transaction
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.errors import INVALID_REGULAR_EXPRESSION, INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND

Described = DescribeTransactionsResponse.TransactionState
Listed = ListTransactionsResponse.TransactionState

LABELS = {status.label for status in Status}

MOST_LISTED: Final = 500
"""The most transactional ids that are checked in one step. An expensive pattern reduces this number."""


def describe(by_id: Mapping[str, Transaction], body: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """Return the state of each of these ids."""
    return DescribeTransactionsResponse(transaction_states=[_describe(by_id, name) for name in body.transactional_ids])


def _describe(by_id: Mapping[str, Transaction], transactional_id: str) -> Described:
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


def without_ids(body: ListTransactionsRequest) -> ListTransactionsResponse:
    """Return a ListTransactions response without ids. Its error code says whether the filters are valid."""
    if body.transactional_id_pattern:
        try:
            matcher(body.transactional_id_pattern)
        except IllegalPattern:
            return ListTransactionsResponse(error_code=INVALID_REGULAR_EXPRESSION)
    return ListTransactionsResponse(unknown_state_filters=[each for each in body.state_filters if each not in LABELS])


def list_part(by_id: Mapping[str, Transaction], part: ListSome, now_ms: int) -> ListedSome:
    """Run one step: return the ids that match all filters. An empty filter matches all ids."""
    body = part.body
    names = part.names or tuple(by_id)
    following = part.at + MOST_LISTED
    some = names[part.at : following]
    if body.transactional_id_pattern:
        matched, end = matcher(body.transactional_id_pattern).part(some, 0)
        following = part.at + end
        some = tuple(name for name in some if name in matched)
    states, producer_ids = frozenset(body.state_filters), frozenset(body.producer_id_filters)
    found = [
        Listed(transactional_id=name, producer_id=each.producer_id, transaction_state=each.status.label)
        for name in some
        if (each := by_id.get(name)) is not None
        if not states or each.status.label in states
        if not producer_ids or each.producer_id in producer_ids
        if body.duration_filter < 0 or (each.started_ms != NO_TIMESTAMP and now_ms - each.started_ms > body.duration_filter)
    ]
    rest = ListSome(body, names, following) if following < len(names) else None
    return ListedSome(ListTransactionsResponse(transaction_states=found), rest)
