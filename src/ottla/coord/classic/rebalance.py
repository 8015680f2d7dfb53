"""The rebalance of a classic group: its start, its completion, and the removal of members.

All functions change a draft; none reads a request.
"""

from __future__ import annotations

import logging

from ottla.coord.classic.draft import ClassicDraft
from ottla.coord.classic.events import (
    InitialDelay,
    InitialDelaySet,
    JoinCompleted,
    LeaderElected,
    MemberRemoved,
    RebalanceBegun,
)
from ottla.coord.classic.states import REBALANCES_FROM, State
from ottla.coord.outcome import JoinKey, SyncGroupKey
from ottla.coord.records import GroupStored
from ottla.wire.api.join_group import JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupResponse
from ottla.wire.errors import REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID

log = logging.getLogger("ottla.coord")

LEAST_AGAIN_MS = 1000
"""The shortest extension, in ms, of a join phase in which no member joined. Members can request timeouts of 0 or less."""


def begin_or_complete(draft: ClassicDraft, reason: str) -> None:
    """Start a rebalance because members changed. If the join phase has begun already, end it once all members have joined."""
    if draft.group.state in REBALANCES_FROM:
        begin(draft, reason)
    else:
        complete_if_all_joined(draft)


def begin(draft: ClassicDraft, reason: str) -> None:
    """Start a rebalance, in which every member must join again. A group that was empty first waits for more members."""
    group = draft.group
    cause = {"cause": "group rebalance", "most": 3}
    log.info("group %s: rebalance after generation %d: %s", group.group_id, group.generation, reason, extra=cause)
    for member_id, token in group.syncing.items():
        draft.answer_to(token, SyncGroupResponse(error_code=REBALANCE_IN_PROGRESS))
        draft.expect(member_id)
    draft.cancel(SyncGroupKey(group.group_id))
    was_empty = group.state is State.EMPTY
    draft.happen(RebalanceBegun(group.group_id, draft.now.wall_ms))
    if was_empty:
        delay_ms = draft.settings.group_initial_rebalance_delay_ms
        _delay(draft, InitialDelay(delay_ms, max(draft.group.rebalance_timeout_ms - delay_ms, 0)))
    elif draft.group.all_joined:
        complete(draft)
    else:
        draft.after(JoinKey(group.group_id), draft.group.rebalance_timeout_ms)


def complete_if_all_joined(draft: ClassicDraft) -> None:
    group = draft.group
    if group.state is State.PREPARING_REBALANCE and not group.is_initial_rebalance and group.all_joined:
        complete(draft)


def join_timed_out(draft: ClassicDraft) -> None:
    """End the join phase at its timeout. If it is an initial delay and more members came, extend the delay instead."""
    group = draft.group
    if group.state is not State.PREPARING_REBALANCE:
        return
    delay = group.delay
    if delay is not None and group.more_came and delay.remaining_ms > 0:
        next_ms = min(draft.settings.group_initial_rebalance_delay_ms, delay.remaining_ms)
        _delay(draft, InitialDelay(next_ms, max(delay.remaining_ms - delay.delay_ms, 0)))
    else:
        complete(draft)


def _delay(draft: ClassicDraft, delay: InitialDelay) -> None:
    draft.happen(InitialDelaySet(draft.group.group_id, delay))
    draft.after(JoinKey(draft.group.group_id), delay.delay_ms)


def complete(draft: ClassicDraft) -> None:
    """End the join phase. Remove dynamic members that have not joined; static members stay until their session ends (KIP-345)."""
    group_id = draft.group.group_id
    draft.cancel(JoinKey(group_id))
    absent = [m for m in draft.group.members.values() if m.member_id not in draft.group.joining and m.group_instance_id is None]
    for member in absent:
        remove(draft, member.member_id)
    if not draft.group.members:
        _store_empty(draft)
    elif _elect_leader(draft):
        _begin_generation(draft)
    else:
        draft.after(JoinKey(group_id), max(draft.group.rebalance_timeout_ms, LEAST_AGAIN_MS))


