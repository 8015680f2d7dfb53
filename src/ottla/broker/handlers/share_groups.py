"""ShareGroupHeartbeat and ShareGroupDescribe of share groups (KIP-932).

Each request goes to the coordinator of its group; the rules of groups are in `coord.share`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.broker.coordination.groups import GroupShards
from ottla.broker.handlers.described_groups import DescribedKind, describe_by_kind
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.topics.features import Features
from ottla.cluster.features import OFF, SHARE_VERSION
from ottla.coord.consumer.names import AT_ONCE, TopicNames
from ottla.coord.offsets import is_longer
from ottla.ports import Steps
from ottla.wire.api.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.wire.errors import INVALID_REQUEST, TOPIC_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION
from ottla.wire.schema import Message

FIRST_VERSION: Final = 1
"""The first version that a release has served. Version 0 was a draft."""

MOST_TOPICS = 50_000
MOST_NAMED_BYTES = 16 << 20
"""Upper limits of topics and bytes in a ShareGroupHeartbeat, which has the subscription."""

LONGEST_MEMBER_ID: Final = 36
"""The most characters of a member id, which clients choose: a UUID as text."""

DescribedShareGroup = ShareGroupDescribeResponse.DescribedGroup


def are_served(features: Features) -> bool:
    """Return whether the cluster serves share groups, by the feature share.version."""
    return features.level(SHARE_VERSION) != OFF


def is_member_id(member_id: str | None) -> bool:
    """Return whether a share group's member may have this id."""
    return bool(member_id) and not is_longer(member_id or "", LONGEST_MEMBER_ID)


@serves(
    ShareGroupHeartbeatRequest,
    Need(Operation.READ, Resource.GROUP, "group_id"),
    oldest=FIRST_VERSION,
    most=MOST_TOPICS,
    most_bytes=MOST_NAMED_BYTES,
)
def share_group_heartbeat(
    request: Request[ShareGroupHeartbeatRequest], groups: GroupShards, features: Features, rights: Rights
) -> Reply:
    """Serve a heartbeat if the feature level allows share groups.

    Thousands of names are sorted, and their topics hashed, before the coordinator gets the request.
    """
    body = request.body
    if not are_served(features):
        return ShareGroupHeartbeatResponse(error_code=UNSUPPORTED_VERSION)
    if not is_member_id(body.member_id):
        sentence = "Invalid member id in the request: send a UUID as text."
        return ShareGroupHeartbeatResponse(error_code=INVALID_REQUEST, error_message=sentence)
    names = body.subscribed_topic_names or ()
    if _hides_some(request, rights, names):
        return ShareGroupHeartbeatResponse(error_code=TOPIC_AUTHORIZATION_FAILED)
    if len(names) > AT_ONCE:
        return _heartbeat_slowly(request, groups)
    return groups.request(body.group_id, body, request, _same, blocking=True)


def _same(message: Message) -> Message:
    return message


def _hides_some(request: Request[ShareGroupHeartbeatRequest], rights: Rights, names: Iterable[str]) -> bool:
    """Return whether a member names topics that it may not describe, and log that. The caller refuses the whole heartbeat."""
    api = request.api.name
    return not rights.is_open and bool(
        rights.find_denied(request.peer, Operation.DESCRIBE, Resource.TOPIC, names, api, request.now)
    )


def _heartbeat_slowly(request: Request[ShareGroupHeartbeatRequest], groups: GroupShards) -> Steps[Reply]:
    body = request.body
    names = yield from TopicNames.slowly(body.subscribed_topic_names or [])
    machine = groups.machine_of(body.group_id)
    if machine is not None:
        yield from machine.shares.prepare(body.group_id, body.member_id, names)
    body.subscribed_topic_names = names  # type: ignore[assignment]  # the coordinator needs no list, but names without order
    return groups.request(body.group_id, body, request, _same, blocking=True)


@serves(
    ShareGroupDescribeRequest,
    Need(Operation.DESCRIBE, Resource.GROUP, "group_ids"),
    oldest=FIRST_VERSION,
    parts=Parts(((("group_ids",), ("groups",)),), things=20, whole_bytes=64, together=True),
)
def share_group_describe(
    request: Request[ShareGroupDescribeRequest], groups: GroupShards, features: Features, purgatory: Purgatory, rights: Rights
) -> Steps[Reply]:
    """Describe share groups."""
    return (yield from describe_by_kind(request, _SHARE, groups, purgatory, rights, is_served=are_served(features)))


def _topics_of(group: DescribedShareGroup) -> Iterator[str]:
    for member in group.members:
        yield from (each.topic_name for each in member.assignment.topic_partitions)


_SHARE: Final = DescribedKind(
    ShareGroupDescribeRequest, ShareGroupDescribeResponse, ShareGroupDescribeResponse.DescribedGroup, _topics_of
)
