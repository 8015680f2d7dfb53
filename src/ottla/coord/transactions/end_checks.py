"""The checks of EndTxn: whether a client can end a transaction, and whether it has already ended (KIP-98, KIP-890)."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.coord.transactions.inputs import EndTransaction
from ottla.coord.transactions.transaction import IDLE, LAST_EPOCH, PREPARED, VERSION_WITH_EPOCHS, Status, Transaction
from ottla.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REQUEST,
    INVALID_TXN_STATE,
    NONE,
    PRODUCER_FENCED,
)


class Verdict(NamedTuple):
    """The result of checking an EndTxn: an error code, or NONE and whether the transaction has already ended as requested."""

    error_code: int
    is_done: bool = False


PROCEED: Final = Verdict(NONE)
DONE: Final = Verdict(NONE, is_done=True)


def judge_end(known: Transaction | None, body: EndTransaction) -> Verdict:
    """Check whether a transaction can end as requested. `known` is None for an unknown transactional id."""
    if not body.transactional_id:
        return Verdict(INVALID_REQUEST)
    if known is None:
        return Verdict(INVALID_PRODUCER_ID_MAPPING)
    if body.transaction_version >= VERSION_WITH_EPOCHS:
        return _judge_with_epochs(known.as_held(), body)
    return _judge_without_epochs(known.as_held(), body)


def _judge_without_epochs(known: Transaction, body: EndTransaction) -> Verdict:
    """Check an EndTxn of a client whose transactions share one epoch. After the end, a request with the same epoch is a retry."""
    if known.producer_id != body.producer_id:
        return Verdict(INVALID_PRODUCER_ID_MAPPING)
    if known.producer_epoch != body.producer_epoch:
        return Verdict(PRODUCER_FENCED)
    if known.status in PREPARED:
        return Verdict(CONCURRENT_TRANSACTIONS)
    if known.status is Status.ONGOING:
        return PROCEED
    return Verdict(INVALID_TXN_STATE) if known.status is Status.EMPTY else _judge_again(known, body)


def _judge_with_epochs(known: Transaction, body: EndTransaction) -> Verdict:
    """Check an EndTxn that raises the epoch. A request with the previous epoch is a retry, with the present epoch a new end.

    Without an open transaction, a producer can only abort, to move to its next epoch. While markers are written, producer id and
    epoch are not checked, because the client's next EndTxn can already have the new ones.
    """
    if known.status in PREPARED:
        return Verdict(CONCURRENT_TRANSACTIONS)
    missed_rotation = (
        known.previous_producer_id == body.producer_id and body.producer_epoch == LAST_EPOCH and known.producer_epoch == 0
    )
    is_retry = known.producer_epoch == body.producer_epoch + 1
    if known.producer_id != body.producer_id and not missed_rotation:
        return Verdict(INVALID_PRODUCER_ID_MAPPING)
    if known.status in IDLE and known.status is not Status.EMPTY and (is_retry or missed_rotation):
        return _judge_again(known, body)
    if known.producer_epoch != body.producer_epoch:
        return Verdict(PRODUCER_FENCED)
    if known.status is Status.ONGOING or not body.committed:
        return PROCEED
    return Verdict(INVALID_TXN_STATE)


def _judge_again(known: Transaction, body: EndTransaction) -> Verdict:
    """Check a repeated EndTxn after the transaction has ended.

    It is an error if it requests abort instead of commit, or vice versa.
    """
    return DONE if body.committed == (known.status is Status.COMPLETE_COMMIT) else Verdict(INVALID_TXN_STATE)
