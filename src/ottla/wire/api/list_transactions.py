"""ListTransactions (API key 66): the transactions that a broker coordinates.

KIP-664. Version 1 filters by duration (KIP-994), 2 by pattern (KIP-1152).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class ListTransactionsRequest(Message, key=66, valid="0-2", flexible="0+"):
    """A request for the transactions of a coordinator, filtered by state, producer id, duration and id pattern."""

    state_filters: list[str] = since()
    producer_id_filters: list[i64] = since()
    duration_filter: i64 = since("1+", default=-1)
    transactional_id_pattern: str | None = since("2+", default=None)


class ListTransactionsResponse(Message, key=66, valid="0-2", flexible="0+"):
    """The transactions that match the filters, each with transactional id, producer id and state."""

    class TransactionState(Struct):
        transactional_id: str = since()
        producer_id: i64 = since()
        transaction_state: str = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    unknown_state_filters: list[str] = since()
    transaction_states: list[ListTransactionsResponse.TransactionState] = since()
