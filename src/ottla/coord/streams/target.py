"""The target assignment of a streams group: computed once per group epoch, and stored only for members whose target changes.

The decision that needs a small group's assignment also computes it. A large group's assignment only begins then, from a snapshot of
the group, and timers continue it in steps. The group keeps working meanwhile with its present targets, and a higher epoch leads to
another assignment. Whatever the targets are, no member gets a task that another member still has.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from ottla.coord.consumer.assign import BETWEEN_PAUSES, finish
from ottla.coord.outcome import FoundTasks, TaskAssignmentKey
from ottla.coord.streams.assign.built_in import STICKY
from ottla.coord.streams.assign.warmups import refine
from ottla.coord.streams.checks import WARMUPS_FROM
from ottla.coord.streams.draft import StreamsDraft
from ottla.coord.streams.events import TaskAssignmentBegun, TaskAssignmentEnded, TasksRefined
from ottla.coord.streams.group import TaskOffsets
from ottla.coord.streams.member import StreamsMember
from ottla.coord.streams.reconcile import TaskTarget
from ottla.coord.streams.records import StreamsTargetEpochStored, StreamsTargetStored
from ottla.coord.streams.topology.statuses import delayed_by_interval, delayed_by_rebalance, delayed_by_restart
from ottla.coord.streams.values import NO_TASKS, AssignmentConfigs, ConfiguredTopology, TaskMember, TaskSets
from ottla.ports import Pauses

log = logging.getLogger("ottla.coord")

MOST_AT_ONCE: Final = 250
"""The most members and tasks that are assigned without pauses. Each takes about five microseconds."""

PAUSE_MS: Final = 2
"""The pause between two steps of a long assignment, in ms. Each step takes about a millisecond."""

STORED_AT_ONCE: Final = 100
"""The number of targets that are stored in one step."""

HEARTBEATS_AFTER_RESTART: Final = 2
"""The number of heartbeat intervals for which a coordinator that has restarted waits for a heartbeat of each member."""

NO_OFFSETS: TaskOffsets = {}

Members = Mapping[str, StreamsMember]


def find_target(
    draft: StreamsDraft, epoch: int, updated: StreamsMember, configured: ConfiguredTopology, *, delayed: bool
) -> TaskTarget:
    """Return the member's target, from a new assignment if one is due, else from the present assignment.

    `epoch` is the group's epoch. If the assignment is `delayed`, or takes long, add a status to the reply.
    """
    group = draft.group
    if delayed:
        draft.statuses.append(delayed_by_rebalance())
        return TaskTarget(group.assignment_epoch, NO_TASKS)
    present = TaskTarget(group.assignment_epoch, group.target_of(draft.replaced or updated.member_id))
    if group.assignment_epoch >= epoch:
        return present
    if group.assigning is not None or not _is_time(draft):
        draft.statuses.append(delayed_by_interval())
        return present
    members = {member_id: member for member_id, member in group.members.items() if member_id != draft.replaced}
    members[updated.member_id] = updated
    can_warm_up = draft.version >= WARMUPS_FROM and members.keys() <= group.warmable | {updated.member_id}
    if not can_warm_up and _awaits_heartbeats(draft, configured):
        draft.statuses.append(delayed_by_restart())
        return present
    found = assign(draft, epoch, members, configured, can_warm_up=can_warm_up)
    if found is None:
        draft.statuses.append(delayed_by_interval())
        return present
    return TaskTarget(epoch, found.patches.get(updated.member_id) or found.targets.get(updated.member_id, NO_TASKS))


def _is_time(draft: StreamsDraft) -> bool:
    """Return whether the last assignment is old enough to compute another one. Members that join meanwhile share it."""
    made_ms = draft.group.assignment_wall_ms
    interval_ms = draft.setting_of_group("assignment.interval.ms")
    # If the time of the last assignment is in the future, the clock was set back after it.
    return made_ms == 0 or interval_ms == 0 or not 0 <= draft.now.wall_ms - made_ms < interval_ms


def _awaits_heartbeats(draft: StreamsDraft, configured: ConfiguredTopology) -> bool:
    """Return whether the coordinator has just restarted, and awaits heartbeats of members that can have warm-up tasks.

    An assignment without these would move tasks without warm-up tasks. A member that cannot run warm-up tasks does not wait.
    """
    began_ms = draft.group.recalled_ms
    if began_ms is None or draft.version < WARMUPS_FROM or not draft.configs.num_warmup_replicas:
        return False
    if not any(each.state_changelog_topics for each in configured.subtopologies.values()):
        return False
    return draft.now.mono_ms - began_ms < HEARTBEATS_AFTER_RESTART * draft.setting_of_group("heartbeat.interval.ms")


def assign(
    draft: StreamsDraft, epoch: int, members: Members, configured: ConfiguredTopology, *, can_warm_up: bool
) -> FoundTasks | None:
    """Compute the assignment of a small group, and store what changes. Begin that of a large group, and return None."""
    configs = draft.configs if can_warm_up else draft.configs._replace(num_warmup_replicas=0)
    work = _find_tasks(draft.group_id, _snapshot(draft, members), configured, configs, epoch)
    if _is_large(members, configured):
        draft.store(TaskAssignmentBegun(draft.group_id, draft.token))
        draft.after(TaskAssignmentKey(draft.group_id, draft.token, epoch, draft.now.wall_ms, work), PAUSE_MS)
        return None
    found = finish(work)
    for record in found.changes:
        draft.store(record)
    _store_end(draft, epoch, found, draft.now.wall_ms)
    return found


def _is_large(members: Members, configured: ConfiguredTopology) -> bool:
    """Return whether an assignment is so large that it must pause. Without all topics, no tasks are assigned."""
    if configured.problem is not None:
        return len(members) > 10 * MOST_AT_ONCE
    return len(members) + sum(each.task_count for each in configured.subtopologies.values()) > MOST_AT_ONCE


def _store_end(draft: StreamsDraft, epoch: int, found: FoundTasks, began_wall_ms: int) -> None:
    """Store that the targets of an epoch are complete, and the tasks that members have instead until warm-up tasks have caught up.

    The interval to the next assignment counts from the beginning of this one, so that members do not wait longer if it took long.
    """
    draft.store(StreamsTargetEpochStored(draft.group_id, epoch, began_wall_ms))
    if found.patches:
        draft.store(TasksRefined(draft.group_id, found.patches))


def continue_assignment(draft: StreamsDraft, key: TaskAssignmentKey) -> None:
    """Run the next step of a long assignment, unless the group was replaced meanwhile.

    The result is stored even if the group has changed, for members that are still present. Otherwise a group whose members change
    often would never get an assignment.
    """
    if draft.group.assigning != key.token:
        return
    if key.found is None:
        draft.after(_run_step(key), PAUSE_MS)
        return
    end = key.at + STORED_AT_ONCE
    for record in key.found.changes[key.at : end]:
        if record.member_id in draft.group.members:
            draft.store(record)
    if end < len(key.found.changes):
        draft.after(replace(key, at=end), PAUSE_MS)
    else:
        _store_end(draft, key.epoch, key.found, key.began_wall_ms)
        draft.store(TaskAssignmentEnded(key.group_id))


def _run_step(key: TaskAssignmentKey) -> TaskAssignmentKey:
    try:
        next(key.work)
    except StopIteration as end:
        return replace(key, found=end.value)
    return key


class _Snapshot(NamedTuple):
    """The members of a group with their targets and offsets, by member id, at the beginning of an assignment."""

    members: Members
    targets: Mapping[str, TaskSets]
    offsets: Mapping[str, TaskOffsets]
    end_offsets: Mapping[str, TaskOffsets]


def _snapshot(draft: StreamsDraft, members: Members) -> _Snapshot:
    """Return a snapshot with the changes of this request. A static member has the target of its predecessor."""
    group, reports = draft.group, draft.reported
    targets = dict(group.targets)
    if draft.replaced is not None:
        targets |= dict.fromkeys(members.keys() - group.members.keys(), targets.get(draft.replaced, NO_TASKS))
    offsets = {**group.offsets, **{member_id: each.offsets for member_id, each in reports.items()}}
    end_offsets = {**group.end_offsets, **{member_id: each.end_offsets for member_id, each in reports.items()}}
    return _Snapshot(dict(members), targets, offsets, end_offsets)


def _find_tasks(
    group_id: str, snapshot: _Snapshot, configured: ConfiguredTopology, configs: AssignmentConfigs, epoch: int
) -> Pauses[FoundTasks]:
    """Compute an assignment with pauses: the targets, and the differences until warm-up tasks have caught up."""
    inputs = yield from _task_members(snapshot)
    targets = yield from _assign(group_id, inputs, configured, configs, epoch)
    patches: Mapping[str, TaskSets] = {}
    if configured.problem is None:
        patches = yield from refine(inputs, targets, configured.subtopologies, configs)
    changes: list[StreamsTargetStored] = []
    for count, (member_id, tasks) in enumerate(targets.items(), 1):
        if snapshot.targets.get(member_id) != tasks:
            changes.append(StreamsTargetStored(group_id, member_id, tasks))
        if count % BETWEEN_PAUSES == 0:
            yield None
    return FoundTasks(changes, targets, patches)


def _task_members(snapshot: _Snapshot) -> Pauses[dict[str, TaskMember]]:
    """Return the input of the assignor."""
    inputs: dict[str, TaskMember] = {}
    for count, (member_id, member) in enumerate(snapshot.members.items(), 1):
        inputs[member_id] = TaskMember(
            member.process_id,
            member.instance_id,
            member.rack_id,
            dict(member.client_tags),
            snapshot.targets.get(member_id, NO_TASKS),
            member.assigned.without_epochs(),
            snapshot.offsets.get(member_id, NO_OFFSETS),
            snapshot.end_offsets.get(member_id, NO_OFFSETS),
        )
        if count % BETWEEN_PAUSES == 0:
            yield None
    return inputs


def _assign(
    group_id: str,
    inputs: Mapping[str, TaskMember],
    configured: ConfiguredTopology,
    configs: AssignmentConfigs,
    epoch: int,
) -> Pauses[Mapping[str, TaskSets]]:
    """Compute the targets with pauses. Without all topics of the topology, every member has no tasks."""
    if configured.problem is not None:
        return dict.fromkeys(inputs, NO_TASKS)
    found = yield from STICKY.assign_slowly(inputs, configured.subtopologies, configs)
    sentence, cause = "group %s: %s computed the assignment of epoch %d for %d members", {"cause": "group assignment", "most": 3}
    log.info(sentence, group_id, STICKY.name, epoch, len(inputs), extra=cause)
    return found
