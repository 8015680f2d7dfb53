"""StreamsGroupHeartbeat (KIP-1071), by which a member joins, stays alive, and gets its tasks, and by which a topology is set up."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final, NamedTuple

from ottla.coord.consumer.draft import Refusal
from ottla.coord.consumer.member import JOINING_EPOCH
from ottla.coord.outcome import InitialDelayKey, RebalanceKey
from ottla.coord.runtime.machine import Input
from ottla.coord.streams.checks import (
    STATUS_OF_TAGS_FROM,
    WARMUPS_FROM,
    epoch_error,
    offset_table,
    owned_error,
    owned_of,
    release_error,
    room_error,
    static_error,
    unknown_member,
)
from ottla.coord.streams.draft import StreamsDraft, current_record, member_record, next_epoch_record, stored_configs
from ottla.coord.streams.events import (
    DelayBegun,
    EndpointsChanged,
    ShutdownRequested,
    TaskOffsetsReported,
    TasksConfirmed,
    TasksRefined,
    TasksSent,
    TopologyConfigured,
    WarmupsSupported,
)
from ottla.coord.streams.group import NOT_VALIDATED, OFFSET_BYTES, topology_weight
from ottla.coord.streams.member import StreamsMember
from ottla.coord.streams.reconcile import TaskSurroundings, TaskTarget, must_begin_anew, reconcile
from ottla.coord.streams.records import (
    StreamsCurrentForgotten,
    StreamsEpochStored,
    StreamsMemberForgotten,
    StreamsTargetForgotten,
    StreamsTargetStored,
    TopologyStored,
)
from ottla.coord.streams.response import response_to
from ottla.coord.streams.states import StreamsMemberState
from ottla.coord.streams.target import target
from ottla.coord.streams.topology.configuration import InvalidTopology, configure
from ottla.coord.streams.topology.dependencies import is_same, required_topics
from ottla.coord.streams.topology.request import StreamsHeartbeat
from ottla.coord.streams.topology.statuses import missing_tags, shutdown, stale_topology
from ottla.coord.streams.values import NO_TASKS, ConfiguredTopology, TaskSets, Topology
from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.wire.errors import (
    FENCED_MEMBER_EPOCH,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST,
    STREAMS_INVALID_TOPOLOGY,
    UNKNOWN_MEMBER_ID,
)

log = logging.getLogger("ottla.coord")

UNCONFIRMED_MS: Final = 10_000
"""The time in ms within which a member reports the tasks that a reply sent it. After it, one more reply sends them."""

TaskAsk = Input[StreamsHeartbeat]


class TopologyOutlook(NamedTuple):
    """The group's topology as it becomes with a heartbeat: with its tasks, the hash of its topics, and the group's next epoch."""

    topology: Topology
    configured: ConfiguredTopology
    epoch: int


def heartbeat(draft: StreamsDraft, ask: TaskAsk) -> Refusal | None:
    """Decide the heartbeat of a present or joining member. The draft's group can be new."""
    body, checked = ask.body
    if body.member_epoch == JOINING_EPOCH:
        refused = room_error(draft.group, body.instance_id, draft.context.settings.group_streams_max_size)
        if refused is not None:
            return refused
    owned = owned_of(body)
    member = _member(draft, body, owned)
    if isinstance(member, Refusal):
        return member
    updated = update_member(member, ask)
    topology = _topology(draft, None if checked is None else checked.topology)
    if isinstance(topology, Refusal):
        return topology
    refused = _crowd_error(draft, member, updated, topology)
    if refused is not None:
        return refused
    if updated is not member:
        draft.store(member_record(draft.group_id, updated))
    _note_stale_topology(draft, updated)
    is_warm = _note_offsets(draft, body, updated)
    look = _evaluate(draft, topology, owned, changed=updated is not member or is_warm)
    if isinstance(look, Refusal):
        return look
    _store_reports(draft, updated)
    aim = target(draft, look.epoch, updated, look.configured, delayed=_delay(draft))
    settled = lead(draft, updated, aim, owned)
    if isinstance(settled, Refusal):
        return settled
    _finish(draft, body, member, settled, look.configured, owned)
    return None


def _member(draft: StreamsDraft, body: StreamsGroupHeartbeatRequest, owned: TaskSets | None) -> StreamsMember | Refusal:
    """Return the member of the request, present or new, or a refusal."""
    if body.instance_id is not None:
        return _static_member(draft, body, body.instance_id, owned)
    member = draft.group.members.get(body.member_id)
    if member is None:
        is_joining = body.member_epoch == JOINING_EPOCH
        return StreamsMember(body.member_id) if is_joining else unknown_member(draft.group, body.member_id)
    return epoch_error(member, body.member_epoch, owned) or member


