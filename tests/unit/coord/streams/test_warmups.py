"""Stateful tasks move once their state is near: what waits, what warms up, and that every migration ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.consumer.assign import finish
from ottla.coord.streams.assign import migrations, warmups
from ottla.coord.streams.assign.built_in import STICKY
from ottla.coord.streams.assign.migrations import UNKNOWN_OFFSET, HeldTasks
from ottla.coord.streams.values import AssignmentConfigs, ConfiguredSubtopology, Task, TaskMember, TaskSets
from ottla.ports import Pauses
from tests.support.task_groups import (
    Assigned,
    Members,
    TaskGroup,
    all_tasks,
    assign,
    each_task,
    owners,
    standbys,
    subtopology,
    task_groups,
    threads,
    unshrunk,
)

T = TypeVar("T")
ONE = {"0": subtopology(1, is_stateful=True)}
TWO = {"0": subtopology(2, is_stateful=True)}
TASK: Task = ("0", 0)
END = 100_000


def holding(members: Members, **held: TaskSets) -> Members:
    """Members with their present tasks; an underscore in a name stands for a dash."""
    return {name: each._replace(assigned=held.get(name.replace("-", "_"), TaskSets())) for name, each in members.items()}


def tasks_of(*numbers: int) -> dict[str, frozenset[int]]:
    return {"0": frozenset(numbers)} if numbers else {}


def active(*numbers: int) -> TaskSets:
    return TaskSets(tasks_of(*numbers))


def with_offset(member: TaskMember, offset: int, end: int = END, task: Task = TASK) -> TaskMember:
    return member._replace(offsets={**member.offsets, task: offset}, end_offsets={**member.end_offsets, task: end})


def moving(most: int = 2) -> TaskGroup:
    """One task, on p0, whose target is p1."""
    return TaskGroup(holding(threads(1, 1), p0_0=active(0)), ONE, AssignmentConfigs(num_warmup_replicas=most))


TO_P1 = {"p0-0": TaskSets(), "p1-0": active(0)}


def refine(
    members: Members, targets: Assigned, topology: Mapping[str, ConfiguredSubtopology], configs: AssignmentConfigs
) -> Assigned:
    """The assignment of the moment; the target assignment itself if nothing differs."""
    patches = finish(warmups.refine(members, targets, topology, configs))
    return {**targets, **patches} if patches else targets


def refined(group: TaskGroup, targets: Assigned) -> Assigned:
    return refine(group.members, targets, group.topology, group.configs)


def test_a_task_that_moves_stays_where_it_is_processed_while_its_target_warms_up() -> None:
    assert refined(moving(), TO_P1) == {"p0-0": active(0), "p1-0": TaskSets(warmup=tasks_of(0))}


def test_a_warm_task_moves() -> None:
    group = moving()
    warm = with_offset(group.members["p1-0"]._replace(assigned=TaskSets(warmup=tasks_of(0))), END - 10_000)
    assert refined(group._replace(members={**group.members, "p1-0": warm}), TO_P1) == TO_P1


@pytest.mark.parametrize("offset", [0, END - 10_001, UNKNOWN_OFFSET], ids=["nothing", "too-little", "unknown"])
def test_a_task_that_is_not_warm_yet_keeps_its_warmup_task(offset: int) -> None:
    group = moving()
    cold = with_offset(group.members["p1-0"]._replace(assigned=TaskSets(warmup=tasks_of(0))), offset)
    assert refined(group._replace(members={**group.members, "p1-0": cold}), TO_P1)["p1-0"] == TaskSets(warmup=tasks_of(0))


def test_without_warmup_tasks_everything_moves_at_once() -> None:
    assert refined(moving(0), TO_P1) is TO_P1


def test_a_stateless_task_moves_at_once() -> None:
    group = moving()._replace(topology={"0": subtopology(1)})
    assert refined(group, TO_P1) is TO_P1


def test_a_task_moves_at_once_between_threads_of_a_process() -> None:
    members = holding(threads(2), p0_0=active(0))
    targets = {"p0-0": TaskSets(), "p0-1": active(0)}
    assert refine(members, targets, ONE, AssignmentConfigs()) is targets


def test_a_task_that_nobody_has_moves_at_once() -> None:
    assert refine(threads(1, 1), TO_P1, ONE, AssignmentConfigs()) is TO_P1


def test_a_caught_up_standby_task_is_promoted_until_the_target_is_warm() -> None:
    members = holding(threads(1, 1), p0_0=TaskSets(standby=tasks_of(0)))
    members["p0-0"] = with_offset(members["p0-0"], END)
    assert refine(members, TO_P1, ONE, AssignmentConfigs()) == {"p0-0": active(0), "p1-0": TaskSets(warmup=tasks_of(0))}


def test_a_target_with_the_state_on_its_disk_gets_the_task_before_a_standby_task() -> None:
    members = holding(threads(1, 1), p0_0=TaskSets(standby=tasks_of(0)))
    members = {name: with_offset(each, END) for name, each in members.items()}
    assert refine(members, TO_P1, ONE, AssignmentConfigs()) is TO_P1


def test_a_member_that_restores_the_task_itself_gives_it_to_its_target() -> None:
    group = moving()
    members = {**group.members, "p0-0": with_offset(group.members["p0-0"], 5)}
    assert refined(group._replace(members=members), TO_P1) is TO_P1


def test_a_task_whose_target_has_left_stays() -> None:
    members = {"p0-0": moving().members["p0-0"]}
    assert refine(members, TO_P1, ONE, AssignmentConfigs())["p0-0"] == active(0)


def test_a_standby_task_of_the_target_needs_no_warmup_task() -> None:
    members = holding(threads(1, 1), p0_0=active(0), p1_0=TaskSets(standby=tasks_of(0)))
    targets = {"p0-0": TaskSets(standby=tasks_of(0)), "p1-0": active(0)}
    assert refine(members, targets, ONE, AssignmentConfigs(1, num_warmup_replicas=1)) == {
        "p0-0": active(0),
        "p1-0": TaskSets(standby=tasks_of(0)),
    }


def test_no_more_tasks_warm_up_than_permitted_and_those_in_progress_stay() -> None:
    members = holding(threads(1, 1), p0_0=active(0, 1), p1_0=TaskSets(warmup=tasks_of(1)))
    targets = {"p0-0": TaskSets(), "p1-0": active(0, 1)}
    assert refine(members, targets, TWO, AssignmentConfigs(num_warmup_replicas=1)) == {
        "p0-0": active(0, 1),
        "p1-0": TaskSets(warmup=tasks_of(1)),
    }


def test_warmup_tasks_are_spread_over_processes() -> None:
    four = {"0": subtopology(4, is_stateful=True)}
    members = holding(threads(1, 1, 1), p0_0=active(0, 1, 2, 3))
    targets = {"p0-0": TaskSets(), "p1-0": active(0, 1), "p2-0": active(2, 3)}
    found = refine(members, targets, four, AssignmentConfigs(num_warmup_replicas=2))
    assert [len(each_task(found[name].warmup)) for name in ("p1-0", "p2-0")] == [1, 1]


def test_a_member_that_restores_an_active_task_warms_up_last() -> None:
    members = holding(threads(1, 1, 1), p0_0=active(0, 1), p1_0=active(2), p2_0=active(3, 4))
    members["p1-0"] = with_offset(members["p1-0"], 5, task=("0", 2))
    five = {"0": subtopology(5, is_stateful=True)}
    targets = {"p0-0": TaskSets(), "p1-0": active(0, 2), "p2-0": active(1, 3, 4)}
    found = refine(members, targets, five, AssignmentConfigs(num_warmup_replicas=1))
    assert found["p2-0"].warmup == tasks_of(1)
    assert not found["p1-0"].warmup


class Restoring:
    """Members that do what they are told, and restore a part of each copy in each round."""

    def __init__(self, group: TaskGroup, step: int) -> None:
        self.group, self._step = group, step

    def obey(self, assigned: Assigned) -> None:
        self.group = self.group._replace(
            members={name: self._moved(each, assigned[name]) for name, each in self.group.members.items()}
        )

    def _moved(self, member: TaskMember, tasks: TaskSets) -> TaskMember:
        stateful = all_tasks(self.group, only_stateful=True)
        copies = {task for task in (*each_task(tasks.standby), *each_task(tasks.warmup)) if task in stateful}
        processed = {task for task in each_task(tasks.active) if task in stateful and task in self._warm(member)}
        restored = {*copies, *(task for task in each_task(tasks.active) if task in stateful)} - processed
        offsets = {task: min(END, member.offsets.get(task, -self._step) + self._step) for task in sorted(restored)}
        return member._replace(assigned=tasks, offsets=offsets, end_offsets=dict.fromkeys(offsets, END))

    def _warm(self, member: TaskMember) -> set[Task]:
        had = set(each_task(member.assigned.active)) - member.offsets.keys()
        return had | {task for task, offset in member.offsets.items() if offset == END}


@pytest.mark.slow
@given(group=task_groups(), most=st.integers(1, 3), step=st.sampled_from([END // 3, END]), data=st.data())
def test_every_migration_ends_and_no_task_is_without_an_owner_or_twice_in_a_process(
    group: TaskGroup, most: int, step: int, data: st.DataObject
) -> None:
    group = group._replace(configs=group.configs._replace(num_warmup_replicas=most))
    world = Restoring(group.with_targets(assign(STICKY, group)), step)
    for _ in range(6):  # until all is restored
        world.obey({name: member.target for name, member in world.group.members.items()})
    for name in data.draw(st.lists(st.sampled_from(["late", "later", "p0-0", "p1-0"]), min_size=1, max_size=3)):
        if name.startswith("p") and name in world.group.members and len(world.group.members) > 1:
            world.group = world.group.without_member(name)
        elif not name.startswith("p"):
            world.group = world.group.with_member(name, f"process-{name}")
    targets = assign(STICKY, world.group)
    world.group = world.group.with_targets(targets)
    for _ in range(3 * len(all_tasks(group)) * 6 + 10):
        found = refined(world.group, targets)
        check_step(world.group, found, most)
        world.obey(found)
        if found is targets:
            break
    assert refined(world.group, targets) is targets, "all migrations have ended"


def check_step(group: TaskGroup, found: Assigned, most: int) -> None:
    assert Counter(task for each in found.values() for task in each_task(each.active)) == Counter(all_tasks(group))
    warm = [(task, name) for name, each in found.items() for task in each_task(each.warmup)]
    assert len(warm) <= most
    places = Counter((group.members[name].process_id, task) for task, name in [*standbys(found), *warm])
    places.update((group.members[name].process_id, task) for task, name in owners(found).items())
    assert max(places.values(), default=0) <= 1, "a process has a task twice"


def immediately(value: T) -> Pauses[T]:
    yield from ()
    return value


MISTAKES: list[tuple[str, object, str, object, Callable[..., object]]] = [
    (
        "cold tasks move",
        HeldTasks,
        "is_hot",
        lambda self, member_id, task: False,
        test_a_task_that_moves_stays_where_it_is_processed_while_its_target_warms_up,
    ),
    (
        "lag is not looked at",
        HeldTasks,
        "_is_caught_up",
        lambda self, member, task: True,
        test_a_task_that_is_not_warm_yet_keeps_its_warmup_task,
    ),
    (
        "nothing catches up",
        HeldTasks,
        "_is_caught_up",
        lambda self, member, task: False,
        test_every_migration_ends_and_no_task_is_without_an_owner_or_twice_in_a_process,
    ),
    (
        "standby tasks are not withheld",
        warmups,
        "_withheld_standbys",
        lambda *ignored: immediately([]),
        test_every_migration_ends_and_no_task_is_without_an_owner_or_twice_in_a_process,
    ),
    (
        "state on disk is not noticed",
        HeldTasks,
        "has_on_disk",
        lambda self, process_id, task: False,
        test_a_target_with_the_state_on_its_disk_gets_the_task_before_a_standby_task,
    ),
    (
        "restoring members are not noticed",
        warmups,
        "_restoring_members",
        lambda *ignored: immediately(set()),
        test_a_member_that_restores_an_active_task_warms_up_last,
    ),
    ("tasks lose their keepers", migrations, "_keeper", lambda *ignored: None, test_a_task_whose_target_has_left_stays),
]


@pytest.mark.slow
@pytest.mark.parametrize(("owner", "name", "wrong", "test"), [each[1:] for each in MISTAKES], ids=[each[0] for each in MISTAKES])
def test_a_planted_mistake_is_found(
    owner: object, name: str, wrong: object, test: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    arguments = {"offset": 0} if test is test_a_task_that_is_not_warm_yet_keeps_its_warmup_task else {}
    with pytest.raises((AssertionError, KeyError, TypeError, AttributeError)):
        unshrunk(test)(**arguments)
