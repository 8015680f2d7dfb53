"""DescribeConfigs: the settings of topics, of groups, of brokers and of their loggers, with their sources (KIP-133).

Sensitive values are null. Version 1 added sources and synonyms (KIP-226), 3 types and documentation (KIP-569).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.broker.handlers.broker_loggers import described_loggers
from ottla.broker.handlers.client_metrics_configs import PUSHED, described_pushes, described_subscription
from ottla.broker.handlers.config_resources import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    KINDS,
    TOPIC,
    ConfigRefused,
    group_configs,
    named_broker,
    topic_configs,
)
from ottla.broker.identity import BrokerIdentity
from ottla.broker.serving.authorization import Need, Operation
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.settings import BrokerSettings, Listener, SettingsInForce
from ottla.broker.settings.setting_sources import (
    DEFAULT_CONFIG,
    DescribedSetting,
    as_emulated,
    described_broker,
    described_changes,
    described_group,
    described_topic,
)
from ottla.broker.telemetry.client_metrics import ClientMetrics
from ottla.cluster.image import ClusterImage
from ottla.ports import Loggers
from ottla.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.errors import INVALID_REQUEST

DescribedResource = DescribeConfigsRequest.DescribeConfigsResource
Described = DescribeConfigsResponse.DescribeConfigsResult
Entry = DescribeConfigsResponse.DescribeConfigsResourceResult


class DescribeContext(NamedTuple):
    """The parts of the broker that the handler uses."""

    identity: BrokerIdentity
    cluster: ClusterImage
    settings: SettingsInForce
    loggers: Loggers
    client_metrics: ClientMetrics


@serves(
    DescribeConfigsRequest,
    Need(Operation.DESCRIBE_CONFIGS, None, "resources.resource_name"),
    parts=Parts(((("resources",), ("results",)),), things=4, whole_bytes=256),
)
def describe_configs(request: Request[DescribeConfigsRequest], context: DescribeContext) -> Reply:
    """Describe the settings that the request names for each resource, or all settings if it names none."""
    response = DescribeConfigsResponse(results=[_describe(context, resource, request) for resource in request.body.resources])
    if request.version == 0:
        for entry in (entry for result in response.results for entry in result.configs):
            entry.is_default = entry.config_source == DEFAULT_CONFIG  # the only information about sources in version 0
    return response


def _describe(context: DescribeContext, resource: DescribedResource, request: Request[DescribeConfigsRequest]) -> Described:
    body = request.body
    kind, name = resource.resource_type, resource.resource_name
    try:
        if kind == CLIENT_METRICS and PUSHED in (resource.configuration_keys or ()):
            rows: Iterable[DescribedSetting] = described_pushes(context.client_metrics, name, request.now)
        else:
            rows = _rows(context, kind, name, request)
    except ConfigRefused as refused:
        return Described(error_code=refused.error_code, error_message=refused.message, resource_type=kind, resource_name=name)
    wanted = set(resource.configuration_keys or ()) - {PUSHED}
    entries = [_entry(row, body) for row in rows if not wanted or row.name in wanted]
    return Described(error_message="", resource_type=kind, resource_name=name, configs=entries)


def _rows(context: DescribeContext, kind: int, name: str, request: Request[DescribeConfigsRequest]) -> Iterable[DescribedSetting]:
    told = as_emulated(context.settings.value, request.release)
    if kind == TOPIC:
        return described_topic(told, topic_configs(context.cluster, name))
    if kind == GROUP:
        return described_group(context.settings.value, group_configs(context.cluster, name))
    if kind == CLIENT_METRICS:
        return described_subscription(name, context.cluster.client_metrics.get(name, {}))
    if kind == BROKER_LOGGER:
        return described_loggers(context.identity, context.loggers, name)
    if kind != BROKER:
        raise ConfigRefused(INVALID_REQUEST, f"Resource type {kind} has no settings: use one of {', '.join(map(str, KINDS))}.")
    if named_broker(context.identity, name) is None:
        return described_changes(told.of_all_brokers)
    return described_broker(_with_addresses(told, context, request))


def _with_addresses(settings: BrokerSettings, context: DescribeContext, request: Request[DescribeConfigsRequest]) -> BrokerSettings:
    """Return the settings with the broker id and the listener address that were determined at startup."""
    peer = request.peer
    listener = Listener(peer.listener, peer.local_host, peer.local_port)
    node_id = str(context.identity.node_id)
    found = {"broker.id": node_id, "listeners": str(listener), "node.id": node_id} | settings.given
    return BrokerSettings(
        found, of_all_brokers=settings.of_all_brokers, of_this_broker=settings.of_this_broker, found=settings.found
    )


def _entry(row: DescribedSetting, body: DescribeConfigsRequest) -> Entry:
    synonyms = [
        DescribeConfigsResponse.DescribeConfigsSynonym(name=name, value=value, source=source)
        for name, value, source in (row.synonyms if body.include_synonyms else ())
    ]
    return Entry(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_sensitive=row.is_sensitive,
        synonyms=synonyms,
        config_type=row.type_code,
        documentation=row.documentation if body.include_documentation else None,
    )
