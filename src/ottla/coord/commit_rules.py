"""A commit of offsets as groups check it, in a producer's transaction or outside one, and the rules for members with epochs.

Consumer and streams groups share these rules (KIP-848, KIP-1071, KIP-1251). They store nothing, and depend on no kind of group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeVar

from ottla.coord.offsets import FetchGroup, is_longer
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.errors import ILLEGAL_GENERATION, NONE, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION
from ottla.wire.schema import Uuid

NO_GENERATION = -1
MEMBER_EPOCH_FROM = 9
"""The first version of OffsetCommit whose response can contain STALE_MEMBER_EPOCH, for members with epochs."""


class CommitPartition(NamedTuple):
    """A partition of a commit."""

    topic: str
    topic_id: Uuid
    partition: int


class Commit(NamedTuple):
    """A commit of offsets. `epoch` is the member's generation or epoch, and negative if the client is no member.

    `places` are the partitions whose offsets can be stored. Others have too much metadata, and are refused in any case.
    """

    member_id: str
    group_instance_id: str | None
    epoch: int
    version: int
    is_transactional: bool
    places: Iterable[CommitPartition]

    @property
    def is_anonymous(self) -> bool:
        """Return whether the commit names no member. Producers name none before KIP-447."""
        return not self.member_id and self.group_instance_id is None


def commit_of(body: OffsetCommitRequest | TxnOffsetCommitRequest, version: int, metadata_max_bytes: int) -> Commit:
    """Return the commit of a request."""
    return Commit(
        body.member_id,
        body.group_instance_id,
        body.generation_id_or_member_epoch,
        version,
        isinstance(body, TxnOffsetCommitRequest),
        _places(body, metadata_max_bytes),
    )


def _places(body: OffsetCommitRequest | TxnOffsetCommitRequest, metadata_max_bytes: int) -> Iterator[CommitPartition]:
    for topic in body.topics:
        for wanted in topic.partitions:
            if not is_longer(wanted.committed_metadata or "", metadata_max_bytes):
                yield CommitPartition(topic.name, bytes(topic.topic_id), wanted.partition_index)


class EpochMember(Protocol):
    """A member with an epoch, which a classic member sends as its generation."""

    @property
    def epoch(self) -> int: ...

    @property
    def is_classic(self) -> bool: ...


Member = TypeVar("Member", bound=EpochMember)


def member_commit_error(
    commit: Commit, members: Mapping[str, Member], given_at: Callable[[Member, CommitPartition], int | None]
) -> int:
    """Return the error of a commit. A client that is no member can commit while the group has no members.

    A member can commit with an older epoch if it had all partitions then. `given_at` returns the epoch at which a member got a
    partition, or None if it does not have the partition.
    """
    if commit.epoch < 0 and not members:
        return NONE
    if commit.is_transactional and commit.is_anonymous and commit.epoch == NO_GENERATION:
        return NONE
    member = members.get(commit.member_id)
    if member is None:
        return UNKNOWN_MEMBER_ID
    if not (commit.is_transactional or member.is_classic) and commit.version < MEMBER_EPOCH_FROM:
        return UNSUPPORTED_VERSION
    if commit.epoch == member.epoch:
        return NONE
    since = (given_at(member, place) for place in commit.places)
    if commit.epoch < member.epoch and all(epoch is not None and epoch <= commit.epoch for epoch in since):
        return NONE
    return ILLEGAL_GENERATION if commit.is_transactional else _stale_error(member)


def member_fetch_error(wanted: FetchGroup, members: Mapping[str, EpochMember]) -> int:
    """Return the error of a fetch. A fetch without member id and epoch is allowed. A member must send its present epoch."""
    if wanted.member_id is None and wanted.member_epoch < 0:
        return NONE
    member = members.get(wanted.member_id or "")
    if member is None:
        return UNKNOWN_MEMBER_ID
    return NONE if wanted.member_epoch == member.epoch else _stale_error(member)


def _stale_error(member: EpochMember) -> int:
    return ILLEGAL_GENERATION if member.is_classic else STALE_MEMBER_EPOCH
