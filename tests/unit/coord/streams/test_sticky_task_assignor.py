"""What the assignor `sticky` promises of every streams group, and what becomes of tasks when members come and go."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.consumer.assign import finish
from ottla.coord.streams.assign import diversity, sticky
from ottla.coord.streams.assign.built_in import STICKY
from ottla.coord.streams.assign.draft import StreamsProcess, TaskHolder, TaskQuota
from ottla.coord.streams.values import NO_TASKS, AssignmentConfigs, TaskMember, TaskSets
from tests.support.task_groups import (
    TaskGroup,
    all_tasks,
    assign,
    check_whole,
    each_task,
    loads,
    moves,
    owners,
    standbys,
    subtopology,
    task_groups,
    threads,
    unshrunk,
)

STATEFUL = {"0": subtopology(6, is_stateful=True)}


def settled(group: TaskGroup) -> TaskGroup:
    return group.with_targets(assign(STICKY, group))


def changes(data: st.DataObject, group: TaskGroup) -> TaskGroup:
    """A member more or a member less."""
    if len(group.members) == 1 or data.draw(st.booleans()):
        return group.with_member("late", data.draw(st.sampled_from(["p0", "p9"])))
    return group.without_member(data.draw(st.sampled_from(sorted(group.members))))


@pytest.mark.slow
@given(group=st.one_of(task_groups(), task_groups(is_tagged=True)), data=st.data())
def test_every_task_is_active_once_and_no_process_has_it_twice(group: TaskGroup, data: st.DataObject) -> None:
    check_whole(group, assign(STICKY, group))
    for _ in range(3):
        group = changes(data, settled(group))
        check_whole(group, assign(STICKY, group))


@pytest.mark.slow
@given(group=st.one_of(task_groups(), task_groups(is_tagged=True)), data=st.data())
def test_the_same_group_has_the_same_assignment_in_whatever_order_it_is_given(group: TaskGroup, data: st.DataObject) -> None:
    group = changes(data, settled(group))
    backwards = TaskGroup(dict(reversed(group.members.items())), dict(reversed(group.topology.items())), group.configs)
    assert assign(STICKY, group) == assign(STICKY, backwards)


@pytest.mark.slow
@given(group=task_groups())
def test_nothing_moves_when_nothing_changes_and_members_get_the_same_object_back(group: TaskGroup) -> None:
    group = settled(group)
    again = assign(STICKY, group)
    if NO_TASKS not in again.values():
        assert all(again[name] is member.target for name, member in group.members.items())
    assert moves(assign(STICKY, group), again) == 0


@pytest.mark.slow
@given(group=task_groups(most_replicas=0), data=st.data())
def test_members_have_equal_shares_of_the_stateful_tasks_and_of_all(group: TaskGroup, data: st.DataObject) -> None:
    stateful = all_tasks(group, only_stateful=True)
    for each in (group, changes(data, settled(group))):
        assigned = assign(STICKY, each)
        counts = [len(each_task(tasks.active)) for tasks in assigned.values()]
        assert max(counts) - min(counts) <= 1
        counts = [sum(task in stateful for task in each_task(tasks.active)) for tasks in assigned.values()]
        assert max(counts) - min(counts) <= 1


@pytest.mark.slow
@given(group=task_groups())
def test_processes_have_tasks_by_the_number_of_their_members(group: TaskGroup) -> None:
    found = loads(group, assign(STICKY, group))
    assert max(found.values()) - min(found.values()) <= 1


@pytest.mark.slow
@given(group=task_groups(most_replicas=0))
def test_a_member_that_joins_takes_no_more_than_its_share_and_nothing_else_moves(group: TaskGroup) -> None:
    group = settled(group).with_member("late", "p9")
    before = {name: member.target for name, member in group.members.items()}
    after = assign(STICKY, group)
    tasks = len(all_tasks(group))
    share = ceil(tasks / len(group.members))
    stateful = ceil(len(all_tasks(group, only_stateful=True)) / len(group.members))
    assert moves(before, after) <= 2 * max(share, stateful)
    if all(each.state_changelog_topics for each in group.topology.values()):
        assert moves(before, after) == len(each_task(after["late"].active)) <= share


@pytest.mark.slow
@given(group=task_groups(most_replicas=0), data=st.data(), is_stateful=st.booleans())
def test_only_the_tasks_of_a_member_that_leaves_move(group: TaskGroup, data: st.DataObject, is_stateful: bool) -> None:
    topology = {name: subtopology(each.task_count, is_stateful=is_stateful) for name, each in group.topology.items()}
    group = settled(group._replace(topology=topology))
    if len(group.members) == 1:
        return
    gone = data.draw(st.sampled_from(sorted(group.members)))
    before = {name: member.target for name, member in group.members.items()}
    assert moves(before, assign(STICKY, group.without_member(gone))) == len(each_task(before[gone].active))


def test_a_standby_task_becomes_active_when_its_owner_leaves() -> None:
    group = settled(TaskGroup(threads(1, 1, 1), STATEFUL, AssignmentConfigs(1)))
    lost = owners({"p0-0": group.members["p0-0"].target})
    backups = dict(standbys({name: each.target for name, each in group.members.items()}))
    after = owners(assign(STICKY, group.without_member("p0-0")))
    kept = [task for task in lost if after[task] == backups[task]]
    assert len(kept) >= len(lost) - 1, "but for equal shares, who has the state takes over"


def test_the_most_advanced_member_with_state_on_its_disk_gets_the_task() -> None:
    members = threads(1, 1, 1)
    members["p1-0"] = members["p1-0"]._replace(offsets={("0", 0): 90})
    members["p2-0"] = members["p2-0"]._replace(offsets={("0", 0): 100})
    assert owners(assign(STICKY, TaskGroup(members, {"0": subtopology(1, is_stateful=True)}))) == {("0", 0): "p2-0"}
    members["p0-0"] = members["p0-0"]._replace(target=TaskSets(standby={"0": frozenset({0})}))
    assert owners(assign(STICKY, TaskGroup(members, {"0": subtopology(1, is_stateful=True)}))) == {("0", 0): "p0-0"}


def test_a_warmup_task_becomes_the_active_task() -> None:
    members = threads(1, 1)
    members["p1-0"] = members["p1-0"]._replace(target=TaskSets(warmup={"0": frozenset({0})}))
    assert owners(assign(STICKY, TaskGroup(members, {"0": subtopology(1, is_stateful=True)}))) == {("0", 0): "p1-0"}


def test_a_process_with_more_threads_gets_more_tasks() -> None:
    assigned = assign(STICKY, TaskGroup(threads(1, 3), {"0": subtopology(8)}))
    assert loads(TaskGroup(threads(1, 3), {}), assigned) == {"p0": 2.0, "p1": 2.0}


def test_equal_partitions_of_two_subtopologies_are_ranges() -> None:
    assigned = assign(STICKY, TaskGroup(threads(1, 1), {"0": subtopology(4), "1": subtopology(4)}))
    assert [sorted(map(len, tasks.active.values())) for tasks in assigned.values()] == [[2, 2], [2, 2]]


def test_standby_tasks_are_in_another_zone() -> None:
    zones = {"p0": "a", "p1": "b", "p2": "b", "p3": "a"}
    members = {name: each._replace(client_tags={"zone": zones[each.process_id]}) for name, each in threads(1, 1, 1, 1).items()}
    group = TaskGroup(members, {"0": subtopology(4, is_stateful=True)}, AssignmentConfigs(1, ("zone",)))
    assigned = assign(STICKY, group)
    check_whole(group, assigned)
    active = owners(assigned)
    assert all(members[name].client_tags != members[active[task]].client_tags for task, name in standbys(assigned))


def test_the_first_tag_counts_more_than_the_second() -> None:
    places = {"p0": ("c1", "z1"), "p1": ("c1", "z2"), "p2": ("c2", "z1"), "p3": ("c2", "z2")}
    members = {
        name: each._replace(client_tags=dict(zip(("cluster", "zone"), places[each.process_id], strict=True)))
        for name, each in threads(1, 1, 1, 1).items()
    }
    members["p0-0"] = members["p0-0"]._replace(target=TaskSets({"0": frozenset({0})}))
    one = {"0": subtopology(1, is_stateful=True)}
    assert [name for _, name in standbys(assign(STICKY, TaskGroup(members, one, AssignmentConfigs(1, ("cluster", "zone")))))] == [
        "p3-0"
    ]
    del members["p3-0"]
    for tags, chosen in ((("cluster", "zone"), "p2-0"), (("zone", "cluster"), "p1-0")):
        assigned = assign(STICKY, TaskGroup(members, one, AssignmentConfigs(1, tags)))
        assert [name for _, name in standbys(assigned)] == [chosen]


def test_racks_count_where_the_group_has_no_tags() -> None:
    members = {name: each._replace(rack_id="r" + name[1]) for name, each in threads(1, 1).items()}
    members |= {name.replace("p", "q"): each._replace(process_id="q" + name[1]) for name, each in members.items()}
    group = TaskGroup(members, {"0": subtopology(4, is_stateful=True)}, AssignmentConfigs(1))
    assigned = assign(STICKY, group)
    active = owners(assigned)
    assert len(standbys(assigned)) == len(active) == 4
    assert all(members[name].rack_id != members[active[task]].rack_id for task, name in standbys(assigned))


def test_without_a_second_process_there_is_no_standby_task(caplog: pytest.LogCaptureFixture) -> None:
    assigned = assign(STICKY, TaskGroup(threads(3), STATEFUL, AssignmentConfigs(1)))
    assert not standbys(assigned)
    assert "6 standby tasks have no process: start more instances" in caplog.text


def test_a_group_without_members_has_no_assignment() -> None:
    assert assign(STICKY, TaskGroup({}, STATEFUL)) == {}


def test_a_thousand_members_and_tasks_take_many_small_steps() -> None:
    group = TaskGroup(threads(*[4] * 250), {"0": subtopology(1000, is_stateful=True)}, AssignmentConfigs(1))
    assert sum(1 for _ in STICKY.assign_slowly(*group)) >= 20
    check_whole(group, assign(STICKY, group))


def test_a_single_member_has_everything() -> None:
    group = TaskGroup(threads(1), {"0": subtopology(500), "long" * 60: subtopology(500, is_stateful=True)}, AssignmentConfigs(2))
    assigned = assign(STICKY, group)
    assert len(owners(assigned)) == 1000
    assert assign(STICKY, group.with_targets(assigned))["p0-0"] is assigned["p0-0"]


def test_tasks_that_no_longer_exist_are_forgotten() -> None:
    members = {"p0-0": TaskMember("p0", target=TaskSets({"gone": frozenset({0}), "0": frozenset({0, 9})}))}
    assert assign(STICKY, TaskGroup(members, {"0": subtopology(1)}))["p0-0"] == TaskSets({"0": frozenset({0})})


def _add_anywhere(self: TaskHolder, task: tuple[str, int], *, is_active: bool, is_stateful: bool = True) -> None:
    self.count += 1
    (self.active if is_active else self.standby).setdefault(task[0], set()).add(task[1])


MISTAKES: list[tuple[str, object, str, object, Callable[..., object]]] = [
    ("processes forget their tasks", TaskHolder, "add", _add_anywhere, test_every_task_is_active_once_and_no_process_has_it_twice),
    (
        "shares are never reached",
        TaskQuota,
        "count",
        lambda self, holder: None,
        test_members_have_equal_shares_of_the_stateful_tasks_and_of_all,
    ),
    (
        "former members are not found",
        sticky,
        "_former_tasks",
        lambda member, holder: iter(()),
        test_only_the_tasks_of_a_member_that_leaves_move,
    ),
    (
        "the first member gets all",
        StreamsProcess,
        "least_loaded",
        lambda self: self.holders[0],
        test_members_have_equal_shares_of_the_stateful_tasks_and_of_all,
    ),
    (
        "the last state on disk wins",
        sticky,
        "_least_loaded_former",
        lambda formers, quota: ([None, *(each.holder for each in formers)])[-1],
        test_the_most_advanced_member_with_state_on_its_disk_gets_the_task,
    ),
    (
        "zones are not told apart",
        diversity.DiverseProcesses,
        "use",
        lambda self, process: None,
        test_standby_tasks_are_in_another_zone,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("owner", "name", "wrong", "test"), [each[1:] for each in MISTAKES], ids=[each[0] for each in MISTAKES])
def test_a_planted_mistake_is_found(
    owner: object, name: str, wrong: object, test: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises((AssertionError, KeyError, TypeError, AttributeError)):
        unshrunk(test)()


def test_a_long_assignment_can_be_interrupted_and_finished() -> None:
    group = TaskGroup(threads(*[1] * 40), {"0": subtopology(400, is_stateful=True)}, AssignmentConfigs(2))
    work = STICKY.assign_slowly(*group)
    for _ in range(3):
        next(work)
    other = assign(STICKY, group)
    assert finish(work) == other
