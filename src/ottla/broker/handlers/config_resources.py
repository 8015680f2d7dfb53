"""ListConfigResources: which resources have settings (KIP-1142); version 0, ListClientMetricsResources, has none to name."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.handlers.configs import BROKER, GROUP, TOPIC
from ottla.broker.identity import BrokerIdentity
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.later import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from ottla.wire.errors import UNSUPPORTED_VERSION

BROKER_LOGGER, CLIENT_METRICS = 8, 16
ConfigResource = ListConfigResourcesResponse.ConfigResource
KINDS = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


@serves(ListConfigResourcesRequest, Need(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER))
def list_config_resources(request: Request[ListConfigResourcesRequest], identity: BrokerIdentity, cluster: ClusterImage) -> Reply:
    """Resources of the given types, or of all. Groups are listed if something was ever set for them."""
    wanted = (CLIENT_METRICS,) if request.version == 0 else tuple(dict.fromkeys(request.body.resource_types)) or KINDS
    if not set(wanted) <= set(KINDS):
        return ListConfigResourcesResponse(error_code=UNSUPPORTED_VERSION)
    names: dict[int, Iterable[str]] = {TOPIC: cluster.topics, GROUP: cluster.group_configs, BROKER: (str(identity.node_id),)}
    resources = [ConfigResource(resource_name=name, resource_type=kind) for kind in wanted for name in names.get(kind, ())]
    return ListConfigResourcesResponse(config_resources=resources)
