"""AllocateProducerIds: a block of producer ids for another broker (KIP-730).

Served by the controller alone, in version 0. A broker epoch other than the broker's current epoch is refused.
"""

from __future__ import annotations

from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.topics.producer_ids import ProducerIdBlocks
from ottla.ports import Steps
from ottla.wire.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


@serves(
    AllocateProducerIdsRequest,
    Need(Operation.CLUSTER_ACTION, Resource.CLUSTER),
    controller_only=True,
    cluster_only=True,
    to_the_end=True,
)
def allocate_producer_ids(request: Request[AllocateProducerIdsRequest], blocks: ProducerIdBlocks) -> Steps[Reply]:
    """Allocate the next block for a broker, unless its broker epoch is stale."""
    block = yield from blocks.allocated(request.body.broker_id, request.body.broker_epoch)
    if isinstance(block, int):
        return AllocateProducerIdsResponse(error_code=block)
    return AllocateProducerIdsResponse(producer_id_start=block.start, producer_id_len=len(block))
