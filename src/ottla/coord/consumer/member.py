"""One member of a consumer group, as an immutable value (KIP-848).

The checks of offset commits and fetches of members return error codes (KIP-848, KIP-1251).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Final, NamedTuple

from ottla.coord.consumer.states import MemberState
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

Epochs = Mapping[Uuid, Mapping[int, int]]
"""The epoch at which each partition was assigned, by topic id and partition. Older commits are refused (KIP-1251)."""

MEMBER_BYTES: Final = 4_000
"""The memory in bytes of a member without texts and protocols, if it is alone in its group: values, tables and deadlines."""
PROTOCOL_BYTES: Final = 100
"""The memory in bytes of a classic member's protocol without its metadata."""

JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH = 0, -1, -2
"""The special values of a member's epoch. `STATIC_LEAVING_EPOCH` is stored for a static member that is temporarily absent."""


class Classic(NamedTuple):
    """The values that a consumer group's member of the classic protocol has sent.

    `protocols` are (name, metadata) by preference.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member. It reads `assigned` and must revoke `revoking`. Other members cannot get these partitions until then.

    `pattern` is a regular expression for topics, or empty. `classic` is None if the member uses the consumer protocol.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: Classic | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Epochs = field(default_factory=dict)
    revoking: Epochs = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """Return the member's memory in bytes, without its assignment, and without topic names, which members share."""
        texts = self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host, self.pattern, self.assignor
        weight = MEMBER_BYTES + sum(map(getsizeof, texts))
        if self.classic is not None:
            weight += sum(PROTOCOL_BYTES + getsizeof(name) + len(metadata) for name, metadata in self.classic.protocols)
        return weight

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def given_at(self, topic_id: Uuid, partition: int) -> int | None:
        """Return the epoch at which the member got a partition; None if it does not have the partition."""
        for held in (self.assigned, self.revoking):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


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
