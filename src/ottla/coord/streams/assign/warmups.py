"""Warm-up tasks: copies of the state of tasks that will move, on their target members, so that processing does not pause.

`refine` finds what differs between a target assignment and the assignment of the moment. It is called again whenever a warm-up task
has caught up, and each time more tasks are on their targets. The number of warm-up tasks of a group is limited. Those in progress
keep their places, and the others are ordered by what they gain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

from ottla.coord.streams.assign import STEPS_BETWEEN_PAUSES
from ottla.coord.streams.assign.migrations import HeldTasks, Migration, find_migrations
from ottla.coord.streams.values import (
    NO_TASK_IDS,
    NO_TASKS,
    AssignmentConfigs,
    ConfiguredSubtopology,
    Task,
    TaskIds,
    TaskMember,
    TaskSets,
)
from ottla.ports import Pauses

Patches = dict[str, "_Patch"]


def refine(
    members: Mapping[str, TaskMember],
    targets: Mapping[str, TaskSets],
    topology: Mapping[str, ConfiguredSubtopology],
    configs: AssignmentConfigs,
) -> Pauses[Mapping[str, TaskSets]]:
    """Return the tasks of the moment of each member that must differ from `targets` for now, and pause between parts of the work.

    Stateful tasks stay on members that can process them until their targets have caught up. Nothing differs if warm-up tasks are
    turned off.
    """
    if not configs.num_warmup_replicas:
        return {}
    held = HeldTasks(members, topology, configs.acceptable_recovery_lag)
    yield from held.enter()
    if not held.active and not held.copies:
        return {}
    waiting, moving = yield from find_migrations(held, members, targets)
    if not waiting:
        return {}
    warm, borrowed = yield from _choose_warmups(held, members, waiting, moving, configs.num_warmup_replicas)
    return (yield from _patches(held, members, targets, waiting, warm, borrowed))


class _Candidate(NamedTuple):
    """A migration that needs a warm-up task. Lower values come first."""

    tier: int
    is_sibling: bool
    """Whether the target's process has a standby task on another of its members: it keeps warm even without a warm-up task."""
    migration: Migration
    is_new: bool


def _choose_warmups(
    held: HeldTasks, members: Mapping[str, TaskMember], waiting: Iterable[Migration], moving: Mapping[Task, str], most: int
) -> Pauses[tuple[dict[Task, str], set[Task]]]:
    """Return the members of warm-up tasks, and the tasks that a standby task keeps warm instead."""
    restoring = yield from _restoring_members(held, members, moving)
    candidates: list[_Candidate] = []
    borrowed: set[Task] = set()
    for count, migration in enumerate(waiting, 1):
        copy = migration.copy
        if count % STEPS_BETWEEN_PAUSES == 0:
            yield None
        if migration.process_id is None:
            continue
        if copy is not None and not copy.is_warmup and copy.member_id == migration.target:
            borrowed.add(migration.task)
        else:
            candidates.append(_candidate(migration, restoring))
    warm = yield from _pick_best(held, members, candidates, moving, most)
    borrowed |= {each.migration.task for each in candidates if each.is_sibling and each.migration.task not in warm}
    return warm, borrowed


def _candidate(migration: Migration, restoring: set[str]) -> _Candidate:
    """Return a migration with its priority. A member that restores an active task makes no progress with warm-up tasks."""
    copy, is_slow = migration.copy, migration.target in restoring
    if copy is not None and copy.is_warmup:
        return _Candidate(2 if is_slow and not copy.is_started else 0, False, migration, False)
    return _Candidate(3 if is_slow else 1, copy is not None, migration, copy is None)


def _restoring_members(held: HeldTasks, members: Mapping[str, TaskMember], moving: Mapping[Task, str]) -> Pauses[set[str]]:
    """Return the members that restore an active task, or begin to."""
    found: set[str] = set()
    for count, (task, member_id) in enumerate(held.active.items(), 1):
        if held.is_restoring(member_id, task):
            found.add(member_id)
        if count % STEPS_BETWEEN_PAUSES == 0:
            yield None
    for count, (task, member_id) in enumerate(moving.items(), 1):
        if count % STEPS_BETWEEN_PAUSES == 0:
            yield None
        process_id, holder = members[member_id].process_id, held.active.get(task)
        is_elsewhere = holder is None or members[holder].process_id != process_id
        if is_elsewhere and held.copy_in(process_id, task) is None:
            found.add(member_id)
    return found


