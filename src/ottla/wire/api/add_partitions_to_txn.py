"""AddPartitionsToTxn (API key 24): partitions become part of a transaction.

KIP-98. In version 4 brokers can verify several transactions; the response of version 5 can be TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class AddPartitionsToTxnRequest(Message, key=24, valid="0-5", flexible="3+"):
    """A request to add partitions to a transaction. From version 4 on, brokers send the partitions of several transactions."""

    class AddPartitionsToTxnTopic(Struct):
        name: str = since()
        partitions: list[i32] = since()

    class AddPartitionsToTxnTransaction(Struct):
        transactional_id: str = since("4+")
        producer_id: i64 = since("4+")
        producer_epoch: i16 = since("4+")
        verify_only: bool = since("4+")
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = since("4+")

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = since("4+")
    v3_and_below_transactional_id: str = since("0-3")
    v3_and_below_producer_id: i64 = since("0-3")
    v3_and_below_producer_epoch: i16 = since("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = since("0-3")


class AddPartitionsToTxnResponse(Message, key=24, valid="0-5", flexible="3+"):
    """The answer to an AddPartitionsToTxn request: an error code for each partition."""

    class AddPartitionsToTxnTopicResult(Struct):
        name: str = since()
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = since()

    class AddPartitionsToTxnPartitionResult(Struct):
        partition_index: i32 = since()
        partition_error_code: i16 = since()

    class AddPartitionsToTxnResult(Struct):
        transactional_id: str = since("4+")
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = since("4+")

    throttle_time_ms: i32 = since()
    error_code: i16 = since("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = since("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = since("0-3")
