"""InitProducerId: ids for idempotent producers, never the same one twice, whatever happens to the broker."""

from __future__ import annotations

from ottla.broker.coordination.transactions import NoTransactions
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.later import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.topics.producer_ids import ProducerIds
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.errors import COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, NONE

NO_PRODUCER_ID, NO_EPOCH = -1, -1
NEWEST_STABLE = 5
"""Version 6 (KIP-939) is unstable in every release: no broker announces it."""


@serves(
    InitProducerIdRequest,
    Need(Operation.WRITE, Resource.TRANSACTIONAL_ID, "transactional_id"),
    newest=NEWEST_STABLE,
)
def init_producer_id(request: Request[InitProducerIdRequest], producer_ids: ProducerIds, transactions: NoTransactions) -> Reply:
    """Give a new id with epoch 0. A producer that has one and asks again gets another: it has nothing to be fenced from.

    A registry that can't be written is told as COORDINATOR_LOAD_IN_PROGRESS, which every client tries again.
    """
    body = request.body
    error_code = transactions.refuse(request) if body.transactional_id else _error(body)
    if error_code:
        return _failed(error_code)
    producer_id = producer_ids.next()
    if producer_id is None:
        return _failed(COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _failed(error_code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error_code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


def _error(body: InitProducerIdRequest) -> int:
    if body.transactional_id is not None:
        return INVALID_REQUEST
    if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_EPOCH):
        return INVALID_REQUEST
    return NONE
