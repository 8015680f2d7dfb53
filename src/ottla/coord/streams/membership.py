"""The member of a heartbeat: found or created, replaced if it is static, updated, reconciled with its target, and removed."""

from __future__ import annotations

from dataclasses import replace

from ottla.coord.member_checks import JOINING_EPOCH, Refusal, release_error, static_error, unknown_member
from ottla.coord.outcome import RebalanceKey
from ottla.coord.runtime.machine import Input
from ottla.coord.streams.checks import epoch_error
from ottla.coord.streams.draft import StreamsDraft, current_record, member_record, next_epoch_record
from ottla.coord.streams.events import TasksRefined
from ottla.coord.streams.member import StreamsMember
from ottla.coord.streams.reconcile import TaskSurroundings, TaskTarget, must_begin_anew, reconcile
from ottla.coord.streams.records import (
    StreamsCurrentForgotten,
    StreamsMemberForgotten,
    StreamsTargetForgotten,
    StreamsTargetStored,
)
from ottla.coord.streams.states import StreamsMemberState
from ottla.coord.streams.topology.request import StreamsHeartbeat
from ottla.coord.streams.values import NO_TASKS
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.wire.errors import FENCED_MEMBER_EPOCH

TaskAsk = Input[StreamsHeartbeat]


def find_member(draft: StreamsDraft, body: StreamsGroupHeartbeatRequest) -> StreamsMember | Refusal:
    """Return the member of the request, present or new, or a refusal."""
    if body.instance_id is not None:
        return _static_member(draft, body, body.instance_id)
    member = draft.group.members.get(body.member_id)
    if member is None:
        is_joining = body.member_epoch == JOINING_EPOCH
        return StreamsMember(body.member_id) if is_joining else unknown_member(draft.group_id, body.member_id)
    return epoch_error(member, body.member_epoch, draft.owned) or member


def _static_member(draft: StreamsDraft, body: StreamsGroupHeartbeatRequest, instance_id: str) -> StreamsMember | Refusal:
    """Return a static member by its instance id. A joining member replaces the member that left with this id."""
    group, member_id = draft.group, body.member_id
    if body.member_epoch != JOINING_EPOCH:
        refused = static_error(group.static, member_id, instance_id)
        return refused or epoch_error(group.members[member_id], body.member_epoch, draft.owned) or group.members[member_id]
    holder = group.static_member(instance_id)
    if holder is None:
        return group.members.get(member_id) or StreamsMember(member_id)
    refused = release_error(holder, member_id) if holder.member_id != member_id else None
    return refused or _replace_member(draft, holder, member_id)


def _replace_member(draft: StreamsDraft, holder: StreamsMember, member_id: str) -> StreamsMember:
    """Replace a static member by one with a new member id, which takes over its target and tasks. Return the new member."""
    newcomer = replace(holder, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    if member_id == holder.member_id:
        return newcomer
    remove_member(draft, holder)
    draft.store(member_record(draft.group_id, newcomer))
    draft.store(StreamsTargetStored(draft.group_id, member_id, draft.group.targets.get(holder.member_id, NO_TASKS)))
    draft.store(current_record(draft.group_id, newcomer))
    refined = dict(draft.group.refined)
    if holder.member_id in refined:
        refined[member_id] = refined.pop(holder.member_id)
        draft.store(TasksRefined(draft.group_id, refined))
    if draft.group.assigning is not None:
        draft.store(next_epoch_record(draft.group))  # the assignment in progress has a target for the former id
    draft.replaced = holder.member_id
    return newcomer


def remove_member(draft: StreamsDraft, member: StreamsMember) -> None:
    """Remove a member, and cancel its deadlines."""
    draft.store(StreamsCurrentForgotten(draft.group_id, member.member_id))
    draft.store(StreamsTargetForgotten(draft.group_id, member.member_id))
    draft.store(StreamsMemberForgotten(draft.group_id, member.member_id))
    draft.forget(member)


def update_member(member: StreamsMember, ask: TaskAsk) -> StreamsMember:
    """Return the member updated with the values in this request. Return the same object if nothing changes."""
    body = ask.body.request
    tags = None if body.client_tags is None else tuple(sorted({tag.key: tag.value for tag in body.client_tags}.items()))
    endpoint = body.user_endpoint
    reported: dict[str, object] = {
        "instance_id": body.instance_id,
        "rack_id": body.rack_id,
        "client_id": ask.client_id,
        "client_host": ask.client_host,
        "rebalance_timeout_ms": None if body.rebalance_timeout_ms == -1 else body.rebalance_timeout_ms,
        "topology_epoch": None if body.topology is None else body.topology.epoch,
        "process_id": body.process_id,
        "user_endpoint": None if endpoint is None else (endpoint.host, endpoint.port),
        "client_tags": tags,
    }
    changes = {name: value for name, value in reported.items() if value is not None and value != getattr(member, name)}
    return replace(member, **changes) if changes else member  # type: ignore[arg-type]  # types as in the fields


def reconcile_member(draft: StreamsDraft, member: StreamsMember, target: TaskTarget) -> StreamsMember | Refusal:
    """Return a member after the largest possible step toward its target assignment. Set a timeout if it must revoke tasks."""
    if member.is_reconciled_to(target.epoch):
        return member
    group, process_id = draft.group, member.process_id

    def is_active_taken(subtopology_id: str, partition: int) -> bool:
        taken = group.active_process(subtopology_id, partition) is not None
        return taken or group.has_copy(process_id, subtopology_id, partition)

    def is_copy_taken(subtopology_id: str, partition: int) -> bool:
        own = group.active_process(subtopology_id, partition) == process_id
        return own or group.has_copy(process_id, subtopology_id, partition)

    around = TaskSurroundings(is_active_taken, is_copy_taken, draft.owned)
    if must_begin_anew(member, around):
        return Refusal(FENCED_MEMBER_EPOCH, "The streams group member is in a unknown state: give up all tasks and rejoin.")
    reconciled = reconcile(member, target, around)
    if reconciled == member:
        return member
    draft.store(current_record(draft.group_id, reconciled))
    key = RebalanceKey(draft.group_id, reconciled.member_id)
    if reconciled.state is StreamsMemberState.UNREVOKED_TASKS:
        draft.after(key, reconciled.rebalance_timeout_ms)
    else:
        draft.cancel(key)
    return reconciled
