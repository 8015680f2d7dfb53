"""StreamsGroupHeartbeat and StreamsGroupDescribe (KIP-1071), the APIs of streams groups.

The rules of groups are in `coord`. Heartbeat 1 adds the acceptable recovery lag, and Describe 1 the topology's description, which
is not kept here (KIP-1331). A member needs DESCRIBE on all topics of its topology. The missing internal topics of a topology are
created with the rights of the member: it needs CREATE on the topics or on the cluster, otherwise the group's status says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from ottla.broker.coordination.groups import GroupShards
from ottla.broker.handlers.described_groups import DescribedKind, describe_by_kind
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.features import Features
from ottla.broker.topics.streams_topics import StreamsTopics
from ottla.cluster.acls import CLUSTER_NAME
from ottla.cluster.features import OFF, STREAMS_VERSION
from ottla.cluster.names import INTERNAL, name_error
from ottla.coord.consumer.assign import finish
from ottla.coord.streams.response import HeartbeatResult
from ottla.coord.streams.topology.creation import creatable
from ottla.coord.streams.topology.request import CheckedTopology, StreamsHeartbeat, check, name_fault, named_topics
from ottla.coord.streams.topology.statuses import some_of
from ottla.coord.streams.values import MISSING_INTERNAL_TOPICS, InternalTopic
from ottla.ports import Pauses, Steps
from ottla.wire.api.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from ottla.wire.errors import (
    ERRORS,
    STREAMS_INVALID_TOPOLOGY,
    TOPIC_AUTHORIZATION_FAILED,
    UNSUPPORTED_VERSION,
)

MOST_ITEMS = 50_000
MOST_HEARTBEAT_BYTES = 4 << 20
"""Upper limits of list items and bytes in a heartbeat, which has the topology, the owned tasks and their offsets."""

DescribedGroup = StreamsGroupDescribeResponse.DescribedGroup
HeartbeatRequest = Request[StreamsGroupHeartbeatRequest]


FEW_SUBTOPOLOGIES: Final = 10
"""The most subtopologies of a topology that is checked without pauses, which would cost more than the check of a small one."""


class StreamsContext(NamedTuple):
    """The parts of the broker that a heartbeat of a streams group uses."""

    groups: GroupShards
    settings: SettingsInForce
    features: Features
    rights: Rights
    topics: StreamsTopics


@serves(
    StreamsGroupHeartbeatRequest,
    Need(Operation.READ, Resource.GROUP, "group_id"),
    most=MOST_ITEMS,
    most_bytes=MOST_HEARTBEAT_BYTES,
)
def streams_group_heartbeat(request: HeartbeatRequest, context: StreamsContext) -> Reply:
    """Serve a heartbeat if the settings and the feature level allow the streams protocol."""
    if not _serves_streams(context.settings, context.features):
        return StreamsGroupHeartbeatResponse(error_code=UNSUPPORTED_VERSION)
    topology = request.body.topology
    if topology is None:
        return _decide(request, context, None)
    checked = _check_topology(request, context, topology)
    return finish(checked) if len(topology.subtopologies) <= FEW_SUBTOPOLOGIES else checked


def _decide(request: HeartbeatRequest, context: StreamsContext, checked: CheckedTopology | None) -> Reply:
    complete = partial(_with_topics, request, context)
    body = StreamsHeartbeat(request.body, checked)
    return context.groups.request(request.body.group_id, body, request, complete, blocking=True)


def _check_topology(
    request: HeartbeatRequest, context: StreamsContext, sent: StreamsGroupHeartbeatRequest.Topology
) -> Pauses[Reply]:
    """Serve a heartbeat with a topology, with pauses."""
    checked = yield from check(sent)
    yield None
    refused = _topology_error(request, context.rights, sent) if checked.fault is None else None
    yield None
    return _decide(request, context, checked) if refused is None else refused


def _serves_streams(settings: SettingsInForce, features: Features) -> bool:
    return "streams" in settings.value.group_coordinator_rebalance_protocols and features.level(STREAMS_VERSION) != OFF


def _topology_error(
    request: HeartbeatRequest, rights: Rights, sent: StreamsGroupHeartbeatRequest.Topology
) -> StreamsGroupHeartbeatResponse | None:
    """Return the refusal of a topology with topics that it may not use, or that the member may not describe."""
    names = named_topics(sent.subtopologies)
    fault = name_fault(names, INTERNAL, name_error)
    if fault is not None:
        return StreamsGroupHeartbeatResponse(error_code=STREAMS_INVALID_TOPOLOGY, error_message=fault)
    if rights.is_open or not rights.find_denied(
        request.peer, Operation.DESCRIBE, Resource.TOPIC, names, request.api.name, request.now
    ):
        return None
    sentence = ERRORS[TOPIC_AUTHORIZATION_FAILED].sentence
    return StreamsGroupHeartbeatResponse(error_code=TOPIC_AUTHORIZATION_FAILED, error_message=sentence)


def _with_topics(request: HeartbeatRequest, context: StreamsContext, result: HeartbeatResult) -> StreamsGroupHeartbeatResponse:
    """Return the response, and begin to create missing internal topics. The status says why topics cannot be created."""
    if result.missing:
        detail = _create_topics(request, context, result.missing, 2 * result.response.heartbeat_interval_ms)
        for status in result.response.status or ():
            if detail and status.status_code == MISSING_INTERNAL_TOPICS:
                status.status_detail = f"{status.status_detail.rstrip('.')}; {detail}"
    return result.response


def _create_topics(request: HeartbeatRequest, context: StreamsContext, missing: tuple[InternalTopic, ...], retry_ms: int) -> str:
    """Begin to create internal topics. Return what prevents that, as text for the status; empty if nothing does."""
    rights, names = context.rights, [topic.name for topic in missing]
    if not rights.may(request.peer, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
        denied = rights.find_denied(request.peer, Operation.CREATE, Resource.TOPIC, names, request.api.name, request.now)
        if denied:
            return f"Unauthorized to CREATE on topics {some_of(denied)}."
    context.topics.create(map(creatable, missing), request.now, retry_ms)
    failures = context.topics.failures(names, request.now)
    reasons = [f"{name} ({message})" for name, message in failures.items()]
    return f"Creation failed: {some_of(reasons)}." if reasons else ""


@serves(
    StreamsGroupDescribeRequest,
    Need(Operation.DESCRIBE, Resource.GROUP, "group_ids"),
    parts=Parts(((("group_ids",), ("groups",)),), things=20, whole_bytes=64, together=True),
)
def streams_group_describe(
    request: Request[StreamsGroupDescribeRequest],
    groups: GroupShards,
    settings: SettingsInForce,
    features: Features,
    purgatory: Purgatory,
    rights: Rights,
) -> Steps[Reply]:
    """Describe streams groups."""
    is_served = _serves_streams(settings, features)
    return (yield from describe_by_kind(request, _STREAMS, groups, purgatory, rights, is_served=is_served))


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    """Yield the topics in the topology of a group."""
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    for subtopology in subtopologies:
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        yield from (topic.name for topic in subtopology.repartition_source_topics)
        yield from (topic.name for topic in subtopology.state_changelog_topics)


_STREAMS: Final = DescribedKind(
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    DescribedGroup,
    _topics_of,
    hidden="The described group uses topics that the client is not authorized to describe.",
)
