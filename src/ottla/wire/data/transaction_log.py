"""A transaction's state in `__transaction_state`."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, i64, since


class TransactionLogKey(Message, key=0, valid="0"):
    """The key of a record in __transaction_state: the transactional id."""

    transactional_id: str = since("0")


class TransactionLogValue(Message, key=0, valid="0-1", flexible="1+"):
    """The state of a transactional id: its producer id and epoch, the transaction's status, and its partitions.

    Version 1 adds the previous and the next producer id and epoch (KIP-890).
    """

    class PartitionsSchema(Struct):
        topic: str = since()
        partition_ids: list[i32] = since()

    producer_id: i64 = since()
    previous_producer_id: i64 = since("1+", tag=0, default=-1)
    next_producer_id: i64 = since("1+", tag=1, default=-1)
    producer_epoch: i16 = since()
    next_producer_epoch: i16 = since("1+", tag=3, default=-1)
    transaction_timeout_ms: i32 = since()
    transaction_status: i8 = since()
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = since()
    transaction_last_update_timestamp_ms: i64 = since()
    transaction_start_timestamp_ms: i64 = since()
    client_transaction_version: i16 = since("1+", tag=2)
