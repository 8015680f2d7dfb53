"""ControlledShutdown: the partitions that a stopping broker still leads though another replica could.

Served by the controller. Version 2 added the broker epoch (KIP-380).
"""

from __future__ import annotations

from ottla.broker.controller.controller import Controller
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage
from ottla.ports import Steps
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.errors import BROKER_NOT_AVAILABLE

Remaining = ControlledShutdownResponse.RemainingPartition


@serves(ControlledShutdownRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), controller_only=True, to_the_end=True)
def controlled_shutdown(request: Request[ControlledShutdownRequest], cluster: ClusterImage, controller: Controller | None) -> Reply:
    """Have others lead in its place, and say what nobody else can lead. A lone broker has nobody else, so that nothing is left."""
    if controller is not None:
        return _stopped(request.body, controller)
    if request.body.broker_id not in cluster.brokers:
        return ControlledShutdownResponse(error_code=BROKER_NOT_AVAILABLE)
    return ControlledShutdownResponse()


def _stopped(body: ControlledShutdownRequest, controller: Controller) -> Steps[Reply]:
    error_code, left = yield from controller.stop(body)
    remaining = [Remaining(topic_name=name, partition_index=index) for name, index in left]
    return ControlledShutdownResponse(error_code=error_code, remaining_partitions=remaining)
