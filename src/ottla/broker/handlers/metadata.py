"""Metadata: topics, the leaders of their partitions, and the addresses of brokers. Missing topics are created if that is allowed.

A request for all topics has a null list from version 1 on, and an empty list in version 0. Version 4 added
`allow_auto_topic_creation`, 5 offline replicas, 7 leader epochs, 8 authorized operations (KIP-430), 10 topic ids, and 12 requests
by topic id.

DescribeCluster returns the live brokers and the controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from ottla.broker.identity import BrokerIdentity
from ottla.broker.security.rights import NOT_ASKED, Rights
from ottla.broker.serving.addresses import Addresses
from ottla.broker.serving.all_topics import TOPICS, AllTopics, TopicsQuery, described_topic
from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.metadata_waits import MetadataWaits
from ottla.broker.serving.partition_fields import PartitionDescriber
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.serving.refusals import translate_response
from ottla.broker.serving.request import Encoded, Request
from ottla.broker.serving.routes import serves
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.by_name import TopicsByName, is_there
from ottla.broker.topics.topics import Topics
from ottla.cluster.acls import CLUSTER_NAME
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import name_error
from ottla.ports import Part, Steps
from ottla.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.codec.blocks import with_array
from ottla.wire.errors import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    LEADER_NOT_AVAILABLE,
    MISMATCHED_ENDPOINT_TYPE,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_ENDPOINT_TYPE,
)

ASKED_BY_ID_FROM = 12
NO_ID = bytes(16)

Asked = MetadataRequest.MetadataRequestTopic
TopicResponse = MetadataResponse.MetadataResponseTopic

MADE_AT_ONCE = 10
"""Topics in one commit to the registry."""

BROKERS, CONTROLLERS = 1, 2


@serves(DescribeClusterRequest)
def describe_cluster(
    request: Request[DescribeClusterRequest],
    identity: BrokerIdentity,
    cluster: ClusterImage,
    addresses: Addresses,
    rights: Rights,
    metadata_waits: MetadataWaits,
) -> Reply:
    """Describe the brokers that have the client's listener. Controllers are not described, because they have no listeners."""
    body = request.body
    if body.endpoint_type == CONTROLLERS:
        sentence = "This listener is for clients of brokers: request the endpoint type of brokers."
        return DescribeClusterResponse(error_code=MISMATCHED_ENDPOINT_TYPE, error_message=sentence)
    if body.endpoint_type != BROKERS:
        sentence = f"There is no endpoint type {body.endpoint_type}: use brokers ({BROKERS})."
        return DescribeClusterResponse(error_code=UNSUPPORTED_ENDPOINT_TYPE, error_message=sentence)
    asks = body.include_cluster_authorized_operations

    def describe() -> Reply:
        return DescribeClusterResponse(
            cluster_id=identity.cluster_id,
            controller_id=cluster.controller_id,
            brokers=[
                DescribeClusterResponse.DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack)
                for node_id, host, port, rack in addresses.all(request.peer)
            ],
            cluster_authorized_operations=rights.cluster_operations(request.peer) if asks else NOT_ASKED,
        )

    return metadata_waits.delay(request.now, describe)


class MetadataContext(NamedTuple):
    """The parts of the broker that the handler uses."""

    identity: BrokerIdentity
    topics: Topics
    by_name: TopicsByName
    cluster: ClusterImage
    settings: SettingsInForce
    addresses: Addresses
    describer: PartitionDescriber
    all_topics: AllTopics
    rights: Rights
    purgatory: Purgatory
    metadata_waits: MetadataWaits


@serves(
    MetadataRequest,
    parts=Parts(((("topics",), ("topics",)),), things=100),
)
def metadata(request: Request[MetadataRequest], context: MetadataContext) -> Reply:
    """Describe the brokers and the requested topics, or all topics if none is named. Create missing topics if allowed."""
    return context.metadata_waits.delay(request.now, partial(_describe, request, context))


