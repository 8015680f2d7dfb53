"""Metadata: which topics there are, who leads their partitions, and where the brokers are. Creates topics that are asked for."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.identity import BrokerIdentity
from ottla.broker.serving.addresses import Addresses
from ottla.broker.serving.authorization import NOT_ASKED, OPERATIONS, Need, Operation, Resource
from ottla.broker.serving.later import Reply
from ottla.broker.serving.partition_fields import PartitionDescriber
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.serving.slices import Slices
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.topics import Topics
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.cluster.names import name_error
from ottla.ports import Now
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.errors import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

ASKED_BY_ID_FROM = 12
NO_ID = bytes(16)

Asked = MetadataRequest.MetadataRequestTopic
TopicResponse = MetadataResponse.MetadataResponseTopic
PartitionResponse = MetadataResponse.MetadataResponsePartition


@serves(
    MetadataRequest,
    Need(Operation.DESCRIBE, Resource.TOPIC, "topics.name"),
    slices=Slices(((("topics",), ("topics",)),), things=100),
)
def metadata(
    request: Request[MetadataRequest],
    identity: BrokerIdentity,
    topics: Topics,
    cluster: ClusterImage,
    settings: SettingsInForce,
    addresses: Addresses,
    describer: PartitionDescriber,
) -> Reply:
    """Describe the topics asked for (all of them if none is named) and the brokers; a topic made on the way is there at once."""
    body = request.body
    if body.topics is None or (request.version == 0 and not body.topics):
        unseen = _unseen(topics, request)
        told = [_described(describer, topic) for topic in cluster.topics.values() if topic.name not in unseen]
    elif request.version < ASKED_BY_ID_FROM and any(asked.topic_id != NO_ID or asked.name is None for asked in body.topics):
        return _not_by_id(body.topics)
    else:
        makes = body.allow_auto_topic_creation and settings.value.auto_create_topics_enable
        refused = _make_missing(topics, cluster, body.topics, request.now) if makes else {}
        if topics.made_by_default:
            refused |= _unseen(topics, request)
        told = [_answered(describer, cluster, asked, refused) for asked in _distinct(body.topics)]
    if body.include_topic_authorized_operations:
        for topic in told:
            topic.topic_authorized_operations = NOT_ASKED if topic.error_code else OPERATIONS[Resource.TOPIC]
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in addresses.all(request.peer)
        ],
        cluster_id=identity.cluster_id,
        controller_id=cluster.controller_id,
        topics=told,
        cluster_authorized_operations=OPERATIONS[Resource.CLUSTER] if body.include_cluster_authorized_operations else NOT_ASKED,
    )


def _not_by_id(asked: Iterable[Asked]) -> MetadataResponse:
    """Versions 10 and 11 have the field, but mean nothing by it."""
    return MetadataResponse(
        topics=[TopicResponse(error_code=INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id) for topic in asked]
    )


def _distinct(asked: Iterable[Asked]) -> Iterable[Asked]:
    return {(topic.topic_id, None if topic.topic_id != NO_ID else topic.name): topic for topic in asked}.values()


def _make_missing(topics: Topics, cluster: ClusterImage, asked: Iterable[Asked], now: Now) -> dict[str, int]:
    """Create the topics that are asked for by name and are missing; returns the error codes of those that can't be created."""
    names = {topic.name: None for topic in asked if topic.topic_id == NO_ID and topic.name not in cluster.topics}
    missing = [name for name in names if name is not None and name_error(name) is None]
    decisions = topics.create_by_default(missing, now) if missing else []
    return {decision.name: decision.error_code for decision in decisions if decision.error_code}


def _unseen(topics: Topics, request: Request[MetadataRequest]) -> dict[str, int]:
    """The error of each topic that a request created a moment ago, which no broker of the release would see yet. Today, none."""
    errors = {name: request.release.unseen_error(request.now.mono_ms - at_ms) for name, at_ms in topics.made_by_default.items()}
    return {name: error_code for name, error_code in errors.items() if error_code}


def _answered(describer: PartitionDescriber, cluster: ClusterImage, asked: Asked, refused: dict[str, int]) -> TopicResponse:
    if asked.topic_id != NO_ID:
        found = cluster.topic_by_id(asked.topic_id)
        if found is None:
            return TopicResponse(error_code=UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return _described(describer, found)
    if asked.name is None:
        return TopicResponse(error_code=INVALID_REQUEST, name="")
    topic = cluster.topics.get(asked.name)
    if topic is not None and asked.name not in refused:
        return _described(describer, topic)
    if name_error(asked.name) is not None:
        return TopicResponse(error_code=INVALID_TOPIC_EXCEPTION, name=asked.name)
    return TopicResponse(error_code=refused.get(asked.name, UNKNOWN_TOPIC_OR_PARTITION), name=asked.name)


def _described(describer: PartitionDescriber, topic: TopicImage) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[describer.describe(topic.name, partition, PartitionResponse) for partition in topic.partitions],
    )
