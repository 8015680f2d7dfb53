"""OffsetCommit, OffsetFetch and OffsetDelete: committed offsets of groups. Topics are checked here, the rest by coordinators.

In version 0 of OffsetCommit and OffsetFetch, offsets are in the registry (`registry_offsets`). OffsetFetch has a group error code
from version 2 on, `require_stable` from 7 on and several groups from 8 on; both APIs name topics by id from version 10 on.
`retention_time_ms` of a commit exists in versions 2 to 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ottla.broker.coordination.groups import GroupShards
from ottla.broker.coordination.registry_offsets import RegistryOffsets
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import BY_PARTITION, Parts
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.cluster.image import ClusterImage
from ottla.coord.offsets import StableFetch
from ottla.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.errors import TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION

TOPIC_IDS_FROM = 10
TOP_LEVEL_ERROR_FROM = 2
MANY_GROUPS_FROM = 8

Topic = TypeVar("Topic", OffsetCommitRequest.OffsetCommitRequestTopic, TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic)
Failed = TypeVar("Failed")
Response = TypeVar("Response", OffsetCommitResponse, OffsetDeleteResponse)
CommitTopic = OffsetCommitRequest.OffsetCommitRequestTopic
CommittedTopic = OffsetCommitResponse.OffsetCommitResponseTopic
CommittedPartition = OffsetCommitResponse.OffsetCommitResponsePartition
FetchGroup = OffsetFetchRequest.OffsetFetchRequestGroup
FetchTopic = OffsetFetchRequest.OffsetFetchRequestTopics
FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup
FetchedTopic = OffsetFetchResponse.OffsetFetchResponseTopics
FetchedPartition = OffsetFetchResponse.OffsetFetchResponsePartitions
DeletedTopic = OffsetDeleteResponse.OffsetDeleteResponseTopic
DeletedPartition = OffsetDeleteResponse.OffsetDeleteResponsePartition
OldTopic = OffsetFetchResponse.OffsetFetchResponseTopic
OldPartition = OffsetFetchResponse.OffsetFetchResponsePartition


@serves(
    OffsetCommitRequest,
    Need(Operation.READ, Resource.GROUP, "group_id"),
    Need(Operation.READ, Resource.TOPIC, "topics.name"),
    parts=Parts(((("topics", "partitions"), ("topics", "partitions")),), things=500, whole_bytes=8192),
)
def offset_commit(
    request: Request[OffsetCommitRequest], cluster: ClusterImage, groups: GroupShards, old_offsets: RegistryOffsets
) -> Reply:
    """Commit the offsets of partitions that exist. Each missing partition gets an error."""
    if request.version == 0:
        return old_offsets.commit(request)
    body = request.body
    if not request.release.checks_members:
        body = replace(body, generation_id_or_member_epoch=-1, member_id="")
    by_id, committable = request.version >= TOPIC_IDS_FROM, request.release.committable
    known, unknown = split_known(cluster, body.topics, _not_committed, by_id=by_id, committable=committable)
    if not known and unknown:
        return OffsetCommitResponse(topics=unknown)

    def finish(response: OffsetCommitResponse) -> OffsetCommitResponse:
        return _with_unknown(response, unknown) if unknown else response

    part = replace(body, topics=known) if unknown else body
    return groups.request(body.group_id, part, request, finish)


def split_known(
    cluster: ClusterImage,
    topics: Iterable[Topic],
    failed: Callable[[Topic, list[int], int], Failed],
    *,
    by_id: bool,
    committable: Callable[[int | None], int],
) -> tuple[list[Topic], list[Failed]]:
    """Return the topics with only their existing partitions, with names and ids, and the errors of the missing partitions.

    `failed` makes the errors of one topic. `committable` returns the number of partitions from the number that the topic has, or
    from None if it does not exist.
    """
    known: list[Topic] = []
    unknown: list[Failed] = []
    for topic in topics:
        missing = UNKNOWN_TOPIC_OR_PARTITION
        if by_id:
            topic.name = cluster.name_of(topic.topic_id) or ""
            missing = missing if topic.name else UNKNOWN_TOPIC_ID
        image = cluster.topics.get(topic.name)
        count = committable(None if image is None else len(image.partitions))
        if image is not None:
            topic.topic_id = image.topic_id
        absent = [each.partition_index for each in topic.partitions if not 0 <= each.partition_index < count]
        if absent:
            unknown.append(failed(topic, absent, missing))
            topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
        if topic.partitions:
            known.append(topic)
    return known, unknown


def _not_committed(topic: CommitTopic, indexes: list[int], error_code: int) -> CommittedTopic:
    parts = [CommittedPartition(partition_index=index, error_code=error_code) for index in indexes]
    return CommittedTopic(name=topic.name, topic_id=topic.topic_id, partitions=parts)


def _with_unknown(response: Response, unknown: Iterable[Any]) -> Response:
    """Return the response with the errors of missing partitions, each in the entry of its topic if there is one.

    A topic that is named by an unknown id has no name, and an entry of its own.
    """
    by_name = {topic.name: topic for topic in response.topics}
    for topic in unknown:
        answered = by_name.setdefault(topic.name, topic) if topic.name else topic
        if answered is topic:
            response.topics.append(topic)
        else:
            answered.partitions += topic.partitions
    return response


@serves(
    OffsetFetchRequest,
    Need(Operation.DESCRIBE, Resource.GROUP, "groups.group_id"),
    Need(Operation.DESCRIBE, Resource.GROUP, "group_id", versions=range(MANY_GROUPS_FROM)),
    Need(Operation.DESCRIBE, Resource.TOPIC, "topics.name"),
    parts=Parts(
        (
            (("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
            (("topics", "partition_indexes"), ("topics", "partitions")),
        )
    ),
)
def offset_fetch(
    request: Request[OffsetFetchRequest],
    cluster: ClusterImage,
    groups: GroupShards,
    old_offsets: RegistryOffsets,
    rights: Rights,
) -> Reply:
    """Return the committed offsets of one group or several, for the topics that the client may describe."""
    if request.version == 0:
        return old_offsets.fetch(request)
    body = request.body
    seen = rights.answers(request.peer, Operation.DESCRIBE, Resource.TOPIC)
    if request.version < MANY_GROUPS_FROM:
        return _fetch_one(cluster, groups, request, seen)
    wanted = [_with_names(cluster, group) for group in body.groups] if request.version >= TOPIC_IDS_FROM else body.groups
    wanted = [group if group.topics is None else _visible(group, group.topics, seen) for group in wanted]

    def combine(messages: list[FetchedGroup]) -> OffsetFetchResponse:
        for asked, answered in zip(body.groups, messages, strict=True):
            answered.topics = [topic for topic in answered.topics if seen[topic.name]]
            if not answered.error_code:
                hidden = (topic for topic in asked.topics or () if topic.name and not seen[topic.name])
                answered.topics += [_error_topic(topic, TOPIC_AUTHORIZATION_FAILED) for topic in hidden]
        if request.version >= TOPIC_IDS_FROM:
            for asked, answered in zip(body.groups, messages, strict=True):
                _identify(cluster, asked, answered)
        return OffsetFetchResponse(groups=messages)

    return groups.request_several(((group.group_id, _coordinator_request(request, group)) for group in wanted), request, combine)


def _visible(group: FetchGroup, topics: list[FetchTopic], seen: Mapping[str, bool]) -> FetchGroup:
    """Return the group with only the topics that the client may describe."""
    visible = [topic for topic in topics if seen[topic.name]]
    return group if len(visible) == len(topics) else replace(group, topics=visible)


def _coordinator_request(request: Request[OffsetFetchRequest], group: FetchGroup) -> FetchGroup | StableFetch:
    """Return the request for the coordinator: a `StableFetch` if the client requires stable offsets (KIP-447)."""
    return StableFetch(group) if request.body.require_stable else group


def _with_names(cluster: ClusterImage, group: FetchGroup) -> FetchGroup:
    """Return the group with topic names for its topic ids. Topics with unknown ids are skipped."""
    if group.topics is None:
        return group
    named = []
    for topic in group.topics:
        topic.name = cluster.name_of(topic.topic_id) or ""
        if topic.name:
            named.append(topic)
    return replace(group, topics=named)


def _identify(cluster: ClusterImage, asked: FetchGroup, answered: FetchedGroup) -> None:
    """Add topic ids to the answered topics, and errors for unknown requested ids. Omit deleted topics in a fetch of all topics."""
    if asked.topics is not None:
        if not answered.error_code:
            answered.topics += [_error_topic(topic, UNKNOWN_TOPIC_ID) for topic in asked.topics if not topic.name]
        return
    present = []
    for topic in answered.topics:
        image = cluster.topics.get(topic.name)
        if image is not None:
            topic.topic_id = image.topic_id
            present.append(topic)
    answered.topics = present


def _error_topic(topic: FetchTopic, error_code: int) -> FetchedTopic:
    partitions = [
        FetchedPartition(partition_index=index, committed_offset=-1, metadata="", error_code=error_code)
        for index in topic.partition_indexes
    ]
    return FetchedTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _fetch_one(
    cluster: ClusterImage,
    groups: GroupShards,
    request: Request[OffsetFetchRequest],
    seen: Mapping[str, bool],
) -> Reply:
    """Fetch the offsets of the group in a request before version 8, which has one group only."""
    body = request.body
    wanted_topics = None
    if body.topics is not None:
        wanted_topics = [FetchTopic(name=topic.name, partition_indexes=topic.partition_indexes) for topic in body.topics]
    wanted = FetchGroup(group_id=body.group_id, topics=wanted_topics)

    def finish(answered: FetchedGroup) -> OffsetFetchResponse:
        if answered.error_code and request.version < TOP_LEVEL_ERROR_FROM:
            return OffsetFetchResponse(topics=[_old_failed(topic, answered.error_code) for topic in wanted_topics or []])
        visible = [topic for topic in answered.topics if seen[topic.name]]  # a request for all topics includes hidden ones
        response = OffsetFetchResponse(error_code=answered.error_code, topics=[_old(topic) for topic in visible])
        if request.release.offsets_of_unknown_topics:
            _deny_unknown(cluster, response)
        return response

    return groups.request(body.group_id, _coordinator_request(request, wanted), request, finish)


def _deny_unknown(cluster: ClusterImage, response: OffsetFetchResponse) -> None:
    """Replace the offsets of partitions that do not exist by errors, as release 0.8.2 does."""
    for topic in response.topics:
        image = cluster.topics.get(topic.name)
        for part in topic.partitions:
            if image is None or part.partition_index >= len(image.partitions):
                part.error_code, part.committed_offset, part.metadata = UNKNOWN_TOPIC_OR_PARTITION, -1, ""


def _old(topic: FetchedTopic) -> OldTopic:
    partitions = [
        OldPartition(
            partition_index=part.partition_index,
            committed_offset=part.committed_offset,
            committed_leader_epoch=part.committed_leader_epoch,
            metadata=part.metadata,
            error_code=part.error_code,
        )
        for part in topic.partitions
    ]
    return OldTopic(name=topic.name, partitions=partitions)


def _old_failed(topic: FetchTopic, error_code: int) -> OldTopic:
    partitions = [
        OldPartition(partition_index=index, committed_offset=-1, metadata="", error_code=error_code)
        for index in topic.partition_indexes
    ]
    return OldTopic(name=topic.name, partitions=partitions)


@serves(
    OffsetDeleteRequest,
    Need(Operation.DELETE, Resource.GROUP, "group_id"),
    Need(Operation.READ, Resource.TOPIC, "topics.name"),
    parts=BY_PARTITION,
)
def offset_delete(request: Request[OffsetDeleteRequest], cluster: ClusterImage, groups: GroupShards) -> Reply:
    """Delete offsets of partitions that exist and whose topics no member subscribes to."""
    body = request.body
    known: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = []
    unknown: list[DeletedTopic] = []
    for topic in body.topics:
        image = cluster.topics.get(topic.name)
        count = 0 if image is None else len(image.partitions)
        present = [each for each in topic.partitions if 0 <= each.partition_index < count]
        absent = [each.partition_index for each in topic.partitions if not 0 <= each.partition_index < count]
        errors = [DeletedPartition(partition_index=index, error_code=UNKNOWN_TOPIC_OR_PARTITION) for index in absent]
        if errors:
            unknown.append(DeletedTopic(name=topic.name, partitions=errors))
        if present:
            known.append(replace(topic, partitions=present))

    def finish(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code:
            request.denied = None  # only the group's error is returned
        else:
            _with_unknown(response, unknown)
        return response

    return groups.request(body.group_id, replace(body, topics=known), request, finish)
