"""The removal of members from a streams group: by request, after a timeout, or temporarily; and the end of the initial delay."""

from __future__ import annotations

import logging
from dataclasses import replace

from ottla.coord.member_checks import STATIC_LEAVING_EPOCH, Refusal, static_error, unknown_member
from ottla.coord.outcome import RebalanceKey, SessionKey
from ottla.coord.streams.draft import StreamsDraft, current_record, next_epoch_record
from ottla.coord.streams.events import DelayEnded, ShutdownRequested
from ottla.coord.streams.member import NOTHING_HELD, AssignedTasks, StreamsMember
from ottla.coord.streams.membership import TaskAsk, remove_member
from ottla.coord.streams.response import HeartbeatResult
from ottla.coord.streams.states import StreamsMemberState
from ottla.coord.streams.target import assign
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatResponse

log = logging.getLogger("ottla.coord")


def leave(draft: StreamsDraft, ask: TaskAsk) -> Refusal | None:
    """Decide a heartbeat by which a member leaves: for good (epoch -1), or as a static member that will join again (-2)."""
    body, group = ask.body.request, draft.group
    if body.instance_id is not None:
        refused = static_error(group.static, body.member_id, body.instance_id)
    else:
        refused = None if body.member_id in group.members else unknown_member(group.group_id, body.member_id)
    if refused is not None:
        return refused
    member = group.members[body.member_id]
    response = StreamsGroupHeartbeatResponse(member_id=member.member_id, member_epoch=body.member_epoch, status=[])
    if body.shutdown_application and group.shutdown_member_id is None:
        draft.store(ShutdownRequested(group.group_id, member.member_id))
    draft.answer(HeartbeatResult(response))
    if body.member_epoch == STATIC_LEAVING_EPOCH:
        _leave_temporarily(draft, member)
    else:
        fence(draft, member, "left")
    return None


def _leave_temporarily(draft: StreamsDraft, member: StreamsMember) -> None:
    """Keep the tasks of a static member that will join again. It has revoked all that it had to revoke."""
    state = StreamsMemberState.STABLE if member.state is StreamsMemberState.UNREVOKED_TASKS else member.state
    since = {name: dict.fromkeys(held, 0) for name, held in member.assigned.active.items()}
    held = AssignedTasks(since, member.assigned.standby, member.assigned.warmup)
    away = replace(member, epoch=STATIC_LEAVING_EPOCH, state=state, assigned=held, revoking=NOTHING_HELD)
    draft.cancel(RebalanceKey(draft.group_id, member.member_id))
    draft.store(current_record(draft.group_id, away))


def timed_out(draft: StreamsDraft, key: SessionKey | RebalanceKey) -> None:
    """Remove a member whose deadline has passed. Ignore a revocation deadline if the member has nothing left to revoke."""
    member = draft.group.members.get(key.member_id)
    if member is None:
        return
    if isinstance(key, SessionKey):
        fence(draft, member, "sent no heartbeat in time")
    elif member.state is StreamsMemberState.UNREVOKED_TASKS:
        fence(draft, member, "did not revoke its tasks in time")


def fence(draft: StreamsDraft, member: StreamsMember, reason: str) -> None:
    """Remove a member, and raise the group's epoch."""
    group = draft.group
    log.info("group %s: %s %s", group.group_id, member.member_id, reason, extra={"cause": "group leave", "most": 3})
    remove_member(draft, member)
    draft.store(next_epoch_record(group))


def end_delay(draft: StreamsDraft) -> None:
    """Compute the first assignment of a group, for the members that have joined meanwhile."""
    group = draft.group
    draft.store(DelayEnded(group.group_id))
    if not group.members or group.configured is None or group.epoch <= group.assignment_epoch or group.assigning is not None:
        return
    assign(draft, group.epoch, group.members, group.configured, can_warm_up=False)
