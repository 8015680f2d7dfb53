"""ControlledShutdown: a broker that is about to stop asks which partitions it still leads though another replica could."""

from __future__ import annotations

from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.later import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.errors import BROKER_NOT_AVAILABLE


@serves(ControlledShutdownRequest, Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), controller_only=True)
def controlled_shutdown(request: Request[ControlledShutdownRequest], cluster: ClusterImage) -> Reply:
    """None is left: only partitions with more than one replica count, and here each has one."""
    if request.body.broker_id not in cluster.brokers:
        return ControlledShutdownResponse(error_code=BROKER_NOT_AVAILABLE)
    return ControlledShutdownResponse()
