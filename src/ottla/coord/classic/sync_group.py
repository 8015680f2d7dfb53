"""SyncGroup, which distributes the leader's assignments to the members, and Heartbeat."""

from __future__ import annotations

from typing import Never

from ottla.coord.classic.draft import ClassicDraft
from ottla.coord.classic.events import SyncGroupAwaited, SyncGroupSeen
from ottla.coord.classic.group import ClassicGroup
from ottla.coord.classic.states import HEARTBEAT, SYNC_GROUP, State, SyncGroupAnswer
from ottla.coord.outcome import SessionKey
from ottla.coord.runtime.machine import Input, Outcome, Reply, Timer
from ottla.ports import Now
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.errors import (
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)

PROTOCOL_NAMED_FROM = 5


def sync_group(draft: ClassicDraft, ask: Input[SyncGroupRequest]) -> None:
    """Decide a SyncGroup. The leader's request has the assignments. Other members wait for them, or get them at once."""
    body = ask.body
    error_code = _error(draft.group, body, ask.version)
    if error_code:
        draft.answer(SyncGroupResponse(error_code=error_code))
        return
    what = SYNC_GROUP[draft.group.state]
    if what is SyncGroupAnswer.REBALANCE:
        draft.answer(SyncGroupResponse(error_code=REBALANCE_IN_PROGRESS))
    elif what is SyncGroupAnswer.ANSWER:
        _answer(draft, body.member_id)
    else:
        _wait(draft, ask)


def request_error(body: SyncGroupRequest, version: int) -> int:
    """Return the error code of an invalid request, whatever the state of its group; else NONE."""
    if not body.group_id:
        return INVALID_GROUP_ID
    if version >= PROTOCOL_NAMED_FROM and (body.protocol_type is None or body.protocol_name is None):
        return INCONSISTENT_GROUP_PROTOCOL
    return NONE


def _error(group: ClassicGroup, body: SyncGroupRequest, version: int) -> int:
    error_code = request_error(body, version)
    if error_code:
        return error_code
    if group.state is State.EMPTY:
        return UNKNOWN_MEMBER_ID
    error_code = group.generation_error(body.member_id, body.group_instance_id, body.generation_id)
    if error_code == NONE and (_differs(body.protocol_type, group.protocol_type) or _differs(body.protocol_name, group.protocol)):
        return INCONSISTENT_GROUP_PROTOCOL
    return error_code


def _differs(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known


def _assignment(draft: ClassicDraft, member_id: str) -> SyncGroupResponse:
    group = draft.group
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=group.members[member_id].assignment,
    )


def _answer(draft: ClassicDraft, member_id: str) -> None:
    if member_id in draft.group.unsynced:
        draft.happen(SyncGroupSeen(draft.group.group_id, member_id))
    draft.answer(_assignment(draft, member_id))
    draft.expect(member_id)


def _wait(draft: ClassicDraft, ask: Input[SyncGroupRequest]) -> None:
    group_id, member_id = ask.body.group_id, ask.body.member_id
    superseded = draft.group.syncing.get(member_id)
    draft.answer_to(superseded, SyncGroupResponse(error_code=REBALANCE_IN_PROGRESS))
    draft.happen(SyncGroupAwaited(group_id, member_id, ask.token))
    if draft.group.leader == member_id:
        _share_out(draft, ask.body)


def _share_out(draft: ClassicDraft, body: SyncGroupRequest) -> None:
    """Store the assignments in the leader's request, and answer all waiting members.

    Members without one get an empty assignment.
    """
    waiting = dict(draft.group.syncing)
    assignments = {assigned.member_id: bytes(assigned.assignment) for assigned in body.assignments}
    draft.happen(draft.group.at_rest(assignments, draft.now.wall_ms))
    for member_id, token in waiting.items():
        draft.answer_to(token, _assignment(draft, member_id))
        draft.expect(member_id)


def heartbeat(group: ClassicGroup | None, ask: Input[HeartbeatRequest], now: Now) -> Outcome[Never]:
    """Decide a Heartbeat, which does not change the group. It needs no draft, because heartbeats are the most frequent requests."""
    body = ask.body
    error_code = _heartbeat_error(group, body)
    if group is None or error_code:
        return Outcome(replies=(Reply(ask.token, HeartbeatResponse(error_code=error_code)),))
    reply = Reply(ask.token, HeartbeatResponse(error_code=HEARTBEAT[group.state]))
    deadline_ms = now.mono_ms + group.members[body.member_id].session_timeout_ms
    return Outcome(replies=(reply,), timers=(Timer(SessionKey(body.group_id, body.member_id), deadline_ms),))


def _heartbeat_error(group: ClassicGroup | None, body: HeartbeatRequest) -> int:
    if not body.group_id:
        return INVALID_GROUP_ID
    if group is None:
        return UNKNOWN_MEMBER_ID
    return group.generation_error(body.member_id, body.group_instance_id, body.generation_id)
