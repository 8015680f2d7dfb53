"""The resources that have settings: how requests name them, and ListConfigResources (KIP-1142), which lists them.

Version 0 of ListConfigResources was ListClientMetricsResources.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ottla.broker.identity import BrokerIdentity
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import name_error
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from ottla.wire.errors import INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_VERSION

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ConfigResource = ListConfigResourcesResponse.ConfigResource
MOST_TYPES = 1000
"""Upper limit of resource types in ListConfigResources."""
KINDS = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


class ConfigRefused(Exception):
    """Raised for a resource that can't be described or changed, with Kafka's error code and a message."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


def topic_configs(cluster: ClusterImage, name: str) -> Mapping[str, str]:
    """Return the configs of a topic, which must exist. Raises `ConfigRefused`."""
    topic = cluster.topics.get(name)
    if topic is not None:
        return topic.configs
    sentence = name_error(name)
    if sentence is not None:
        raise ConfigRefused(INVALID_TOPIC_EXCEPTION, sentence)
    raise ConfigRefused(UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist: create it first.")


def group_configs(cluster: ClusterImage, name: str) -> Mapping[str, str]:
    """Return the configs of a group, which need not exist. Raises `ConfigRefused`."""
    if not name:
        raise ConfigRefused(INVALID_REQUEST, "Group name must not be empty: name a group.")
    return cluster.group_configs.get(name, {})


def named_broker(identity: BrokerIdentity, name: str, what: str = "Broker id", or_all: str = " or empty string") -> int | None:
    """Return the id of the broker that a resource names, which must be this broker; None for all brokers. Raises `ConfigRefused`.

    `what` and `or_all` are Kafka's words in the error message, which differ from API to API.
    """
    if not name:
        return None
    if not re.fullmatch(r"[+-]?\d{1,10}", name):
        raise ConfigRefused(INVALID_REQUEST, f"{what} must be an integer, but it is: {name}")
    if int(name) != identity.node_id:
        sentence = (
            f"Unexpected broker id, expected {identity.node_id}{or_all}, but received {int(name)}: send the request to that broker."
        )
        raise ConfigRefused(INVALID_REQUEST, sentence)
    return identity.node_id


@serves(ListConfigResourcesRequest, Need(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER), most=MOST_TYPES)
def list_config_resources(request: Request[ListConfigResourcesRequest], identity: BrokerIdentity, cluster: ClusterImage) -> Reply:
    """List the resources of the requested types, or of all types if none is requested. A group is listed if it has configs."""
    wanted = (CLIENT_METRICS,) if request.version == 0 else tuple(dict.fromkeys(request.body.resource_types)) or KINDS
    if not set(wanted) <= set(KINDS):
        return ListConfigResourcesResponse(error_code=UNSUPPORTED_VERSION)
    names: dict[int, Iterable[str]] = {
        TOPIC: cluster.topics,
        GROUP: [name for name, texts in cluster.group_configs.items() if texts],
    }
    names[CLIENT_METRICS] = cluster.client_metrics
    names |= dict.fromkeys((BROKER, BROKER_LOGGER), (str(identity.node_id),))
    resources = [ConfigResource(resource_name=name, resource_type=kind) for kind in wanted for name in names.get(kind, ())]
    return ListConfigResourcesResponse(config_resources=resources)
