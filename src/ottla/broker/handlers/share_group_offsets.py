"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets: the start offsets of share groups (KIP-932).

The coordinator of the group decides, and the persister reads and changes the state. The description of named topics needs only the
persister. Version 1 of DescribeShareGroupOffsets added the lag (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ottla.broker.coordination.end_offsets import EndOffset, EndOffsets
from ottla.broker.coordination.groups import GroupShards
from ottla.broker.coordination.share_group_states import ShareGroupStates
from ottla.broker.handlers.share_groups import are_served
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.share.share_partitions import SharePartitions
from ottla.broker.topics.features import Features
from ottla.cluster.image import ClusterImage
from ottla.coord.share.events import (
    AlteringShares,
    DeletingShares,
    SharePlaces,
    SharesDeleted,
    SharesInitialized,
    ShareStateQuery,
    StatePlace,
)
from ottla.coord.share_state.inputs import StateResult
from ottla.ports import Steps
from ottla.wire.api.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from ottla.wire.api.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from ottla.wire.api.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse
from ottla.wire.errors import ERRORS, NONE, TOPIC_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION
from ottla.wire.schema import Message, Uuid

Group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
DescribedOffsets = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
OffsetsOfTopic = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic
OffsetOfPartition = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition
Altered = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic
AlteredPart = AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition
Deleted = DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic

NO_OFFSET = NO_LAG = -1
NO_EPOCH = 0
"""What is answered without state: the offset, lag and leader epoch of a share partition."""

R = TypeVar("R", bound=Message)


class StateContext(NamedTuple):
    """The objects of the broker by which states of share partitions are found, described and changed."""

    states: ShareGroupStates
    ends: EndOffsets
    shares: SharePartitions
    cluster: ClusterImage
    rights: Rights


@serves(
    DescribeShareGroupOffsetsRequest,
    Need(Operation.DESCRIBE, Resource.GROUP, "groups.group_id"),
    parts=Parts(((("groups", "topics", "partitions"), ("groups", "topics", "partitions")),)),
)
def describe_share_group_offsets(
    request: Request[DescribeShareGroupOffsetsRequest], groups: GroupShards, features: Features, context: StateContext
) -> Steps[Reply]:
    """Return start offsets and lags, of all initialized partitions of a group if the request names no topics."""
    response = DescribeShareGroupOffsetsResponse()
    for group in request.body.groups:
        if not are_served(features):
            response.groups.append(DescribedOffsets(group_id=group.group_id, error_code=UNSUPPORTED_VERSION))
        elif group.topics is None:
            response.groups.append((yield from _describe_all(request, group.group_id, groups, context)))
        else:
            response.groups.append((yield from _describe_named(request, group, context)))
    return response


def _describe_all(
    request: Request[DescribeShareGroupOffsetsRequest], group_id: str, groups: GroupShards, context: StateContext
) -> Steps[DescribedOffsets]:
    """Describe all share partitions of a group, of topics that exist and that the client may describe."""
    found: SharePlaces = yield from groups.request_steps(group_id, ShareStateQuery(group_id), request)
    if found.error_code:
        sentence = ERRORS[found.error_code].sentence
        return DescribedOffsets(group_id=group_id, error_code=found.error_code, error_message=sentence)
    seen = context.rights.answers(request.peer, Operation.DESCRIBE, Resource.TOPIC)
    places = [place for place in found.places if (name := context.cluster.name_of(place.topic_id)) is not None and seen[name]]
    return DescribedOffsets(group_id=group_id, topics=(yield from _describe(group_id, places, context)))


def _describe_named(
    request: Request[DescribeShareGroupOffsetsRequest], group: Group, context: StateContext
) -> Steps[DescribedOffsets]:
    """Describe the requested partitions, whether the group exists or not. Unknown topics and partitions have no offset."""
    seen = context.rights.answers(request.peer, Operation.DESCRIBE, Resource.TOPIC)
    places: dict[StatePlace, None] = {}
    unknown: list[OffsetsOfTopic] = []
    hidden: list[OffsetsOfTopic] = []
    for topic in group.topics or ():
        image = context.cluster.topics.get(topic.topic_name)
        if not seen[topic.topic_name]:
            hidden.append(_without_offsets(topic.topic_name, topic.partitions, TOPIC_AUTHORIZATION_FAILED))
        elif image is None:
            unknown.append(_without_offsets(topic.topic_name, topic.partitions, NONE))
        else:
            places |= dict.fromkeys(StatePlace(image.topic_id, index) for index in topic.partitions)
    described = yield from _describe(group.group_id, list(places), context)
    return DescribedOffsets(group_id=group.group_id, topics=[*described, *unknown, *hidden])


def _without_offsets(name: str, indexes: Sequence[int], error_code: int) -> OffsetsOfTopic:
    sentence = ERRORS[error_code].sentence if error_code else None
    lag = NO_LAG
    return OffsetsOfTopic(
        topic_name=name,
        partitions=[
            OffsetOfPartition(partition_index=index, start_offset=NO_OFFSET, lag=lag, error_code=error_code, error_message=sentence)
            for index in indexes
        ],
    )


def _describe(group_id: str, places: Sequence[StatePlace], context: StateContext) -> Steps[list[OffsetsOfTopic]]:
    results = yield from context.states.read_summary(group_id, places)
    names = {place.topic_id: context.cluster.name_of(place.topic_id) or "" for place in places}
    wanted = [(names[place.topic_id], place.partition) for place, state in zip(places, results, strict=True) if _has_lag(state)]
    ends = yield from context.ends.find(wanted)
    topics: dict[Uuid, OffsetsOfTopic] = {}
    for place, state in zip(places, results, strict=True):
        name = names[place.topic_id]
        topic = topics.setdefault(place.topic_id, OffsetsOfTopic(topic_name=name, topic_id=place.topic_id))
        topic.partitions.append(_described(place.partition, state, ends.get((name, place.partition))))
    return list(topics.values())


def _has_lag(state: StateResult) -> bool:
    return not state.error_code and state.start_offset != NO_OFFSET and state.delivery_complete_count != NO_LAG


def _described(index: int, state: StateResult, end: EndOffset | None) -> OffsetOfPartition:
    """Return a partition's offset. A persister's error means that there is no offset, as in OffsetFetch."""
    if end is not None and end.error_code:
        sentence = ERRORS[end.error_code].sentence
        return OffsetOfPartition(partition_index=index, error_code=end.error_code, error_message=sentence)
    if state.error_code:
        return OffsetOfPartition(partition_index=index, start_offset=NO_OFFSET, leader_epoch=NO_EPOCH)
    lag = NO_LAG if end is None else end.offset - state.start_offset - state.delivery_complete_count
    return OffsetOfPartition(partition_index=index, start_offset=state.start_offset, leader_epoch=state.leader_epoch, lag=lag)


@serves(
    AlterShareGroupOffsetsRequest,
    Need(Operation.READ, Resource.GROUP, "group_id"),
    parts=Parts(((("topics", "partitions"), ("responses", "partitions")),), things=500, whole_bytes=8192),
    to_the_end=True,
)
def alter_share_group_offsets(
    request: Request[AlterShareGroupOffsetsRequest], groups: GroupShards, features: Features, context: StateContext
) -> Steps[Reply]:
    """Set start offsets of a group without members. A missing group is created."""
    body = request.body
    if not are_served(features):
        return AlterShareGroupOffsetsResponse(error_code=UNSUPPORTED_VERSION)
    seen = context.rights.answers(request.peer, Operation.READ, Resource.TOPIC)
    denied = [_refuse_topic(topic) for topic in body.topics if not seen[topic.topic_name]]
    allowed = [topic for topic in body.topics if seen[topic.topic_name]]
    wanted = AlterShareGroupOffsetsRequest(group_id=body.group_id, topics=allowed)
    altering: AlteringShares = yield from groups.request_steps(body.group_id, wanted, request)
    response = altering.response
    if response.error_code:
        return response
    if altering.places:
        results = yield from context.states.initialize(body.group_id, altering.state_epoch, altering.places)
        done = SharesInitialized(body.group_id, altering.places, tuple(result.error_code for result in results))
        error_code: int = yield from groups.request_steps(body.group_id, done, request)
        context.shares.drop_group(body.group_id)
        _add_errors(response, altering.places, [result.error_code or error_code for result in results])
    response.responses = [*denied, *response.responses]
    return response


def _refuse_topic(topic: AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic) -> Altered:
    sentence = ERRORS[TOPIC_AUTHORIZATION_FAILED].sentence
    code = TOPIC_AUTHORIZATION_FAILED
    parts = [
        AlteredPart(partition_index=part.partition_index, error_code=code, error_message=sentence) for part in topic.partitions
    ]
    return Altered(topic_name=topic.topic_name, partitions=parts)


def _add_errors(response: AlterShareGroupOffsetsResponse, places: Sequence[StatePlace], codes: Sequence[int]) -> None:
    """Put the errors of the persister into the response."""
    by_place = {place[:2]: error_code for place, error_code in zip(places, codes, strict=True)}
    for topic in response.responses:
        for part in topic.partitions:
            error_code = by_place.get((bytes(topic.topic_id), part.partition_index), NONE)
            if error_code and not part.error_code:
                part.error_code, part.error_message = error_code, ERRORS[error_code].sentence


@serves(
    DeleteShareGroupOffsetsRequest,
    Need(Operation.DELETE, Resource.GROUP, "group_id"),
    parts=Parts(((("topics",), ("responses",)),), things=100, whole_bytes=8192),
    to_the_end=True,
)
def delete_share_group_offsets(
    request: Request[DeleteShareGroupOffsetsRequest], groups: GroupShards, features: Features, context: StateContext
) -> Steps[Reply]:
    """Delete the state of topics in a group without members."""
    body = request.body
    if not are_served(features):
        return DeleteShareGroupOffsetsResponse(error_code=UNSUPPORTED_VERSION)
    seen = context.rights.answers(request.peer, Operation.READ, Resource.TOPIC)
    denied = [_deletion_result(topic.topic_name, TOPIC_AUTHORIZATION_FAILED) for topic in body.topics if not seen[topic.topic_name]]
    wanted = DeleteShareGroupOffsetsRequest(
        group_id=body.group_id, topics=[topic for topic in body.topics if seen[topic.topic_name]]
    )
    deleting: DeletingShares = yield from groups.request_steps(body.group_id, wanted, request)
    response = deleting.response or DeleteShareGroupOffsetsResponse(error_code=deleting.error_code)
    if response.error_code:
        return response
    response.responses = [*denied, *response.responses]
    if deleting.places:
        results = yield from context.states.delete(body.group_id, deleting.places)
        context.shares.drop_group(body.group_id)
        yield from _end_deletion(request, groups, context, deleting.places, results, response)
    return response


def _end_deletion(
    request: Request[DeleteShareGroupOffsetsRequest],
    groups: GroupShards,
    context: StateContext,
    places: Sequence[StatePlace],
    results: Sequence[StateResult],
    response: DeleteShareGroupOffsetsResponse,
) -> Steps[None]:
    """Store which topics have no state any more, and add all topics to the response."""
    codes: dict[Uuid, int] = {}
    for place, result in zip(places, results, strict=True):
        codes[place.topic_id] = codes.get(place.topic_id) or result.error_code
    gone = tuple(topic_id for topic_id, error_code in codes.items() if not error_code)
    if gone:
        group_id = request.body.group_id
        error_code: int = yield from groups.request_steps(group_id, SharesDeleted(group_id, gone), request)
        codes |= dict.fromkeys(gone, error_code)
    for topic_id, error_code in codes.items():
        topic = _deletion_result(context.cluster.name_of(topic_id) or "", error_code)
        topic.topic_id = topic_id
        response.responses.append(topic)


def _deletion_result(name: str, error_code: int) -> Deleted:
    return Deleted(topic_name=name, error_code=error_code, error_message=ERRORS[error_code].sentence if error_code else None)