def _store_empty(draft: ClassicDraft) -> None:
    group = draft.group
    cause = {"cause": "group empty", "most": 3}
    log.info("group %s: empty after generation %d", group.group_id, group.generation, extra=cause)
    stored = GroupStored(group.group_id, group.protocol_type or "", group.generation + 1, None, None, draft.now.wall_ms, ())
    draft.happen(stored)


def _elect_leader(draft: ClassicDraft) -> bool:
    """Keep the leader if it has joined, else elect the first member that has joined. Return False if no member has joined."""
    group = draft.group
    if group.leader not in group.joining:
        joined = next((member_id for member_id in group.members if member_id in group.joining), None)
        if joined is None:
            return False
        draft.happen(LeaderElected(group.group_id, joined))
    return True


def _begin_generation(draft: ClassicDraft) -> None:
    waiting = dict(draft.group.joining)
    draft.happen(JoinCompleted(draft.group.group_id, draft.group.choose_protocol(), draft.now.wall_ms))
    group = draft.group
    cause = {"cause": "group generation", "most": 3}
    log.info("group %s: generation %d with %d members", group.group_id, group.generation, len(group.members), extra=cause)
    for member_id in group.members:
        draft.answer_to(waiting.get(member_id), joined_reply(draft, member_id))
        draft.expect(member_id)
    draft.after(SyncGroupKey(group.group_id), group.rebalance_timeout_ms)


def joined_reply(draft: ClassicDraft, member_id: str) -> JoinGroupResponse:
    """Return a member's JoinGroup response for the current generation. Only the leader's response lists all members."""
    group = draft.group
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member_id,
        members=all_members(draft) if group.leader == member_id else [],
    )


def join_error(error_code: int, member_id: str = "") -> JoinGroupResponse:
    """Return a JoinGroup response with an error, without a generation."""
    return JoinGroupResponse(error_code=error_code, member_id=member_id, protocol_name=None)


def all_members(draft: ClassicDraft) -> list[JoinGroupResponse.JoinGroupResponseMember]:
    group = draft.group
    return [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members.values()
    ]


def sync_timed_out(draft: ClassicDraft) -> None:
    """Remove the members that did not send SyncGroup in time, and start a rebalance."""
    group = draft.group
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.unsynced:
        return
    absent = list(group.unsynced)
    for member_id in absent:
        remove(draft, member_id)
    begin(draft, f"{len(absent)} members did not send SyncGroup in time")


def session_timed_out(draft: ClassicDraft, member_id: str) -> None:
    """Remove a member whose session has expired, unless it waits for a reply."""
    group = draft.group
    if member_id in group.invited:
        draft.happen(MemberRemoved(group.group_id, member_id))
    elif member_id not in group.members or _awaits_reply(draft, member_id):
        return
    else:
        remove(draft, member_id)
        if draft.group.state in REBALANCES_FROM:
            begin(draft, f"member {member_id} sent no heartbeat in time")
            return
    if draft.group.state is State.PREPARING_REBALANCE and draft.group.all_joined:
        complete(draft)


def _awaits_reply(draft: ClassicDraft, member_id: str) -> bool:
    """Return whether a present member waits for a reply, so that its session cannot expire. Return False for a new member.

    Only the session timeout shows that a new member is gone.
    """
    group = draft.group
    return member_id not in group.new and (member_id in group.joining or member_id in group.syncing)


def remove(draft: ClassicDraft, member_id: str) -> None:
    """Remove a member, and refuse its waiting requests."""
    group = draft.group
    draft.answer_to(group.joining.get(member_id), join_error(UNKNOWN_MEMBER_ID))
    draft.answer_to(group.syncing.get(member_id), SyncGroupResponse(error_code=UNKNOWN_MEMBER_ID))
    draft.happen(MemberRemoved(group.group_id, member_id))
    draft.forget(member_id)


def recall(draft: ClassicDraft) -> None:
    """Restart all session timeouts of a group after its stored records were loaded.

    Start a rebalance if the group exceeds the maximum size, or has no leader because it became a classic group just before the
    coordinator's restart.
    """
    group = draft.group
    for member_id in group.members:
        draft.expect(member_id)
    if len(group.members) > draft.settings.group_max_size:
        begin(draft, f"{len(group.members)} members exceed group.max.size ({draft.settings.group_max_size})")
    elif group.leader is None:
        begin(draft, "the group became a classic one before the restart")
