"""The target assignment of a streams group: computed once per group epoch, and stored only for members whose target changes.

The decision that needs a small group's assignment also computes it. A large group's assignment only begins then, from a snapshot of
the group, and timers continue it in steps. The group keeps working meanwhile with its present targets, and a higher epoch leads to
another assignment. Whatever the targets are, no member gets a task that another member still has.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ottla.coord.consumer.assign import BETWEEN_PAUSES, finish
from ottla.coord.outcome import TaskAssignmentKey
from ottla.coord.streams.assign.built_in import STICKY
from ottla.coord.streams.assign.warmups import refine
from ottla.coord.streams.checks import WARMUPS_FROM
from ottla.coord.streams.draft import StreamsDraft
from ottla.coord.streams.events import TaskAssignmentBegun, TaskAssignmentEnded, TasksRefined
from ottla.coord.streams.group import TaskOffsets
from ottla.coord.streams.member import StreamsMember
from ottla.coord.streams.reconcile import TaskTarget
from ottla.coord.streams.records import StreamsTargetEpochStored, StreamsTargetStored
from ottla.coord.streams.topology.statuses import delayed_by_interval, delayed_by_rebalance
from ottla.coord.streams.values import NO_TASKS, AssignmentConfigs, ConfiguredTopology, TaskMember, TaskSets
from ottla.ports import Pauses

log = logging.getLogger("ottla.coord")

MOST_AT_ONCE: Final = 250
"""The most members and tasks that are assigned without pauses. Each takes about five microseconds."""

PAUSE_MS: Final = 2
"""The pause between two steps of a long assignment, in ms. Each step takes about a millisecond."""

STORED_AT_ONCE: Final = 100
"""The number of targets that are stored in one step."""

NO_OFFSETS: TaskOffsets = {}


def target(draft: StreamsDraft, epoch: int, updated: StreamsMember, configured: ConfiguredTopology, *, delayed: bool) -> TaskTarget:
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
    inputs = task_members(draft, members)
    if is_large(members, configured):
        begin(draft, epoch, inputs, configured)
        draft.statuses.append(delayed_by_interval())
        return present
    assigned = assign_now(draft, epoch, inputs, configured)
    if configured.problem is None and members.keys() <= group.warmable | {updated.member_id} and draft.version >= WARMUPS_FROM:
        assigned = _refine(draft, inputs, assigned, configured)
    return TaskTarget(epoch, assigned.get(updated.member_id, NO_TASKS))


def _refine(
    draft: StreamsDraft, inputs: Mapping[str, TaskMember], assigned: Mapping[str, TaskSets], configured: ConfiguredTopology
) -> Mapping[str, TaskSets]:
    """Return the assignment of the moment, in which tasks stay where they run until warm-up tasks have their state."""
    refined = refine(inputs, assigned, configured.subtopologies, draft.configs)
    if refined is not assigned:
        draft.store(TasksRefined(draft.group_id, refined))
    return refined


def _is_time(draft: StreamsDraft) -> bool:
    """Return whether the last assignment is old enough to compute another one. Members that join meanwhile share it."""
    made_ms = draft.group.assignment_wall_ms
    interval_ms = draft.setting_of_group("assignment.interval.ms")
    # If the time of the last assignment is in the future, the clock was set back after it.
    return made_ms == 0 or interval_ms == 0 or not 0 <= draft.now.wall_ms - made_ms < interval_ms


def is_large(members: Mapping[str, StreamsMember], configured: ConfiguredTopology) -> bool:
    """Return whether an assignment is so large that it must pause. Without all topics, no tasks are assigned."""
    if configured.problem is not None:
        return len(members) > 10 * MOST_AT_ONCE
    return len(members) + sum(each.task_count for each in configured.subtopologies.values()) > MOST_AT_ONCE


def task_members(draft: StreamsDraft, members: Mapping[str, StreamsMember]) -> dict[str, TaskMember]:
    """Return the input of the assignor: the members with their targets. A static member has the target of its predecessor."""
    group = draft.group
    inputs = {member_id: _task_member(draft, member) for member_id, member in members.items()}
    if draft.replaced is not None:
        for member_id in members.keys() - group.members.keys():
            inputs[member_id] = inputs[member_id]._replace(target=group.targets.get(draft.replaced, NO_TASKS))
    return inputs


def _task_member(draft: StreamsDraft, member: StreamsMember) -> TaskMember:
    group, reported = draft.group, draft.reported.get(member.member_id)
    offsets = group.offsets.get(member.member_id, NO_OFFSETS) if reported is None else reported.offsets
    end_offsets = group.end_offsets.get(member.member_id, NO_OFFSETS) if reported is None else reported.end_offsets
    return TaskMember(
        member.process_id,
        member.instance_id,
        member.rack_id,
        dict(member.client_tags),
        group.targets.get(member.member_id, NO_TASKS),
        member.assigned.without_epochs(),
        offsets,
        end_offsets,
    )


def assign_now(
    draft: StreamsDraft, epoch: int, inputs: Mapping[str, TaskMember], configured: ConfiguredTopology
) -> Mapping[str, TaskSets]:
    """Compute an assignment and store what changes. Return the target of each member."""
    known = draft.group.targets
    found = finish(_assign(draft.group_id, inputs, configured, draft.configs, epoch))
    for member_id, tasks in found.items():
        if known.get(member_id) != tasks:
            draft.store(StreamsTargetStored(draft.group_id, member_id, tasks))
    draft.store(StreamsTargetEpochStored(draft.group_id, epoch, draft.now.wall_ms))
    return found


def begin(draft: StreamsDraft, epoch: int, inputs: Mapping[str, TaskMember], configured: ConfiguredTopology) -> None:
    """Begin a long assignment."""
    work = _changes(draft.group_id, inputs, configured, draft.configs, epoch, dict(draft.group.targets))
    draft.store(TaskAssignmentBegun(draft.group_id, draft.token))
    draft.after(TaskAssignmentKey(draft.group_id, draft.token, epoch, work), PAUSE_MS)


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
    for record in key.found[key.at : end]:
        if record.member_id in draft.group.members:
            draft.store(record)
    if end < len(key.found):
        draft.after(replace(key, at=end), PAUSE_MS)
    else:
        draft.store(StreamsTargetEpochStored(key.group_id, key.epoch, draft.now.wall_ms))
        draft.store(TaskAssignmentEnded(key.group_id))


def _run_step(key: TaskAssignmentKey) -> TaskAssignmentKey:
    try:
        next(key.work)
    except StopIteration as end:
        return replace(key, found=tuple(end.value))
    return key


def _changes(
    group_id: str,
    inputs: Mapping[str, TaskMember],
    configured: ConfiguredTopology,
    configs: AssignmentConfigs,
    epoch: int,
    known: Mapping[str, TaskSets],
) -> Pauses[list[StreamsTargetStored]]:
    """Compute an assignment with pauses, and return the targets that differ from `known`."""
    changes = []
    found = yield from _assign(group_id, inputs, configured, configs, epoch)
    for count, (member_id, tasks) in enumerate(found.items()):
        if known.get(member_id) != tasks:
            changes.append(StreamsTargetStored(group_id, member_id, tasks))
        if count % BETWEEN_PAUSES == BETWEEN_PAUSES - 1:
            yield None
    return changes


def _assign(
    group_id: str,
    inputs: Mapping[str, TaskMember],
    configured: ConfiguredTopology,
    configs: AssignmentConfigs,
    epoch: int,
) -> Pauses[Mapping[str, TaskSets]]:
    """Compute an assignment with pauses. Without all topics of the topology, every member has no tasks."""
    if configured.problem is not None:
        return dict.fromkeys(inputs, NO_TASKS)
    found = yield from STICKY.assign_slowly(inputs, configured.subtopologies, configs)
    sentence, cause = "group %s: %s computed the assignment of epoch %d for %d members", {"cause": "group assignment", "most": 3}
    log.info(sentence, group_id, STICKY.name, epoch, len(inputs), extra=cause)
    return found
