"""Active tasks on their way to their target members: which of them move now, and which wait for a copy of their state.

A task with state is not taken from a member that processes it, or that could process it at once, before its target process has
caught up. The member that keeps the task meanwhile is the present one, or else the holder of the best copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.coord.streams.assign import STEPS_BETWEEN_PAUSES
from ottla.coord.streams.values import ConfiguredSubtopology, Task, TaskIds, TaskMember, TaskSets
from ottla.ports import Pauses

UNKNOWN_OFFSET: Final = (1 << 63) - 1
"""The offset that a member reports for a task whose restoration has not begun."""


class TaskCopy(NamedTuple):
    """A standby or warm-up task of a member."""

    member_id: str
    process_id: str
    is_warmup: bool
    is_caught_up: bool
    is_started: bool
    """Whether the member has restored some of the state."""


class Migration(NamedTuple):
    """A task that stays on `keeper` until `target` has its state. `copy` is the copy in the target's process, if there is one.

    Without a `process_id`, the target has left the group: the task stays on its keeper until the next assignment.
    """

    task: Task
    keeper: str
    target: str
    process_id: str | None
    copy: TaskCopy | None


class HeldTasks:
    """The stateful tasks that members hold now, by task: active tasks, and copies of their state. `enter` fills it."""

    def __init__(self, members: Mapping[str, TaskMember], topology: Mapping[str, ConfiguredSubtopology], lag: int) -> None:
        self._members = members
        self._stateful = {name: topology[name].task_count for name in sorted(topology) if topology[name].state_changelog_topics}
        self._lag = lag
        self.active: dict[Task, str] = {}
        self.copies: dict[Task, list[TaskCopy]] = {}
        self._held: dict[str, set[Task]] = {}
        self._reported: dict[str, set[Task]] = {}
        self.capacities: dict[str, int] = {}

    def enter(self) -> Pauses[None]:
        """Enter the tasks of all members."""
        entered = 0
        for member_id in sorted(self._members):
            member = self._members[member_id]
            self.capacities[member.process_id] = self.capacities.get(member.process_id, 0) + 1
            self._held.setdefault(member.process_id, set())
            self._reported.setdefault(member.process_id, set()).update(member.offsets)
            self.active |= dict.fromkeys(self.stateful(member.assigned.active), member_id)
            self._held[member.process_id].update(self.stateful(member.assigned.active))
            for tasks in (member.assigned.standby, member.assigned.warmup):
                yield from self._enter_copies(member_id, member, tasks)
            entered += 5 + sum(map(len, member.assigned.active.values()))
            if entered >= STEPS_BETWEEN_PAUSES:
                entered = 0
                yield None

    def _enter_copies(self, member_id: str, member: TaskMember, tasks: TaskIds) -> Pauses[None]:
        for count, task in enumerate(self.stateful(tasks), 1):
            is_started = member.offsets.get(task, UNKNOWN_OFFSET) != UNKNOWN_OFFSET
            is_warmup, is_caught_up = tasks is member.assigned.warmup, self._is_caught_up(member, task)
            copy = TaskCopy(member_id, member.process_id, is_warmup, is_caught_up, is_started)
            self.copies.setdefault(task, []).append(copy)
            self._held[member.process_id].add(task)
            if count % STEPS_BETWEEN_PAUSES == 0:
                yield None

    @property
    def all_stateful(self) -> Iterator[Task]:
        """Yield all stateful tasks of the topology, in order."""
        return ((name, number) for name, count in self._stateful.items() for number in range(count))

    def stateful(self, tasks: TaskIds) -> Iterator[Task]:
        """Yield those of `tasks` that have state."""
        return ((name, number) for name, numbers in tasks.items() if name in self._stateful for number in numbers)

    def _is_caught_up(self, member: TaskMember, task: Task) -> bool:
        offset, end = member.offsets.get(task, UNKNOWN_OFFSET), member.end_offsets.get(task, UNKNOWN_OFFSET)
        return UNKNOWN_OFFSET not in (offset, end) and end - offset <= self._lag

    def is_restoring(self, member_id: str, task: Task) -> bool:
        """Return whether a member restores its active task. It reports offsets of active tasks only while it does."""
        return task in self._members[member_id].offsets

    def is_hot(self, member_id: str, task: Task) -> bool:
        """Return whether the holder of an active task processes it, or has nearly all of its state."""
        return not self.is_restoring(member_id, task) or self._is_caught_up(self._members[member_id], task)

    def copy_in(self, process_id: str, task: Task) -> TaskCopy | None:
        return next((copy for copy in self.copies.get(task, ()) if copy.process_id == process_id), None)

    def has_on_disk(self, process_id: str, task: Task) -> bool:
        """Return whether a process reports the state of a task that it does not hold."""
        return task in self._reported[process_id] and task not in self._held[process_id]

    def load(self, process_id: str) -> float:
        """Return the number of stateful tasks of a process for each of its members."""
        return len(self._held[process_id]) / self.capacities[process_id]

    def best_copy(self, task: Task, targets: Mapping[str, TaskSets]) -> str | None:
        """Return the member whose copy of a task can become the active task; None if no copy has caught up.

        Copies that are no standby tasks of the target assignment come first, then those in the process with the least load.
        """
        caught_up = [copy for copy in self.copies.get(task, ()) if copy.is_caught_up]

        def cost(copy: TaskCopy) -> tuple[bool, float, str]:
            standby = targets.get(copy.member_id, TaskSets()).standby
            return task[1] in standby.get(task[0], ()), self.load(copy.process_id), copy.member_id

        return min(caught_up, key=cost).member_id if caught_up else None


def find_migrations(
    held: HeldTasks, members: Mapping[str, TaskMember], targets: Mapping[str, TaskSets]
) -> Pauses[tuple[list[Migration], dict[Task, str]]]:
    """Return the tasks that wait, in order, and the targets of those that move now."""
    waiting: list[Migration] = []
    moving: dict[Task, str] = {}
    aims: dict[Task, str] = {}
    for count, (member_id, tasks) in enumerate(targets.items(), 1):
        aims |= dict.fromkeys(held.stateful(tasks.active), member_id)
        if count % STEPS_BETWEEN_PAUSES == 0:
            yield None
    for count, task in enumerate(held.all_stateful, 1):
        if count % STEPS_BETWEEN_PAUSES == 0:
            yield None
        target = aims.get(task)
        if target is None or held.active.get(task) == target:
            continue
        keeper = _keeper(held, members, targets, task, target)
        if keeper is not None:
            process_id = members[target].process_id if target in members else None
            copy = None if process_id is None else held.copy_in(process_id, task)
            waiting.append(Migration(task, keeper, target, process_id, copy))
        elif target in members:
            moving[task] = target
    return waiting, moving


def _keeper(
    held: HeldTasks, members: Mapping[str, TaskMember], targets: Mapping[str, TaskSets], task: Task, target: str
) -> str | None:
    """Return the member on which a task stays for now; None if it moves to its target at once."""
    holder = held.active.get(task)
    if target not in members:
        return holder or held.best_copy(task, targets)
    process_id = members[target].process_id
    if holder is not None and members[holder].process_id == process_id:
        return None
    if any(copy.is_caught_up for copy in held.copies.get(task, ()) if copy.process_id == process_id):
        return None
    if holder is not None and held.is_hot(holder, task):
        return holder
    if holder is None and held.has_on_disk(process_id, task):
        return None
    return held.best_copy(task, targets)
