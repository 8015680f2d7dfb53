"""InitProducerId: a new producer id, or the next epoch of a transactional id (KIP-98).

Version 3 added the producer's own id and epoch (KIP-360), 4 PRODUCER_FENCED, 6 two-phase commit (KIP-939). Version 6 is announced
only if two-phase commit is enabled.
"""

from __future__ import annotations

from operator import attrgetter

from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.topics.producer_ids import ProducerIds
from ottla.cluster.acls import CLUSTER_NAME
from ottla.coord.transactions.inputs import init_refused
from ottla.coord.transactions.machine import TransactionMachine
from ottla.ports import Steps
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_PRODUCER_EPOCH,
    INVALID_REQUEST,
    NONE,
    PRODUCER_FENCED,
)

NO_PRODUCER_ID, NO_EPOCH = -1, -1
NEWEST_STABLE = 5
"""The newest stable version: 6 (KIP-939) is unstable in every release, and announced if two-phase commit is enabled."""
FENCED_FROM = 4
"""The first version with PRODUCER_FENCED. Clients of earlier versions get INVALID_PRODUCER_EPOCH."""


@serves(
    InitProducerIdRequest,
    Need(Operation.WRITE, Resource.TRANSACTIONAL_ID, "transactional_id"),
    Need(Operation.TWO_PHASE_COMMIT, Resource.TRANSACTIONAL_ID, "transactional_id", when=attrgetter("enable_2pc")),
    newest=NEWEST_STABLE,
    switch="transaction_two_phase_commit_enable",
)
def init_producer_id(
    request: Request[InitProducerIdRequest],
    producer_ids: ProducerIds,
    coordinators: Coordinators[TransactionMachine],
    rights: Rights,
) -> Steps[Reply]:
    """Return a new id with epoch 0, or the decision of a transactional id's coordinator.

    An idempotent producer that already has an id gets a new id, because there is nothing to fence. If the registry can't
    be written, the error is COORDINATOR_LOAD_IN_PROGRESS, which every client retries.
    """
    if request.body.transactional_id is None and not _may_write(request, rights):
        return init_refused(CLUSTER_AUTHORIZATION_FAILED)
    if producer_ids.is_empty:
        yield from producer_ids.awaited()
    body = request.body
    if body.transactional_id:

        def finish(response: InitProducerIdResponse) -> InitProducerIdResponse:
            if response.error_code == PRODUCER_FENCED and request.version < FENCED_FROM:
                response.error_code = INVALID_PRODUCER_EPOCH
            return response

        return coordinators.request(body.transactional_id, body, request, finish, blocking=True)
    error_code = _error(body)
    if error_code:
        return init_refused(error_code)
    producer_id = producer_ids.next()
    if producer_id is None:
        return init_refused(COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _may_write(request: Request[InitProducerIdRequest], rights: Rights) -> bool:
    """Return whether a client may be an idempotent producer, which requires permission to write to some topic (KIP-679)."""
    peer = request.peer
    return rights.may(peer, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME) or rights.allows_some(
        peer, Operation.WRITE, Resource.TOPIC
    )


def _error(body: InitProducerIdRequest) -> int:
    if body.transactional_id is not None:
        return INVALID_REQUEST
    if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_EPOCH):
        return INVALID_REQUEST
    return NONE
