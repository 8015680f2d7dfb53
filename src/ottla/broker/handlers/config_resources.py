"""ListConfigResources: which resources have settings (KIP-1142); version 0, ListClientMetricsResources, has none to name."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.broker import Broker
from ottla.broker.handlers.configs import BROKER, GROUP, TOPIC
from ottla.broker.serving.request import Handlers, Reply, Request
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from ottla.wire.errors import UNSUPPORTED_VERSION

BROKER_LOGGER, CLIENT_METRICS = 8, 16
KINDS = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle_list_config_resources(broker: Broker, request: Request) -> Reply:
    """Resources of the given types, or of all. Groups are listed if something was ever set for them."""
    body: ListConfigResourcesRequest = request.body
    wanted = (CLIENT_METRICS,) if request.version == 0 else tuple(dict.fromkeys(body.resource_types)) or KINDS
    if not set(wanted) <= set(KINDS):
        return ListConfigResourcesResponse(error_code=UNSUPPORTED_VERSION)
    Resource = ListConfigResourcesResponse.ConfigResource
    resources = [Resource(resource_name=name, resource_type=kind) for kind in wanted for name in _names(broker, kind)]
    return ListConfigResourcesResponse(config_resources=resources)


def _names(broker: Broker, kind: int) -> Iterable[str]:
    image = broker.topics.image
    names: dict[int, Iterable[str]] = {TOPIC: image.topics, GROUP: image.group_configs, BROKER: (str(broker.node_id),)}
    return names.get(kind, ())


HANDLERS: Handlers = {74: (range(2), handle_list_config_resources)}
