"""The reports of a member in its heartbeats: the offsets of its tasks, and the tasks that it has, which confirm a reply."""

from __future__ import annotations

from typing import Final

from ottla.coord.member_checks import memory_error
from ottla.coord.streams.checks import WARMUPS_FROM, offset_table
from ottla.coord.streams.draft import StreamsDraft
from ottla.coord.streams.events import TaskOffsetsReported, TasksConfirmed, TasksSent, WarmupsSupported
from ottla.coord.streams.group import OFFSET_BYTES
from ottla.coord.streams.member import StreamsMember
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest

UNCONFIRMED_MS: Final = 10_000
"""The time in ms within which a member reports the tasks that a reply sent it. After it, one more reply sends them."""


def note_offsets(draft: StreamsDraft, body: StreamsGroupHeartbeatRequest, member: StreamsMember) -> bool:
    """Note reported offsets, if they fit in memory. Return whether a warm-up task of the member has caught up.

    A missing list means that its offsets have not changed.
    """
    if body.task_offsets is None and body.task_end_offsets is None:
        return False
    group, member_id = draft.group, member.member_id
    offsets, end_offsets = group.offsets.get(member_id, {}), group.end_offsets.get(member_id, {})
    reported = offsets if body.task_offsets is None else offset_table(body.task_offsets)
    ends = end_offsets if body.task_end_offsets is None else offset_table(body.task_end_offsets)
    growth = OFFSET_BYTES * (len(reported) + len(ends) - len(offsets) - len(end_offsets))
    if memory_error(draft, growth) is not None:
        return False
    draft.reported[member_id] = TaskOffsetsReported(draft.group_id, member_id, reported, ends)
    most_lag = draft.setting_of_group("acceptable.recovery.lag")
    tasks = ((name, partition) for name, partitions in member.assigned.warmup.items() for partition in partitions)
    return any(task in reported and task in ends and ends[task] - reported[task] <= most_lag for task in tasks)


def store_reports(draft: StreamsDraft, member: StreamsMember) -> None:
    """Store the reported offsets, and that the member can run warm-up tasks."""
    for reported in draft.reported.values():
        draft.store(reported)
    if draft.version >= WARMUPS_FROM and member.member_id not in draft.group.warmable:
        draft.store(WarmupsSupported(draft.group_id, member.member_id))


def must_include_tasks(
    draft: StreamsDraft, body: StreamsGroupHeartbeatRequest, reconciled: StreamsMember, *, is_changed: bool
) -> bool:
    """Return whether the reply has the member's tasks: after a change, and again if the member perhaps missed a reply.

    After a failure, a member sends all fields, with the tasks that it has. If these are not its tasks, it missed a reply. A member
    that does not report its tasks for `UNCONFIRMED_MS` missed one, too: an earlier, delayed request can have received it.
    """
    group, member_id, owned = draft.group, reconciled.member_id, draft.owned
    has_all = owned is not None and owned == reconciled.assigned.without_epochs()
    if is_changed or (body.rebalance_timeout_ms != -1 and owned is not None and not has_all):
        draft.store(TasksSent(group.group_id, member_id, draft.now.mono_ms))
        return True
    sent_ms = group.unconfirmed.get(member_id)
    if sent_ms is None:
        return False
    is_late = draft.now.mono_ms - sent_ms >= UNCONFIRMED_MS
    if has_all or is_late:
        draft.store(TasksConfirmed(group.group_id, member_id))
    return is_late and not has_all
