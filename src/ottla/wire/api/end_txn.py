"""EndTxn (API key 26): a transaction is committed or aborted.

KIP-98. The response of version 4 can be TRANSACTION_ABORTABLE, 5 raises the epoch with each transaction (KIP-890).
"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, i64, since


class EndTxnRequest(Message, key=26, valid="0-5", flexible="3+"):
    """A producer's request to commit or abort its transaction."""

    transactional_id: str = since()
    producer_id: i64 = since()
    producer_epoch: i16 = since()
    committed: bool = since()


class EndTxnResponse(Message, key=26, valid="0-5", flexible="3+"):
    """The answer to an EndTxn request: an error code, and from version 5 on the producer id and epoch for the next transaction."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    producer_id: i64 = since("5+", default=-1, ignorable=True)
    producer_epoch: i16 = since("5+", default=-1, ignorable=True)
