"""Metadata: which topics there are, who leads their partitions, and where the brokers are. Makes topics that are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.releases.traits import UNSEEN_MS
from ottla.broker.serving.addresses import addresses
from ottla.broker.serving.authorized import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from ottla.broker.serving.request import Handlers, Reply, Request
from ottla.cluster.image import NO_LEADER, PartitionImage, TopicImage
from ottla.cluster.names import name_error
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.errors import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    LEADER_NOT_AVAILABLE,
    NONE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

ASKED_BY_ID_FROM = 12
NO_ID = bytes(16)

Asked = MetadataRequest.MetadataRequestTopic
TopicResponse = MetadataResponse.MetadataResponseTopic
PartitionResponse = MetadataResponse.MetadataResponsePartition


def handle_metadata(broker: Broker, request: Request) -> Reply:
    """Describe the topics asked for (all of them if none is named) and the brokers; a topic made on the way is there at once."""
    body: MetadataRequest = request.body
    if body.topics is None or (request.version == 0 and not body.topics):
        unseen = _unseen(broker, request)
        topics = [_described(broker, topic) for topic in broker.topics.image.topics.values() if topic.name not in unseen]
    elif request.version < ASKED_BY_ID_FROM and any(asked.topic_id != NO_ID or asked.name is None for asked in body.topics):
        return _not_by_id(body.topics)
    else:
        refused = _make_missing(broker, request) if body.allow_auto_topic_creation else {}
        refused |= _unseen(broker, request)
        topics = [_answered(broker, asked, refused) for asked in _distinct(body.topics)]
    if body.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = NOT_ASKED if topic.error_code else ON_TOPIC
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in addresses(broker, request.peer)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.topics.image.controller_id,
        topics=topics,
        cluster_authorized_operations=ON_CLUSTER if body.include_cluster_authorized_operations else NOT_ASKED,
    )


def _not_by_id(asked: Iterable[Asked]) -> MetadataResponse:
    """Versions 10 and 11 have the field, but mean nothing by it."""
    return MetadataResponse(
        topics=[TopicResponse(error_code=INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id) for topic in asked]
    )


def _distinct(asked: Iterable[Asked]) -> Iterable[Asked]:
    return {(topic.topic_id, None if topic.topic_id != NO_ID else topic.name): topic for topic in asked}.values()


def _make_missing(broker: Broker, request: Request) -> dict[str, int]:
    """Make the topics that are asked for by name and are not there; returns error codes of those that can't be made."""
    if not broker.settings.auto_create_topics_enable:
        return {}
    known = broker.topics.image.topics
    names = {topic.name: None for topic in request.body.topics if topic.topic_id == NO_ID and topic.name not in known}
    missing = [name for name in names if name is not None and name_error(name) is None]
    outcomes = broker.topics.create_by_default(missing, request.now) if missing else []
    return {outcome.name: outcome.error_code for outcome in outcomes if outcome.error_code}


def _unseen(broker: Broker, request: Request) -> dict[str, int]:
    """The error of each topic that was made by asking a moment ago, which no broker of the release would see yet. Today, none."""
    error_code = request.release.first_topic_error
    made = broker.topics.made_by_default
    return {name: error_code for name, at_ms in made.items() if request.now.mono_ms - at_ms < UNSEEN_MS} if error_code else {}


def _answered(broker: Broker, asked: Asked, refused: dict[str, int]) -> TopicResponse:
    if asked.topic_id != NO_ID:
        found = broker.topics.image.topic_by_id(asked.topic_id)
        if found is None:
            return TopicResponse(error_code=UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return _described(broker, found)
    if asked.name is None:
        return TopicResponse(error_code=INVALID_REQUEST, name="")
    topic = broker.topics.get(asked.name)
    if topic is not None and asked.name not in refused:
        return _described(broker, topic)
    if name_error(asked.name) is not None:
        return TopicResponse(error_code=INVALID_TOPIC_EXCEPTION, name=asked.name)
    return TopicResponse(error_code=refused.get(asked.name, UNKNOWN_TOPIC_OR_PARTITION), name=asked.name)


def _described(broker: Broker, topic: TopicImage) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[PartitionResponse(**partition_values(broker, topic.name, partition)) for partition in topic.partitions],
    )


def partition_values(broker: Broker, topic: str, image: PartitionImage) -> dict[str, Any]:
    """Who leads a partition, as the fields of Metadata and DescribeTopicPartitions. A leader whose log is offline is none."""
    held = broker.partitions.get(topic, image.index)
    is_offline = held is not None and held.offline is not None
    leader = NO_LEADER if is_offline and image.leader == broker.node_id else image.leader
    return {
        "error_code": LEADER_NOT_AVAILABLE if leader == NO_LEADER else NONE,
        "partition_index": image.index,
        "leader_id": leader,
        "leader_epoch": image.leader_epoch,
        "replica_nodes": list(image.replicas),
        "isr_nodes": list(image.isr),
        "offline_replicas": [broker.node_id] if is_offline else [],
    }


HANDLERS: Handlers = {3: (range(14), handle_metadata)}