def _describe(request: Request[MetadataRequest], context: MetadataContext) -> Reply:
    body = request.body
    if request.whole is None and (body.topics is None or (request.version == 0 and not body.topics)):
        return _all(request, context)
    assert body.topics is not None, "all of them were asked for above"
    if request.version < ASKED_BY_ID_FROM and any(asked.topic_id != NO_ID or asked.name is None for asked in body.topics):
        return _not_by_id(body.topics)
    hidden = _hidden(request, context)
    if not context.metadata_waits.has_metadata:
        return _describe_named(
            request, context, dict.fromkeys(_find_missing(context.cluster, body.topics), LEADER_NOT_AVAILABLE) | hidden
        )
    if body.allow_auto_topic_creation and context.settings.value.auto_create_topics_enable:
        missing = [name for name in _find_missing(context.cluster, body.topics) if name not in hidden]
        denied = hidden | _deny_creation(request, context.rights, missing)
        missing = [name for name in missing if name not in denied]
        if missing:
            return context.purgatory.run(_with_new(request, context, missing, denied), to_the_end=True)
        return _describe_named(request, context, denied)
    return _describe_named(request, context, hidden)


def _hidden(request: Request[MetadataRequest], context: MetadataContext) -> dict[str, int]:
    """Return an error for each topic that the client may not describe, existing or not."""
    if context.rights.is_open:
        return {}
    by_id = (context.cluster.name_of(asked.topic_id) for asked in request.body.topics or () if asked.topic_id != NO_ID)
    named = [name for name in (*by_id, *(asked.name for asked in request.body.topics or ())) if name is not None]
    names = context.rights.find_denied(request.peer, Operation.DESCRIBE, Resource.TOPIC, named, request.api.name, request.now)
    return dict.fromkeys(names, TOPIC_AUTHORIZATION_FAILED)


def _deny_creation(request: Request[MetadataRequest], rights: Rights, missing: list[str]) -> dict[str, int]:
    """Return an error for each missing topic that the client may not create."""
    if not missing or rights.may(request.peer, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
        return {}
    denied = rights.find_denied(request.peer, Operation.CREATE, Resource.TOPIC, missing, request.api.name, request.now)
    return dict.fromkeys(denied, TOPIC_AUTHORIZATION_FAILED)


def _describe_named(request: Request[MetadataRequest], context: MetadataContext, refused: dict[str, int]) -> MetadataResponse:
    """Describe the topics that a request names; `refused` has the errors of topics that could not be created."""
    body = request.body
    if context.by_name.made_lately:
        refused |= _unseen(context.by_name, request)
    response = _brokers(request, context)
    response.topics = [
        _describe_one(context.describer, context.cluster, asked, refused, request.version) for asked in _distinct(body.topics or ())
    ]
    if body.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.error_code in (NONE, UNKNOWN_TOPIC_OR_PARTITION) and topic.name is not None:
                topic.topic_authorized_operations = context.rights.operations(request.peer, Resource.TOPIC, topic.name)
    return response


def _with_new(
    request: Request[MetadataRequest], context: MetadataContext, missing: list[str], denied: dict[str, int]
) -> Steps[Reply]:
    """Create the missing topics, a few at a time, and describe all topics. A disconnect of the client does not end the creation."""
    refused = dict(denied)
    for start in range(0, len(missing), MADE_AT_ONCE):
        names = missing[start : start + MADE_AT_ONCE]
        decisions = yield from context.by_name.create(names)
        refused |= {decision.name: decision.error_code for decision in decisions if not is_there(decision)}
        yield None
    return _describe_named(request, context, refused)


def _all(request: Request[MetadataRequest], context: MetadataContext) -> Reply:
    response = _brokers(request, context)
    unseen = _unseen(context.by_name, request)
    if unseen:
        seen = context.rights.answers(request.peer, Operation.DESCRIBE, Resource.TOPIC)
        there = (topic for topic in context.cluster.topics.values() if topic.name not in unseen and seen[topic.name])
        response.topics = [described_topic(context.describer, topic, request.version) for topic in there]
        return response
    asker = TopicsQuery(request.version, request.release.name, request.body.include_topic_authorized_operations)
    if not context.rights.is_unlimited(request.peer):
        return _with_all(request, response, _visible(request, context, asker))
    at_hand = context.all_topics.at_hand(asker)
    if at_hand is None:
        return _with_all(request, response, context.all_topics.encode(asker, request.release))
    return Encoded(with_array(translate_response(request, response), request.version, TOPICS, at_hand))


def _with_all(request: Request[MetadataRequest], response: MetadataResponse, made: Steps[list[Part]]) -> Steps[Reply]:
    array = yield from made
    return Encoded(with_array(translate_response(request, response), request.version, TOPICS, array))


def _visible(request: Request[MetadataRequest], context: MetadataContext, asker: TopicsQuery) -> Steps[list[Part]]:
    """Return the encoded array of the topics that the client may describe."""
    seen, rights = context.rights.answers(request.peer, Operation.DESCRIBE, Resource.TOPIC), context.rights

    def operations(name: str) -> int:
        return rights.operations(request.peer, Resource.TOPIC, name) if asker.with_operations else NOT_ASKED

    names = (name for name in list(context.cluster.topics) if seen[name])
    return context.all_topics.some(asker, request.release, names, operations)


def _brokers(request: Request[MetadataRequest], context: MetadataContext) -> MetadataResponse:
    told_operations = request.body.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in context.addresses.all(request.peer)
        ],
        cluster_id=context.identity.cluster_id,
        controller_id=context.cluster.controller_id,
        cluster_authorized_operations=context.rights.cluster_operations(request.peer) if told_operations else NOT_ASKED,
    )


