"""What must be true of streams groups in their coordinator, whatever happens: a violation raises `Violation` with its name.

tasks are held once  an active task is of one member, and a process has a task once, also while members revoke
epochs rise          neither the epochs that members are told nor those of a group and its assignment go back
both agree           when things are quiet, members run what the coordinator has assigned, at the same epoch
warm-ups end         when things are quiet, nobody warms a task up
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coord.group_machine import GroupMachine
from ottla.coord.streams.group import StreamsGroup
from tests.sim.lives.streams_member import OwnedTasks, SimStreamsMember, Task
from tests.sim.seeds import Violation


def streams_groups(machines: Iterable[GroupMachine]) -> list[StreamsGroup]:
    groups = (group for machine in machines for kind in machine.kinds for group in kind.groups.values())
    return [group for group in groups if isinstance(group, StreamsGroup)]


def check_tasks(machines: Iterable[GroupMachine]) -> None:
    """Check the tasks and epochs of all groups."""
    for group in streams_groups(machines):
        if group.assignment_epoch > group.epoch:
            raise Violation(f"epochs rise: {group.group_id} has epoch {group.epoch}, and an assignment of {group.assignment_epoch}")
        active: set[Task] = set()
        in_process: set[tuple[str, Task]] = set()
        for member in group.members.values():
            if member.epoch > group.epoch:
                raise Violation(f"epochs rise: {member.member_id} has epoch {member.epoch}, and its group {group.epoch}")
            for task in places(member.assigned.active, member.revoking.active):
                if task in active:
                    raise Violation(f"tasks are held once: {task} of {group.group_id} is active twice")
                active.add(task)
            for task in places(*member.assigned.without_epochs(), *member.revoking.without_epochs()):
                if (member.process_id, task) in in_process:
                    raise Violation(f"tasks are held once: process {member.process_id} has {task} twice")
                in_process.add((member.process_id, task))


def places(*kinds: Mapping[str, Iterable[int]]) -> list[Task]:
    return [(name, partition) for kind in kinds for name, partitions in kind.items() for partition in partitions]


def check_agreement(machines: Iterable[GroupMachine], members: Iterable[object]) -> None:
    """Compare quiet members with their coordinator."""
    by_group = {group.group_id: group for group in streams_groups(machines)}
    for member in members:
        if not isinstance(member, SimStreamsMember):
            continue
        known = by_group[member.group_id].members[member.member_id]
        assigned = OwnedTasks(*(frozenset(places(kind)) for kind in known.assigned.without_epochs()))
        if (assigned, known.epoch) != (member.owned, member.epoch):
            raise Violation(
                f"both agree: {member.member_id} runs {member.owned} at {member.epoch}, and has {assigned} at {known.epoch}"
            )
        if member.owned.warmup:
            raise Violation(f"warm-ups end: {member.member_id} still warms up {sorted(member.owned.warmup)}")
