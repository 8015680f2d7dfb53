"""InitProducerId (API key 22): a producer gets its id and epoch.

KIP-98. With version 3 a producer can recover with its old epoch (KIP-360). Version 5 can return TRANSACTION_ABORTABLE (KIP-890), 6
allows two-phase commit (KIP-939).
"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, i64, since


class InitProducerIdRequest(Message, key=22, valid="0-6", flexible="2+"):
    """A request for a producer id. The transactional id is null for a producer that is only idempotent."""

    transactional_id: str | None = since()
    transaction_timeout_ms: i32 = since()
    producer_id: i64 = since("3+", default=-1)
    producer_epoch: i16 = since("3+", default=-1)
    enable_2pc: bool = since("6+")
    keep_prepared_txn: bool = since("6+")


class InitProducerIdResponse(Message, key=22, valid="0-6", flexible="2+"):
    """The producer id and the producer epoch that the producer must put into its batches."""

    throttle_time_ms: i32 = since(ignorable=True)
    error_code: i16 = since()
    producer_id: i64 = since(default=-1)
    producer_epoch: i16 = since()
    ongoing_txn_producer_id: i64 = since("6+", default=-1)
    ongoing_txn_producer_epoch: i16 = since("6+", default=-1)
