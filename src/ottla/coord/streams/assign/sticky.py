"""The assignor `sticky`: tasks stay where they are or where their state is, as far as equal shares permit.

It has the rules of Kafka's assignor of this name:

1. An active task stays on its member until the member has its share. Stateful tasks are shared out before stateless ones.
2. An active task goes to a member with its state: a standby or warm-up task, else state on disk. The most advanced comes first.
3. An active task goes to a member with the fewest tasks; among several, to the process with the fewest for each of its members.
4. A standby task goes to the former member of the active task, to its own former member, or to the process as in rule 3.

With rack-aware tags, or members in several racks, rule 4 first prefers processes that make a task's copies more diverse.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain
from typing import Final, NamedTuple

from ottla.coord.streams.assign import STEPS_BETWEEN_PAUSES
from ottla.coord.streams.assign.diversity import DiverseProcesses, tag_values
from ottla.coord.streams.assign.draft import StreamsProcess, TaskDraft, TaskHolder, TaskQuota
from ottla.coord.streams.values import NO_TASKS, AssignmentConfigs, ConfiguredSubtopology, Task, TaskIds, TaskMember, TaskSets
from ottla.ports import Pauses

log = logging.getLogger("ottla.coord")

ProcessHeap = list[tuple[int, float, float, int, StreamsProcess]]


class StickyTaskAssignor:
    name: Final = "sticky"

    def assign_slowly(
        self, members: Mapping[str, TaskMember], topology: Mapping[str, ConfiguredSubtopology], configs: AssignmentConfigs
    ) -> Pauses[Mapping[str, TaskSets]]:
        """Return the target assignment, as `TaskAssignor` requires."""
        if not members:
            return {}
        draft = TaskDraft(members)
        yield from draft.enter()
        stateful = yield from _tasks(topology, is_stateful=True)
        stateless = yield from _tasks(topology, is_stateful=False)
        work = _Assignment(draft, stateful, stateless, configs.num_standby_replicas)
        yield from work.find_former_holders(members)
        yield from work.assign_active(stateful, is_stateful=True)
        yield from work.assign_active(stateless, is_stateful=False)
        if configs.num_standby_replicas:
            diverse = tag_values(members, draft, configs.rack_aware_tags)
            is_stable = diverse is None and (yield from work.is_stable(members))
            yield from draft.keep_standby() if is_stable else work.assign_standby(diverse)
        return (yield from draft.result())


class _Former(NamedTuple):
    """A member with the state of a task. The order prefers tasks that it has to state on its disk, then the most advanced."""

    is_without_task: bool
    lag: int
    holder: TaskHolder


class _Assignment:
    """One assignment in progress."""

    def __init__(self, draft: TaskDraft, stateful: list[Task], stateless: list[Task], replicas: int) -> None:
        self._draft = draft
        self._replicas = replicas
        self._stateful = stateful
        members, tasks = len(draft.holders), len(stateful) + len(stateless)
        self._stateful_quota = TaskQuota(len(stateful), members)
        self._active_quota = TaskQuota(tasks, members)
        self._quota = TaskQuota(tasks + len(stateful) * replicas, members)
        self._active: dict[Task, TaskHolder] = {}
        """The former member of each active task."""
        self._with_state: dict[Task, list[_Former]] = {}

    def find_former_holders(self, members: Mapping[str, TaskMember]) -> Pauses[None]:
        """Find the members that had each task, or its state."""
        count = 0
        for member_id, holder in self._draft.holders.items():
            for task, former in _former_tasks(members[member_id], holder):
                if former is None:
                    self._active[task] = holder
                else:
                    self._with_state.setdefault(task, []).append(former)
                count += 1
                if count % STEPS_BETWEEN_PAUSES == 0:
                    yield None
        for number, formers in enumerate(self._with_state.values()):
            formers.sort(key=lambda former: former[:2])
            if number % STEPS_BETWEEN_PAUSES == 0:
                yield None

    def assign_active(self, tasks: Sequence[Task], *, is_stateful: bool) -> Pauses[None]:
        """Assign active tasks, all of them stateful or all stateless."""
        quota = self._stateful_quota if is_stateful else self._active_quota
        left = yield from self._keep(tasks, quota, is_stateful=is_stateful)
        rest = yield from self._follow_state(left, quota, is_stateful=is_stateful)
        yield from self._fill(chain.from_iterable(rest[name] for name in sorted(rest)), is_stateful=is_stateful)

    def _keep(self, tasks: Iterable[Task], quota: TaskQuota, *, is_stateful: bool) -> Pauses[list[Task]]:
        """Leave active tasks on their members. Return the tasks of members that have their share, and of members that left."""
        left = []
        for count, task in enumerate(tasks):
            holder = self._active.get(task)
            if holder is None or holder.count >= quota.share:
                left.append(task)
            else:
                self._add_active(holder, task, is_stateful=is_stateful)
            if count % STEPS_BETWEEN_PAUSES == 0:
                yield None
        return left

    def _follow_state(self, tasks: Iterable[Task], quota: TaskQuota, *, is_stateful: bool) -> Pauses[dict[str, list[Task]]]:
        """Assign active tasks to members with their state. Return the other tasks by subtopology, in order."""
        left: dict[str, list[Task]] = {}
        for count, task in enumerate(tasks):
            holder = _least_loaded_former(self._with_state.get(task, ()), quota)
            if holder is None:
                left.setdefault(task[0], []).append(task)
            else:
                self._add_active(holder, task, is_stateful=is_stateful)
            if count % STEPS_BETWEEN_PAUSES == 0:
                yield None
        return left

    def _fill(self, tasks: Iterable[Task], *, is_stateful: bool) -> Pauses[None]:
        """Assign active tasks to the processes with the least load."""
        heap = _heap(self._draft.processes)
        for count, task in enumerate(tasks):
            process = heap[0][-1]
            self._add_active(process.least_loaded(), task, is_stateful=is_stateful)
            heapreplace(heap, (*process.rank, process))
            if count % STEPS_BETWEEN_PAUSES == 0:
                yield None

    def _add_active(self, holder: TaskHolder, task: Task, *, is_stateful: bool) -> None:
        holder.add(task, is_active=True, is_stateful=is_stateful)
        if is_stateful:  # before anything else is assigned, so that the member's tasks are all stateful and active
            self._stateful_quota.count(holder)
        self._active_quota.count(holder)
        self._quota.count(holder)

    def is_stable(self, members: Mapping[str, TaskMember]) -> Pauses[bool]:
        """Return whether all active tasks stay, all members had tasks, and every task had its standby tasks where they may be."""
        for holder, member in zip(self._draft.holders.values(), map(members.__getitem__, self._draft.holders), strict=True):
            if member.target == NO_TASKS or holder.active != member.target.active:
                return False
        yield None
        wanted = min(self._replicas, len(self._draft.processes) - 1)
        copies: dict[Task, set[StreamsProcess]] = {}
        count = 0
        for member_id, holder in self._draft.holders.items():
            for task in _each(members[member_id].target.standby):
                copies.setdefault(task, set()).add(holder.process)
                count += 1
                if count % STEPS_BETWEEN_PAUSES == 0:
                    yield None
        if count != wanted * len(self._stateful):
            return False
        for number, task in enumerate(self._stateful):
            had = copies.get(task, set())
            if len(had) != wanted or self._active[task].process in had:
                return False
            if number % STEPS_BETWEEN_PAUSES == 0:
                yield None
        return True

    def assign_standby(self, diverse: DiverseProcesses | None) -> Pauses[None]:
        """Assign the standby tasks of all stateful tasks."""
        left: dict[str, list[tuple[Task, int]]] = {}
        for count, task in enumerate(reversed(self._stateful)):
            missing = self._replicas
            if diverse is not None:
                missing -= self._diversify(task, diverse)
            while missing and (holder := self._former_standby(task)) is not None:
                self._add_standby(holder, task)
                missing -= 1
            if missing:
                left.setdefault(task[0], []).append((task, missing))
            if diverse is not None or count % STEPS_BETWEEN_PAUSES == 0:  # a choice by tags can take half a millisecond
                yield None
        yield from self._fill_standby(chain.from_iterable(left[name] for name in sorted(left, reverse=True)))

    def _diversify(self, task: Task, diverse: DiverseProcesses) -> int:
        """Assign standby tasks to processes whose tags make the copies of a task more diverse; return how many."""
        diverse.begin(process for process in self._draft.processes if task in process.tasks)
        for given in range(self._replicas):
            picked = diverse.pick(lambda process: task not in process.tasks and self._has_room(process))
            if not picked:
                return given
            formers = (each.holder for each in self._formers(task) if each.holder.process in picked)
            former = next((holder for holder in formers if self._may_have(holder, task)), None)
            holder = former or min(picked, key=lambda process: process.rank).least_loaded()
            self._add_standby(holder, task)
            diverse.use(holder.process)
        return self._replicas

    def _formers(self, task: Task) -> Iterator[_Former]:
        active = self._active.get(task)
        if active is not None:
            yield _Former(False, 0, active)
        yield from self._with_state.get(task, ())

    def _has_room(self, process: StreamsProcess) -> bool:
        return process.load < self._quota.share

    def _may_have(self, holder: TaskHolder, task: Task) -> bool:
        return task not in holder.process.tasks and holder.count < self._quota.share

    def _former_standby(self, task: Task) -> TaskHolder | None:
        """Return the member that gets a standby task because it had the task; None if there is none with room."""
        active = self._active.get(task)
        if active is not None and self._may_have(active, task):
            return active
        formers = self._with_state.get(task, ())
        return _least_loaded_former((each for each in formers if task not in each.holder.process.tasks), self._quota)

    def _add_standby(self, holder: TaskHolder, task: Task) -> None:
        holder.add(task, is_active=False)
        self._quota.count(holder)

    def _fill_standby(self, tasks: Iterable[tuple[Task, int]]) -> Pauses[None]:
        """Assign standby tasks to the processes with the least load that do not have the task yet."""
        heap = _heap(self._draft.processes)
        short = 0
        for count, (task, missing) in enumerate(tasks):
            passed = []
            while missing and heap:
                first = heappop(heap)
                if task not in first[-1].tasks:
                    self._add_standby(first[-1].least_loaded(), task)
                    missing -= 1
                passed.append(first[-1])
            for process in passed:
                heappush(heap, (*process.rank, process))
            short += missing
            if count % STEPS_BETWEEN_PAUSES == 0:
                yield None
        if short:
            sentence = "%d standby tasks have no process: start more instances, or lower streams.num.standby.replicas"
            log.warning(sentence, short, extra={"cause": "standby tasks without a process", "most": 3})


def _tasks(topology: Mapping[str, ConfiguredSubtopology], *, is_stateful: bool) -> Pauses[list[Task]]:
    """Return tasks by partition, then by subtopology: members of equal index then have the same partitions of all topics."""
    counts = {name: each.task_count for name, each in sorted(topology.items()) if bool(each.state_changelog_topics) is is_stateful}
    tasks: list[Task] = []
    pause_at = 0
    for number in range(max(counts.values(), default=0)):
        tasks += [(name, number) for name, count in counts.items() if number < count]
        if len(tasks) >= pause_at:
            pause_at = len(tasks) + STEPS_BETWEEN_PAUSES
            yield None
    return tasks


def _former_tasks(member: TaskMember, holder: TaskHolder) -> Iterator[tuple[Task, _Former | None]]:
    """Yield the tasks that a member had, and those whose state it has. The value of active tasks is None."""
    for task in _each(member.target.active):
        yield task, None
    held = set()
    for task in chain(_each(member.target.standby), _each(member.target.warmup)):
        if task not in held:
            held.add(task)
            yield task, _Former(False, -member.offsets.get(task, 0), holder)
    for task, offset in member.offsets.items():
        if task not in held:
            yield task, _Former(True, -offset, holder)


def _each(tasks: TaskIds) -> Iterator[Task]:
    return ((name, number) for name, numbers in tasks.items() for number in numbers)


def _heap(processes: Iterable[StreamsProcess]) -> ProcessHeap:
    heap = [(*process.rank, process) for process in processes]
    heapify(heap)
    return heap


def _least_loaded_former(formers: Iterable[_Former], quota: TaskQuota) -> TaskHolder | None:
    """Return the first member that has room, or a later one if both its process and itself have fewer tasks."""
    found: TaskHolder | None = None
    for former in formers:
        holder = former.holder
        if holder.count < quota.share and (
            found is None or (holder.process.load < found.process.load and holder.count < found.count)
        ):
            found = holder
    return found
