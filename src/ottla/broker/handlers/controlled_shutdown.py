"""ControlledShutdown: the partitions that a stopping broker still leads although another replica could lead them.

Served by the controller. Version 2 added the broker epoch (KIP-380).
"""

from __future__ import annotations

from ottla.broker.controller.controller import Controller
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.ports import Steps
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

Remaining = ControlledShutdownResponse.RemainingPartition


@serves(ControlledShutdownRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), controller_only=True, to_the_end=True)
def controlled_shutdown(request: Request[ControlledShutdownRequest], controller: Controller) -> Steps[Reply]:
    """Move leadership away from the broker, and return the partitions that it still leads although another replica could lead."""
    error_code, left = yield from controller.stop(request.body)
    remaining = [Remaining(topic_name=name, partition_index=index) for name, index in left]
    return ControlledShutdownResponse(error_code=error_code, remaining_partitions=remaining)