def _not_by_id(asked: Iterable[Asked]) -> MetadataResponse:
    """Return an error for each topic in versions 10 and 11, which have the field for topic ids but do not support them."""
    return MetadataResponse(
        topics=[TopicResponse(error_code=INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id) for topic in asked]
    )


def _distinct(asked: Iterable[Asked]) -> Iterable[Asked]:
    return {(topic.topic_id, None if topic.topic_id != NO_ID else topic.name): topic for topic in asked}.values()


def _find_missing(cluster: ClusterImage, asked: Iterable[Asked]) -> list[str]:
    """Return the topics requested by name that do not exist and have a valid name."""
    names = {topic.name: None for topic in asked if topic.topic_id == NO_ID and topic.name not in cluster.topics}
    return [name for name in names if name is not None and name_error(name) is None]


def _unseen(by_name: TopicsByName, request: Request[MetadataRequest]) -> dict[str, int]:
    """Return an error for each topic that is too new to be visible in the emulated release. Without a release, return none."""
    errors = {name: request.release.unseen_error(request.now.mono_ms - at_ms) for name, at_ms in by_name.made_lately.items()}
    return {name: error_code for name, error_code in errors.items() if error_code}


def _describe_one(
    describer: PartitionDescriber, cluster: ClusterImage, asked: Asked, refused: dict[str, int], version: int
) -> TopicResponse:
    if asked.topic_id != NO_ID:
        found = cluster.topic_by_id(asked.topic_id)
        if found is None:
            return TopicResponse(error_code=UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        if refused.get(found.name) == TOPIC_AUTHORIZATION_FAILED:
            return TopicResponse(error_code=TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=asked.topic_id)
        return described_topic(describer, found, version)
    if asked.name is None:
        return TopicResponse(error_code=INVALID_REQUEST, name="")
    if refused.get(asked.name) == TOPIC_AUTHORIZATION_FAILED:
        return TopicResponse(error_code=TOPIC_AUTHORIZATION_FAILED, name=asked.name)
    topic = cluster.topics.get(asked.name)
    if topic is not None and asked.name not in refused:
        return described_topic(describer, topic, version)
    if name_error(asked.name) is not None:
        return TopicResponse(error_code=INVALID_TOPIC_EXCEPTION, name=asked.name)
    return TopicResponse(error_code=refused.get(asked.name, UNKNOWN_TOPIC_OR_PARTITION), name=asked.name)