def _pick_best(
    held: HeldTasks,
    members: Mapping[str, TaskMember],
    candidates: Iterable[_Candidate],
    moving: Mapping[Task, str],
    most: int,
) -> Pauses[dict[Task, str]]:
    """Return the members of at most `most` warm-up tasks.

    Among equals, the target process with the least load comes first, because it restores faster; then the keeper with the most.
    """
    extra = yield from _growth_by_process(held, members, moving)

    def load(process_id: str) -> float:
        return held.load(process_id) + extra[process_id] / held.capacities[process_id]

    def cost(each: _Candidate) -> tuple[int, bool, float, float, Task]:
        migration = each.migration
        assert migration.process_id is not None
        keeper = members[migration.keeper].process_id
        return each.tier, each.is_sibling, load(migration.process_id), -load(keeper), migration.task

    heap: list[tuple[tuple[int, bool, float, float, Task], _Candidate]] = []
    for count, each in enumerate(candidates, 1):
        heappush(heap, (cost(each), each))
        if count % STEPS_BETWEEN_PAUSES == 0:
            yield None
    warm: dict[Task, str] = {}
    while heap and len(warm) < most:
        known, best = heap[0]
        # Loads only grow, so the first entry of the heap that is up to date is the least.
        if (now := cost(best)) != known:
            heapreplace(heap, (now, best))
            continue
        heappop(heap)
        warm[best.migration.task] = best.migration.target
        assert best.migration.process_id is not None
        extra[best.migration.process_id] += best.is_new
    return warm


def _growth_by_process(held: HeldTasks, members: Mapping[str, TaskMember], moving: Mapping[Task, str]) -> Pauses[dict[str, int]]:
    """Return how many more stateful tasks each process has after the tasks that move now."""
    growth = dict.fromkeys(held.capacities, 0)
    for count, (task, member_id) in enumerate(moving.items(), 1):
        if count % STEPS_BETWEEN_PAUSES == 0:
            yield None
        process_id, holder = members[member_id].process_id, held.active.get(task)
        if holder is not None:
            growth[members[holder].process_id] -= 1
        growth[process_id] += held.copy_in(process_id, task) is None
    return growth


class _Patch:
    """The tasks of one member, to change."""

    def __init__(self, tasks: TaskSets) -> None:
        self.active, self.standby, self.warmup = ({name: set(numbers) for name, numbers in each.items()} for each in tasks)

    def tasks(self) -> TaskSets:
        """Return the changed tasks."""
        return TaskSets(_frozen(self.active), _frozen(self.standby), _frozen(self.warmup))


def _frozen(tasks: Mapping[str, set[int]]) -> TaskIds:
    return {name: frozenset(tasks[name]) for name in sorted(tasks) if tasks[name]} or NO_TASK_IDS


def _patches(
    held: HeldTasks,
    members: Mapping[str, TaskMember],
    targets: Mapping[str, TaskSets],
    waiting: Iterable[Migration],
    warm: Mapping[Task, str],
    borrowed: set[Task],
) -> Pauses[Mapping[str, TaskSets]]:
    """Return the members whose targets change if waiting tasks are on their keepers, and with warm-up tasks.

    Standby tasks are withheld where the process keeps the active task, or where they replace a standby task that is needed longer.
    """
    patches: Patches = {}

    def patch(member_id: str) -> _Patch:
        if member_id not in patches:
            patches[member_id] = _Patch(targets.get(member_id, NO_TASKS))
        return patches[member_id]

    keepers: dict[Task, str] = {}
    for count, migration in enumerate(waiting, 1):
        if count % STEPS_BETWEEN_PAUSES == 0:
            yield None
        name, number = migration.task
        keepers[migration.task] = members[migration.keeper].process_id
        patch(migration.keeper).active.setdefault(name, set()).add(number)
        patch(migration.target).active.get(name, set()).discard(number)
        if migration.task in borrowed and migration.copy is not None:
            patch(migration.copy.member_id).standby.setdefault(name, set()).add(number)
    for (name, number), member_id in warm.items():
        patch(member_id).warmup.setdefault(name, set()).add(number)
    withheld = yield from _withheld_standbys(held, members, targets, keepers, borrowed)
    for task, member_id in withheld:
        patch(member_id).standby.get(task[0], set()).discard(task[1])
    changed: dict[str, TaskSets] = {}
    for count, (member_id, each) in enumerate(patches.items(), 1):
        changed[member_id] = each.tasks()
        if count % STEPS_BETWEEN_PAUSES == 0:
            yield None
    return changed


def _withheld_standbys(
    held: HeldTasks,
    members: Mapping[str, TaskMember],
    targets: Mapping[str, TaskSets],
    keepers: Mapping[Task, str],
    borrowed: set[Task],
) -> Pauses[list[tuple[Task, str]]]:
    """Return the standby tasks of the target assignment that must wait, each with its member."""
    withheld: list[tuple[Task, str]] = []
    replacing: dict[Task, str | None] = {}
    for count, member_id in enumerate(sorted(targets), 1):
        if count % STEPS_BETWEEN_PAUSES == 0:
            yield None
        for task in held.stateful(targets[member_id].standby):
            process_id = members[member_id].process_id if member_id in members else None
            if process_id is not None and process_id == keepers.get(task):
                withheld.append((task, member_id))
            if task not in borrowed:
                continue
            if process_id is None or process_id == keepers[task]:
                replacing[task] = None  # one standby task is missing already
            elif held.copy_in(process_id, task) is None:
                replacing.setdefault(task, member_id)
    withheld += [(task, member_id) for task, member_id in replacing.items() if member_id is not None]
    return withheld
