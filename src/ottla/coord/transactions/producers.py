"""The decisions of InitProducerId about a transactional id: a new epoch, a new producer id, or a refusal (KIP-98, KIP-360).

The functions only read states.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.coord.transactions.transaction import ENDLESS_MS, LAST_EPOCH, NO_EPOCH, NO_PRODUCER_ID, Status, Transaction
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.errors import COORDINATOR_LOAD_IN_PROGRESS, NONE, PRODUCER_FENCED

NewProducerId = Callable[[], int | None]


def timeout_of(body: InitProducerIdRequest) -> int:
    """Return the timeout of this producer's transactions in ms: `ENDLESS_MS` for two-phase commits (KIP-939)."""
    return ENDLESS_MS if body.enable_2pc else body.transaction_timeout_ms


def new_transaction(body: InitProducerIdRequest, producer_id: int, now_ms: int) -> Transaction:
    """Return the state of a new transactional id, which has no epoch yet."""
    return Transaction(
        body.transactional_id or "",
        producer_id=producer_id,
        producer_epoch=NO_EPOCH,
        timeout_ms=timeout_of(body),
        status=Status.EMPTY,
        updated_ms=now_ms,
    )


def expectation_error(known: Transaction, body: InitProducerIdRequest) -> int:
    """Return PRODUCER_FENCED if the producer sends a producer id that is not the current one.

    The previous id is allowed if its epochs were exhausted, because the producer can have missed the reply with the new id.
    """
    if body.producer_id in (NO_PRODUCER_ID, known.producer_id):
        return NONE
    missed_rotation = body.producer_id == known.previous_producer_id and body.producer_epoch >= LAST_EPOCH
    return NONE if missed_rotation else PRODUCER_FENCED


def renew(known: Transaction, body: InitProducerIdRequest, new_producer_id: NewProducerId, now_ms: int) -> Transaction | int:
    """Return the state with the next epoch, or with a new producer id if epochs are exhausted; or an error code.

    A producer that sends its epoch gets the next one. A repeated request gets the same epoch again.
    """
    expected = body.producer_epoch if body.producer_id != NO_PRODUCER_ID else None
    is_fenced_last = known.producer_epoch > LAST_EPOCH and expected == known.last_producer_epoch
    if is_fenced_last or (known.is_exhausted and expected in (None, known.producer_epoch)):
        producer_id = new_producer_id()
        if producer_id is None:
            return COORDINATOR_LOAD_IN_PROGRESS
        return known.begun_anew(producer_id, 0, NO_EPOCH if expected is None else expected, timeout_of(body), now_ms)
    if expected is None:
        epoch, last_epoch = known.producer_epoch + 1, NO_EPOCH
    elif known.producer_epoch in (NO_EPOCH, expected):
        epoch, last_epoch = known.producer_epoch + 1, known.producer_epoch
    elif expected == known.last_producer_epoch:
        epoch, last_epoch = known.producer_epoch, known.last_producer_epoch
    else:
        return PRODUCER_FENCED
    return known.begun_anew(known.producer_id, epoch, last_epoch, timeout_of(body), now_ms)
