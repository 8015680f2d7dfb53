"""DescribeTransactions (API key 65): state of transactions. KIP-664."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class DescribeTransactionsRequest(Message, key=65, valid="0", flexible="0+"):
    """A request for descriptions of transactions, by transactional id."""

    transactional_ids: list[str] = since()


class DescribeTransactionsResponse(Message, key=65, valid="0", flexible="0+"):
    """The state, the timeout and the partitions of each described transaction."""

    class TopicData(Struct):
        topic: str = since()
        partitions: list[i32] = since()

    class TransactionState(Struct):
        error_code: i16 = since()
        transactional_id: str = since()
        transaction_state: str = since()
        transaction_timeout_ms: i32 = since()
        transaction_start_time_ms: i64 = since()
        producer_id: i64 = since()
        producer_epoch: i16 = since()
        topics: list[DescribeTransactionsResponse.TopicData] = since()

    throttle_time_ms: i32 = since()
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = since()