def _static_member(
    draft: StreamsDraft, body: StreamsGroupHeartbeatRequest, instance_id: str, owned: TaskSets | None
) -> StreamsMember | Refusal:
    """Return a static member by its instance id. A joining member replaces the member that left with this id."""
    group, member_id = draft.group, body.member_id
    if body.member_epoch != JOINING_EPOCH:
        refused = static_error(group, member_id, instance_id)
        return refused or epoch_error(group.members[member_id], body.member_epoch, owned) or group.members[member_id]
    holder = group.static_member(instance_id)
    if holder is None:
        return group.members.get(member_id) or StreamsMember(member_id)
    return release_error(holder, member_id) or _replace_member(draft, holder, member_id)


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
    says: dict[str, object] = {
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
    news = {name: value for name, value in says.items() if value is not None and value != getattr(member, name)}
    return replace(member, **news) if news else member  # type: ignore[arg-type]  # types as in the fields


def _topology(draft: StreamsDraft, sent: Topology | None) -> Topology | Refusal:
    """Return the group's topology, which is the one of its first member. Another one in the same or a later epoch is refused."""
    known = draft.group.topology
    if sent is None:
        # A group without topology was damaged: its members must join again, and send it.
        return known or Refusal(UNKNOWN_MEMBER_ID, f"Group {draft.group_id} has no topology: join again with one.")
    if known is None:
        return sent
    if known.epoch > sent.epoch or is_same(known, sent):
        return known
    return Refusal(INVALID_REQUEST, "Topology updates are not supported yet: stop all members before you change the topology.")


def _crowd_error(draft: StreamsDraft, member: StreamsMember, updated: StreamsMember, topology: Topology) -> Refusal | None:
    """Return a refusal if a member or its topology would exceed the memory limit."""
    group = draft.group
    is_new = member.member_id not in group.members and draft.replaced is None
    growth = updated.weight - (0 if is_new else member.weight)
    growth += topology_weight(topology) if group.topology is None else 0
    if not draft.context.memory.lacks(growth, draft.context.settings.ottla_max_group_bytes, draft.group_id):
        return None
    sentence = "The members of all groups reached the broker's ottla.max.group.bytes: try again later."
    return Refusal(GROUP_MAX_SIZE_REACHED, sentence)


def _must_include_tasks(
    draft: StreamsDraft, body: StreamsGroupHeartbeatRequest, settled: StreamsMember, owned: TaskSets | None, *, is_changed: bool
) -> bool:
    """Return whether the reply has the member's tasks: after a change, and again if the member perhaps missed a reply.

    After a failure, a member sends all fields, with the tasks that it has. If these are not its tasks, it missed a reply. A member
    that does not report its tasks for `UNCONFIRMED_MS` missed one, too: an earlier, delayed request can have received it.
    """
    group, member_id = draft.group, settled.member_id
    has_all = owned is not None and owned == settled.assigned.without_epochs()
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


def _note_stale_topology(draft: StreamsDraft, member: StreamsMember) -> None:
    """Add a status if the member's topology is older than the group's."""
    topology = draft.group.topology
    if topology is not None and member.topology_epoch < topology.epoch:
        draft.statuses.append(stale_topology(member.topology_epoch, topology.epoch))


def _evaluate(draft: StreamsDraft, topology: Topology, owned: TaskSets | None, *, changed: bool) -> TopologyOutlook | Refusal:
    """Store the topology if it is new, compare its topics with the present ones, and raise the group's epoch if anything changed.

    `changed`: the member is new, has reported other values, or has warmed a task up.
    """
    group, topics = draft.group, draft.context.topics
    if group.topology is None:
        draft.store(TopologyStored(draft.group_id, topology))
    configured, metadata_hash = group.configured, group.metadata_hash
    if configured is None or group.stale:
        metadata_hash = topics.hash_of(required_topics(topology) if group.topology is None else group.required)
        if configured is None or metadata_hash != group.metadata_hash:
            found = configure(topology, topics)
            if isinstance(found, InvalidTopology):
                return Refusal(STREAMS_INVALID_TOPOLOGY, found.message)
            configured = found
    validated = topology.epoch if configured.problem is None else NOT_VALIDATED
    if configured.problem is None and (refused := owned_error(owned, configured)) is not None:
        return refused
    configs = stored_configs(draft.configs)
    before = group.metadata_hash, group.validated_topology_epoch, group.configs
    epoch = group.epoch
    if changed or before != (metadata_hash, validated, configs):
        epoch += 1
        draft.store(StreamsEpochStored(draft.group_id, epoch, metadata_hash, validated, configs))
    if configured is not group.configured or group.stale:
        draft.store(TopologyConfigured(draft.group_id, configured))
    return TopologyOutlook(topology, configured, epoch)


def _note_offsets(draft: StreamsDraft, body: StreamsGroupHeartbeatRequest, member: StreamsMember) -> bool:
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
    if draft.context.memory.lacks(growth, draft.context.settings.ottla_max_group_bytes, draft.group_id):
        return False
    draft.reported[member_id] = TaskOffsetsReported(draft.group_id, member_id, reported, ends)
    most_lag = draft.setting_of_group("acceptable.recovery.lag")
    tasks = ((name, partition) for name, partitions in member.assigned.warmup.items() for partition in partitions)
    return any(task in reported and task in ends and ends[task] - reported[task] <= most_lag for task in tasks)


def _store_reports(draft: StreamsDraft, member: StreamsMember) -> None:
    """Store the reported offsets, and that the member can run warm-up tasks."""
    for reported in draft.reported.values():
        draft.store(reported)
    if draft.version >= WARMUPS_FROM and member.member_id not in draft.group.warmable:
        draft.store(WarmupsSupported(draft.group_id, member.member_id))


def _delay(draft: StreamsDraft) -> bool:
    """Return whether the first assignment of a new group still waits for members, and begin this delay for the first member."""
    group = draft.group
    if group.delayed or group.members:
        return group.delayed
    delay_ms = draft.setting_of_group("initial.rebalance.delay.ms")
    if delay_ms <= 0:
        return False
    draft.store(DelayBegun(draft.group_id))
    draft.after(InitialDelayKey(draft.group_id), delay_ms)
    return True


def lead(draft: StreamsDraft, member: StreamsMember, aim: TaskTarget, owned: TaskSets | None) -> StreamsMember | Refusal:
    """Return a member after the largest possible step toward its target assignment. Set a timeout if it must revoke tasks."""
    if member.is_reconciled_to(aim.epoch):
        return member
    group, process_id = draft.group, member.process_id

    def is_active_taken(subtopology_id: str, partition: int) -> bool:
        taken = group.active_process(subtopology_id, partition) is not None
        return taken or group.has_copy(process_id, subtopology_id, partition)

    def is_copy_taken(subtopology_id: str, partition: int) -> bool:
        own = group.active_process(subtopology_id, partition) == process_id
        return own or group.has_copy(process_id, subtopology_id, partition)

    around = TaskSurroundings(is_active_taken, is_copy_taken, owned)
    if must_begin_anew(member, around):
        return Refusal(FENCED_MEMBER_EPOCH, "The streams group member is in a unknown state: give up all tasks and rejoin.")
    led = reconcile(member, aim, around)
    if led == member:
        return member
    draft.store(current_record(draft.group_id, led))
    key = RebalanceKey(draft.group_id, led.member_id)
    if led.state is StreamsMemberState.UNREVOKED_TASKS:
        draft.after(key, led.rebalance_timeout_ms)
    else:
        draft.cancel(key)
    return led


def _finish(
    draft: StreamsDraft,
    body: StreamsGroupHeartbeatRequest,
    member: StreamsMember,
    settled: StreamsMember,
    configured: ConfiguredTopology,
    owned: TaskSets | None,
) -> None:
    """Restart the member's session, and reply with its tasks and the statuses of the group."""
    group = draft.group
    draft.expect(settled)
    if body.shutdown_application and group.shutdown_member_id is None:
        log.info("group %s: member %s requests a shutdown of the application", group.group_id, settled.member_id)
        draft.store(ShutdownRequested(group.group_id, settled.member_id))
    is_changed = body.member_epoch == JOINING_EPOCH or settled.assigned != member.assigned
    includes_tasks = _must_include_tasks(draft, body, settled, owned, is_changed=is_changed)
    endpoint_epoch = group.endpoint_epoch + (1 if is_changed and settled.user_endpoint is not None else 0)
    if endpoint_epoch != group.endpoint_epoch and group.members:
        draft.store(EndpointsChanged(group.group_id))
    if configured.problem is not None:
        draft.statuses.append(configured.problem)
    requester = group.shutdown_member_id or (settled.member_id if body.shutdown_application else None)
    if requester is not None:
        draft.statuses.append(shutdown(requester))
    if missing := _missing_tags(draft, settled):
        draft.statuses.append(missing_tags(missing))
    draft.answer(response_to(draft, body, settled, configured, includes_tasks=includes_tasks, endpoint_epoch=endpoint_epoch))


def _missing_tags(draft: StreamsDraft, member: StreamsMember) -> list[str]:
    """Return the rack-aware tags that a member does not have, if it understands that status."""
    tags = dict(member.client_tags)
    return [key for key in draft.rack_aware_tags if key not in tags] if draft.version >= STATUS_OF_TAGS_FROM else []
