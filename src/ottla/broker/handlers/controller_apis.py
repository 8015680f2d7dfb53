"""Requests of brokers to the controller: AlterPartition, AllocateProducerIds and ControlledShutdown.

AlterPartition has the in-sync replicas that a leader asks for (KIP-497). Version 1 added the recovery state (KIP-704), 2 topic
ids, 3 the broker epochs of the replicas (KIP-903).

AllocateProducerIds returns a block of producer ids (KIP-730), in version 0. A broker epoch other than the broker's current
epoch is refused.

ControlledShutdown returns the partitions that a stopping broker still leads although another replica could lead them. Version 2
added the broker epoch (KIP-380).
"""

from __future__ import annotations

from ottla.broker.controller.controller import Controller
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import BY_PARTITION
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.topics.producer_ids import ProducerIdBlocks
from ottla.ports import Steps
from ottla.wire.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.errors import NOT_CONTROLLER

Remaining = ControlledShutdownResponse.RemainingPartition


@serves(ControlledShutdownRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), controller_only=True, to_the_end=True)
def controlled_shutdown(request: Request[ControlledShutdownRequest], controller: Controller) -> Steps[Reply]:
    """Move leadership away from the broker, and return the partitions that it still leads although another replica could lead."""
    error_code, left = yield from controller.stop(request.body)
    remaining = [Remaining(topic_name=name, partition_index=index) for name, index in left]
    return ControlledShutdownResponse(error_code=error_code, remaining_partitions=remaining)


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


@serves(
    AlterPartitionRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), cluster_only=True, parts=BY_PARTITION, to_the_end=True
)
def alter_partition(request: Request[AlterPartitionRequest], controller: Controller) -> Steps[Reply]:
    """Commit the permitted changes to the registry, and return the resulting state of each partition."""
    if not controller.is_active:
        return AlterPartitionResponse(error_code=NOT_CONTROLLER)
    return (yield from controller.alter_partition(request.body, request.version))
