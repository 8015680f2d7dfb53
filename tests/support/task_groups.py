"""Streams groups of random shape as input of task assignors, and what is true of every assignment of their tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ottla.coord.consumer.assign import finish
from ottla.coord.streams.assign import TaskAssignor
from ottla.coord.streams.values import AssignmentConfigs, ConfiguredSubtopology, InternalTopic, Task, TaskIds, TaskMember, TaskSets

Members = dict[str, TaskMember]
Assigned = Mapping[str, TaskSets]
CHANGELOG = (InternalTopic("state-changelog", 1),)
ZONES = ("a", "b", "c")


class TaskGroup(NamedTuple):
    """The input of a task assignor."""

    members: Members
    topology: dict[str, ConfiguredSubtopology]
    configs: AssignmentConfigs = AssignmentConfigs()

    def with_targets(self, assigned: Assigned) -> TaskGroup:
        """The same group after an assignment was stored. A member that is not in it has none yet."""
        members = {name: member._replace(target=assigned.get(name, member.target)) for name, member in self.members.items()}
        return self._replace(members=members)

    def with_member(self, name: str, process_id: str) -> TaskGroup:
        return self._replace(members={**self.members, name: TaskMember(process_id)})

    def without_member(self, name: str) -> TaskGroup:
        return self._replace(members={each: member for each, member in self.members.items() if each != name})


def subtopology(tasks: int, *, is_stateful: bool = False) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(tasks, ("topic",), (), (), CHANGELOG if is_stateful else ())


def threads(*counts: int) -> Members:
    """Processes with so many members each, named p0, p1, …; their members are p0-0, p0-1, …"""
    return {f"p{process}-{thread}": TaskMember(f"p{process}") for process, count in enumerate(counts) for thread in range(count)}


@st.composite
def task_groups(draw: st.DrawFn, *, is_tagged: bool = False, most_replicas: int = 2) -> TaskGroup:
    members = threads(*draw(st.lists(st.integers(1, 3), min_size=1, max_size=6)))
    if is_tagged:
        zones = {process: draw(st.sampled_from(ZONES)) for process in {member.process_id for member in members.values()}}
        members = {name: each._replace(client_tags={"zone": zones[each.process_id]}) for name, each in members.items()}
    sizes = draw(st.lists(st.tuples(st.integers(1, 7), st.booleans()), min_size=1, max_size=4))
    topology = {str(number): subtopology(tasks, is_stateful=stateful) for number, (tasks, stateful) in enumerate(sizes)}
    configs = AssignmentConfigs(draw(st.integers(0, most_replicas)), ("zone",) if is_tagged else ())
    return TaskGroup(members, topology, configs)


def assign(assignor: TaskAssignor, group: TaskGroup) -> Assigned:
    return finish(assignor.assign_slowly(*group))


def each_task(tasks: TaskIds) -> list[Task]:
    return [(name, number) for name, numbers in tasks.items() for number in numbers]


def all_tasks(group: TaskGroup, *, only_stateful: bool = False) -> set[Task]:
    return {
        (name, number)
        for name, each in group.topology.items()
        if each.state_changelog_topics or not only_stateful
        for number in range(each.task_count)
    }


def owners(assigned: Assigned) -> dict[Task, str]:
    return {task: name for name, tasks in assigned.items() for task in each_task(tasks.active)}


def standbys(assigned: Assigned) -> set[tuple[Task, str]]:
    return {(task, name) for name, tasks in assigned.items() for task in each_task(tasks.standby)}


def moves(before: Assigned, after: Assigned) -> int:
    """The active tasks that changed their member."""
    old = owners(before)
    return sum(1 for task, name in owners(after).items() if old.get(task) != name)


def check_whole(group: TaskGroup, assigned: Assigned) -> None:
    """Every task is active on one member; a process has a task once; there are as many standby tasks as there can be."""
    assert assigned.keys() == group.members.keys()
    active = Counter(task for tasks in assigned.values() for task in each_task(tasks.active))
    assert active == Counter(all_tasks(group)), "every active task has one owner"
    copies = Counter((group.members[name].process_id, task) for task, name in standbys(assigned))
    copies.update((group.members[name].process_id, task) for task, name in owners(assigned).items())
    assert not [place for place, times in copies.items() if times > 1], "a process has a task twice"
    processes = len({member.process_id for member in group.members.values()})
    replicas = min(group.configs.num_standby_replicas, processes - 1)
    wanted = Counter(dict.fromkeys(all_tasks(group, only_stateful=True), replicas)) if replicas else Counter()
    assert Counter(task for task, _ in standbys(assigned)) == wanted, "stateful tasks have their standby tasks"


def loads(group: TaskGroup, assigned: Assigned, *, only_active: bool = True) -> dict[str, float]:
    """The tasks of each process for each of its members."""
    capacity = Counter(member.process_id for member in group.members.values())
    tasks: Counter[str] = Counter()
    for name, each in assigned.items():
        tasks[group.members[name].process_id] += len(each_task(each.active)) + (0 if only_active else len(each_task(each.standby)))
    return {process: tasks[process] / capacity[process] for process in capacity}


def unshrunk(test: Callable[..., Any]) -> Callable[..., Any]:
    """A test that ends at its first failing example: which one it is does not matter when the mistake is known."""
    handle = getattr(test, "hypothesis", None)
    if handle is None:
        return test
    again: Callable[..., Any] = given(**handle._given_kwargs)(handle.inner_test)
    return settings(phases=[Phase.generate], report_multiple_bugs=False)(again)
