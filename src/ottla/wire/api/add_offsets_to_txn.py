"""AddOffsetsToTxn (API key 25): a group's offsets become part of a transaction.

KIP-98. The response of version 4 can be TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, i64, since


class AddOffsetsToTxnRequest(Message, key=25, valid="0-4", flexible="3+"):
    """A producer's request to add a group to its transaction, so that the transaction can commit offsets of the group."""

    transactional_id: str = since()
    producer_id: i64 = since()
    producer_epoch: i16 = since()
    group_id: str = since()


class AddOffsetsToTxnResponse(Message, key=25, valid="0-4", flexible="3+"):
    """The answer to an AddOffsetsToTxn request: an error code, 0 if the group was added."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
