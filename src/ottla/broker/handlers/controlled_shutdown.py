"""ControlledShutdown: a broker that is about to stop asks which partitions it still leads though another replica could."""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.serving.request import Handlers, Reply, Request
from ottla.wire.api.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from ottla.wire.errors import BROKER_NOT_AVAILABLE


def handle_controlled_shutdown(broker: Broker, request: Request) -> Reply:
    """None is left: only partitions with more than one replica count, and here each has one."""
    body: ControlledShutdownRequest = request.body
    if body.broker_id not in broker.topics.image.brokers:
        return ControlledShutdownResponse(error_code=BROKER_NOT_AVAILABLE)
    return ControlledShutdownResponse()


HANDLERS: Handlers = {7: (range(4), handle_controlled_shutdown)}
