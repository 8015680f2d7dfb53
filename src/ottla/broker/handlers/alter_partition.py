"""AlterPartition: the in-sync replicas that a leader asks the controller for (KIP-497).

Served by the controller of a cluster. Version 1 added the recovery state (KIP-704), 2 topic ids, 3 the broker epochs of the
replicas (KIP-903).
"""

from __future__ import annotations

from ottla.broker.controller.controller import Controller
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import BY_PARTITION
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.ports import Steps
from ottla.wire.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.errors import NOT_CONTROLLER


@serves(
    AlterPartitionRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), cluster_only=True, parts=BY_PARTITION, to_the_end=True
)
def alter_partition(request: Request[AlterPartitionRequest], controller: Controller) -> Steps[Reply]:
    """Commit the permitted changes to the registry, and return the resulting state of each partition."""
    if not controller.is_active:
        return AlterPartitionResponse(error_code=NOT_CONTROLLER)
    return (yield from controller.alter_partition(request.body, request.version))
