"""Conversions of admin clients' requests for older brokers, as in `older_brokers`. Producers and consumers do not import them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.client.admin.features import UPGRADE
from ottla.client.admin.topics import BROKER_DEFAULT, CLIENT_METRICS_RESOURCE
from ottla.client.errors import NotSupported
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.describe_configs import DescribeConfigsRequest
from ottla.wire.api.list_config_resources import ListConfigResourcesRequest
from ottla.wire.api.update_features import UpdateFeaturesRequest
from ottla.wire.schema import Message

IDS_FROM_DELETE_TOPICS: Final = 6
"""The version of DeleteTopics from which topics are named by name or by id (KIP-516)."""
UPGRADE_TYPES_FROM_UPDATE_FEATURES: Final = 1
"""The version of UpdateFeatures that distinguishes safe from unsafe downgrades, and can only validate them (KIP-778)."""
SYNONYMS_FROM_DESCRIBE_CONFIGS: Final = 1
"""The version of DescribeConfigs from which brokers describe synonyms on request (KIP-226)."""
DOCUMENTATION_FROM_DESCRIBE_CONFIGS: Final = 3
"""The version of DescribeConfigs from which brokers describe settings in words on request (KIP-569)."""
KINDS_FROM_LIST_CONFIG_RESOURCES: Final = 1
"""The version of ListConfigResources from which brokers list other resources than client metrics (KIP-1142)."""
DEFAULTS_FROM_CREATE_TOPICS: Final = 4
"""The version of CreateTopics from which brokers have defaults for the numbers of partitions and of replicas (KIP-464)."""


def fit_administration(version: int, body: Message) -> Message:
    """Return a request of an admin client with the fields that `version` has. Raises the exceptions of `older_brokers.fit`."""
    if isinstance(body, UpdateFeaturesRequest) and version < UPGRADE_TYPES_FROM_UPDATE_FEATURES:
        return _update_features(body)
    if isinstance(body, CreateTopicsRequest) and version < DEFAULTS_FROM_CREATE_TOPICS:
        return _without_defaults(body)
    if isinstance(body, DeleteTopicsRequest) and version >= IDS_FROM_DELETE_TOPICS and body.topic_names:
        named = DeleteTopicsRequest.DeleteTopicState
        return replace(body, topics=[named(name=name) for name in body.topic_names])
    if isinstance(body, DescribeConfigsRequest) and version < DOCUMENTATION_FROM_DESCRIBE_CONFIGS:
        with_synonyms = body.include_synonyms and version >= SYNONYMS_FROM_DESCRIBE_CONFIGS
        return replace(body, include_synonyms=with_synonyms, include_documentation=False)
    if isinstance(body, ListConfigResourcesRequest) and version < KINDS_FROM_LIST_CONFIG_RESOURCES:
        if body.resource_types != [CLIENT_METRICS_RESOURCE]:
            raise NotSupported("Only Kafka 4.1 or newer lists resources other than client metrics: use a newer broker.")
        return replace(body, resource_types=[])
    return body


def _without_defaults(body: CreateTopicsRequest) -> CreateTopicsRequest:
    if any(BROKER_DEFAULT in (topic.num_partitions, topic.replication_factor) for topic in body.topics):
        raise NotSupported("The defaults of brokers need Kafka 2.4 or newer: give the numbers of partitions and of replicas.")
    return body


def _update_features(body: UpdateFeaturesRequest) -> UpdateFeaturesRequest:
    updates = [replace(each, upgrade_type=UPGRADE, allow_downgrade=each.upgrade_type != UPGRADE) for each in body.feature_updates]
    return replace(body, feature_updates=updates)
