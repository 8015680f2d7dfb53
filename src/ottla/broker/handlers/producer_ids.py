"""InitProducerId: ids for idempotent producers, never the same one twice, whatever happens to the broker."""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.serving.request import Handlers, Reply, Request
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.errors import COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, NONE

NO_PRODUCER_ID, NO_EPOCH = -1, -1


def handle_init_producer_id(broker: Broker, request: Request) -> Reply:
    """Give a new id with epoch 0. A producer that has one and asks again gets another: it has nothing to be fenced from.

    A registry that can't be written is told as COORDINATOR_LOAD_IN_PROGRESS, which every client tries again.
    """
    body: InitProducerIdRequest = request.body
    error_code = broker.transactions.refuse(request) if body.transactional_id else _error(body)
    if error_code:
        return _failed(error_code)
    producer_id = broker.topics.producer_ids.next()
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


HANDLERS: Handlers = {22: (range(6), handle_init_producer_id)}
"""Version 6 (KIP-939) is unstable in every release: no broker announces it."""
