"""The removal of members from a consumer group: by request, after a timeout, or temporarily (KIP-848, KIP-345)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ottla.coord.consumer.draft import ConsumerDraft, current_record
from ottla.coord.consumer.group import ConsumerGroup
from ottla.coord.consumer.heartbeat import Ask, remove_member
from ottla.coord.consumer.member import ConsumerMember, Epochs
from ottla.coord.consumer.migrate import can_downgrade, downgrade
from ottla.coord.consumer.records import PatternForgotten
from ottla.coord.consumer.states import MemberState
from ottla.coord.consumer.subscription import bump_epoch
from ottla.coord.member_checks import STATIC_LEAVING_EPOCH, Refusal, static_error, unknown_member
from ottla.coord.outcome import MemberSyncGroupKey, RebalanceKey, RejoinKey, SessionKey
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

log = logging.getLogger("ottla.coord")

K = TypeVar("K")


def leave(draft: ConsumerDraft, ask: Ask) -> Refusal | None:
    """Decide a heartbeat by which a member leaves: for good (epoch -1), or as a static member that will join again (-2)."""
    body = ask.body
    group = draft.group
    refused = _leaving_error(group, body.member_id, body.instance_id)
    if refused is not None:
        return refused
    member = group.members[body.member_id]
    draft.answer(ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=body.member_epoch))
    if body.member_epoch == STATIC_LEAVING_EPOCH:
        # The member has revoked all its partitions, so the deadline of its revocation no longer applies.
        state = MemberState.STABLE if member.state is MemberState.UNREVOKED_PARTITIONS else member.state
        held = _as_of_epoch_0(member.assigned)
        away = replace(member, epoch=STATIC_LEAVING_EPOCH, state=state, assigned=held, revoking={})
        draft.store(current_record(group.group_id, away))
    else:
        fence(draft, [member], "left")
    return None


def _leaving_error(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Refusal | None:
    if instance_id is not None:
        return static_error(group.static, member_id, instance_id)
    return None if member_id in group.members else unknown_member(group.group_id, member_id)


def _as_of_epoch_0(held: Epochs) -> Epochs:
    """Return the partitions with 0 as the epoch of their assignment, so that the static member can commit with every epoch."""
    nothing: Mapping[int, int]
    since = {}
    for topic_id, partitions in held.items():
        nothing = dict.fromkeys(partitions, 0)
        since[topic_id] = nothing
    return since


def timed_out(draft: ConsumerDraft, key: SessionKey | RebalanceKey | RejoinKey | MemberSyncGroupKey) -> None:
    """Remove a member whose deadline has passed. Ignore a revocation deadline if the member has nothing left to revoke."""
    member = draft.group.members.get(key.member_id)
    if member is None:
        return
    if isinstance(key, RebalanceKey) and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return
    fence(draft, [member], _REASONS[type(key)])


_REASONS = {
    SessionKey: "sent no heartbeat in time",
    RebalanceKey: "did not revoke its partitions in time",
    RejoinKey: "did not rejoin in time",
    MemberSyncGroupKey: "did not send SyncGroup in time",
}


def fence(draft: ConsumerDraft, members: Sequence[ConsumerMember], reason: str) -> None:
    """Remove members, and raise the group's epoch. If only classic members are left, convert the group into a classic group."""
    if not members:
        return
    group = draft.group
    names = ", ".join(member.member_id for member in members)
    log.info("group %s: %s %s", group.group_id, names, reason, extra={"cause": "group leave", "most": 3})
    if can_downgrade(draft, members):
        downgrade(draft, members, reason)
        return
    for member in members:
        remove_member(draft, member)
    for pattern, count in _counts(member.pattern for member in members if member.pattern).items():
        if group.patterns.get(pattern) == count:
            draft.store(PatternForgotten(group.group_id, pattern))
    bump_epoch(draft, draft.context.topics.hash_of(*_subscribed_without(group, members)))


def _counts(names: Iterable[K]) -> dict[K, int]:
    counts: dict[K, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


def _subscribed_without(group: ConsumerGroup, members: Sequence[ConsumerMember]) -> Iterator[frozenset[str]]:
    """Yield the topics to which members other than `members` subscribe."""
    gone = _counts(member.topics for member in members)
    yield from (names for names, count in group.subscriptions.items() if count > gone.get(names, 0))
    gone_with = _counts(member.pattern for member in members if member.pattern)
    for pattern, resolved in group.resolved.items():
        if pattern not in gone_with or group.patterns.get(pattern) != gone_with[pattern]:
            yield resolved.topics
