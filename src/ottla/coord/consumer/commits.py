"""The checks of offset commits and fetches of a consumer group (KIP-848, KIP-1251). They return error codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coord.consumer.member import ConsumerMember
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import (
    ILLEGAL_GENERATION,
    NONE,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION,
)
from ottla.wire.schema import Uuid

MEMBER_EPOCH_FROM = 9
"""The first version of OffsetCommit whose response can contain STALE_MEMBER_EPOCH, for members of the consumer protocol."""

Place = tuple[Uuid, int]
Members = Mapping[str, ConsumerMember]


def commit_error(members: Members, body: OffsetCommitRequest, version: int) -> int:
    """Return the error of a commit. A commit without an epoch comes from outside the group, which must be empty then."""
    epoch = body.generation_id_or_member_epoch
    if epoch < 0 and not members:
        return NONE
    member = members.get(body.member_id)
    if member is None:
        return UNKNOWN_MEMBER_ID
    if member.classic is None and version < MEMBER_EPOCH_FROM:
        return UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return NONE
    places = ((bytes(topic.topic_id), wanted.partition_index) for topic in body.topics for wanted in topic.partitions)
    if epoch < member.epoch and _had_all(member, epoch, places):
        return NONE
    return _stale(member)


def _had_all(member: ConsumerMember, epoch: int, places: Iterable[Place]) -> bool:
    """Return whether a member already had all partitions in `places` at `epoch`, an older one than its present epoch."""
    for topic_id, partition in places:
        given_at = member.given_at(topic_id, partition)
        if given_at is None or epoch < given_at:
            return False
    return True


def _stale(member: ConsumerMember) -> int:
    return STALE_MEMBER_EPOCH if member.classic is None else ILLEGAL_GENERATION


def fetch_error(members: Members, wanted: OffsetFetchRequest.OffsetFetchRequestGroup) -> int:
    """Return the error of a fetch. A fetch without member id and epoch is allowed. A member must send its present epoch."""
    if wanted.member_id is None and wanted.member_epoch < 0:
        return NONE
    member = members.get(wanted.member_id or "")
    if member is None:
        return UNKNOWN_MEMBER_ID
    return NONE if wanted.member_epoch == member.epoch else _stale(member)
