"""Warm-up tasks of streams groups: state is restored where a task will run, and the task moves once it has caught up."""

from __future__ import annotations

from ottla.coord.streams.states import StreamsGroupState
from tests.support.streams_house import Sent, StreamsHouse, source, tasks, topology

STATEFUL = topology(source(state_changelog_topics=[Sent.TopicInfo(name="log")]))
LAG = 10_000


def offset(partition: int, at: int) -> list[Sent.TaskOffset]:
    return [Sent.TaskOffset(subtopology_id="0", partition=partition, offset=at)]


def warming() -> StreamsHouse:
    """A group whose second member warms a task up that the first one runs."""
    house = StreamsHouse({"t": 2, "log": 2})
    house.join(sent=STATEFUL)
    told = house.join("bea", STATEFUL)
    assert tasks(told) == ({}, {}, {"0": [1]})
    assert (told.acceptable_recovery_lag, told.task_offset_interval_ms) == (LAG, 60_000)
    house.live("ada", owns={"0": [0, 1]})
    assert house.group.members["ada"].assigned.active["0"].keys() == {0, 1}
    return house


def test_a_task_with_state_stays_where_it_runs_until_its_warm_up_task_has_caught_up() -> None:
    house = warming()
    epoch = house.group.epoch
    house.live("bea", task_offsets=offset(1, 5), task_end_offsets=offset(1, LAG + 6))
    assert house.group.epoch == epoch, "one record too many is missing"
    house.live("bea", task_offsets=offset(1, 6))
    assert house.group.epoch == epoch + 1
    assert tasks(house.live("ada", owns={"0": [0, 1]}))[0] == {"0": [0]}
    house.live("ada", owns={"0": [0]})
    for _ in range(3):
        house.live("bea", active_tasks=[], standby_tasks=[], warmup_tasks=[])
    assert house.group.members["bea"].assigned.active["0"].keys() == {1}
    assert house.group.state.value == "Stable"
    assert not any(member.assigned.warmup for member in house.group.members.values())


def test_a_task_moves_at_once_if_warm_up_tasks_are_off_or_a_member_does_not_know_them() -> None:
    house = StreamsHouse({"t": 2, "log": 2})
    house.of_group = {"streams.num.warmup.replicas": 0}
    house.join(sent=STATEFUL)
    house.join("bea", STATEFUL)
    assert tasks(house.live("ada", owns={"0": [0, 1]}))[0] == {"0": [0]}
    house = StreamsHouse({"t": 2, "log": 2})
    house.version = 0
    house.join(sent=STATEFUL)
    house.version = 1
    house.join("bea", STATEFUL)
    assert tasks(house.live("ada", owns={"0": [0, 1]}))[0] == {"0": [0]}


def test_a_warm_up_task_goes_on_after_a_restart_and_ends_when_it_is_reported_anew() -> None:
    house = warming()
    epoch = house.group.epoch
    house.restart()
    assert house.group.epoch == epoch + 1, "the assignment of the moment is lost, and must be made again"
    assert house.group.members["bea"].assigned.warmup == {"0": {1}}
    house.live("ada", owns={"0": [0, 1]})
    house.live("bea", task_offsets=offset(1, 5), task_end_offsets=offset(1, 5))
    house.live("ada", owns={"0": [0, 1]})
    house.live("ada", owns={"0": [0]})
    for _ in range(3):
        house.live("bea", active_tasks=[], standby_tasks=[], warmup_tasks=[])
    assert house.group.members["bea"].assigned.active["0"].keys() == {1}
    assert house.group.state is StreamsGroupState.STABLE


def test_tasks_of_a_large_group_wait_for_warm_up_tasks_too() -> None:
    house = StreamsHouse({"t": 300, "log": 300})
    house.join(sent=STATEFUL)
    house.wait(1_000)
    house.live("ada")
    assert len(house.group.members["ada"].assigned.active["0"]) == 300
    house.join("bea", STATEFUL)
    assert house.group.assigning is not None, "the assignment takes long"
    weight = house.machine.weight
    house.wait(1_000)
    assert house.machine.weight > weight, "the tasks of the moment are counted"
    told = house.live("bea")
    warm = tasks(told)[2]["0"]
    assert (len(warm), tasks(told)[0]) == (2, {}), "at most two tasks warm up"
    house.live("ada", owns={"0": range(300)})
    assert len(house.group.members["ada"].assigned.active["0"]) == 300
    house.live("bea", task_offsets=offset(warm[0], 9), task_end_offsets=offset(warm[0], 9))
    house.wait(1_000)
    assert set(range(300)) - set(tasks(house.live("ada", owns={"0": range(300)}))[0]["0"]) == {warm[0]}


def test_after_a_restart_an_assignment_waits_for_heartbeats_of_members_that_can_warm_tasks_up() -> None:
    house = warming()
    house.restart()
    told = house.join("cer", STATEFUL)
    assert told.status is not None
    assert [each.status_code for each in told.status] == [5]
    assert tasks(told) == ({}, {}, {})
    house.live("bea")
    assert house.group.assignment_epoch < house.group.epoch
    house.live("ada", owns={"0": [0, 1]})
    assert house.group.assignment_epoch == house.group.epoch
    assert house.group.members["ada"].assigned.active["0"].keys() == {0, 1}, "its tasks wait for warm-up tasks"


def test_after_a_restart_an_assignment_waits_no_longer_than_two_heartbeats_and_not_for_members_without_warm_up_tasks() -> None:
    for version, waited_ms in ((1, 10_000), (0, 0)):
        house = warming()
        house.restart()
        house.wait(waited_ms)
        house.version = version
        house.join("cer", STATEFUL)
        assert house.group.assignment_epoch == house.group.epoch


def test_a_static_member_that_returns_during_a_long_assignment_leads_to_another_one() -> None:
    house = StreamsHouse({"t": 300, "log": 300})
    house.join(sent=STATEFUL, instance_id="i")
    house.wait(1_000)
    house.live("ada")
    house.join("bea", STATEFUL)
    house.leave("ada", epoch=-2, instance_id="i")
    house.join("cer", STATEFUL, instance_id="i", process_id="process-of-ada")
    house.wait(1_000)
    house.live("cer")
    house.wait(1_000)
    owned = [number for held in house.group.targets.values() for number in held.active["0"]]
    assert sorted(owned) == list(range(300))


def test_a_static_member_that_returns_keeps_the_task_that_another_warms_up() -> None:
    house = StreamsHouse({"t": 2, "log": 2})
    house.join(sent=STATEFUL, instance_id="i")
    house.join("bea", STATEFUL)
    house.leave("ada", epoch=-2, instance_id="i")
    for _ in range(2):  # also if the request comes twice
        told = house.join("cer", STATEFUL, instance_id="i", process_id="process-of-ada")
        assert tasks(told)[0] == {"0": [0, 1]}


def test_the_owner_of_a_task_that_leaves_gives_it_to_the_member_that_warms_it_up() -> None:
    house = warming()
    house.leave("ada")
    house.live("bea")
    for _ in range(2):
        house.live("bea", active_tasks=[], standby_tasks=[], warmup_tasks=[])
    assert house.group.members["bea"].assigned.active["0"].keys() == {0, 1}


def test_the_interval_between_assignments_counts_from_the_beginning_of_a_long_one() -> None:
    house = StreamsHouse({"t": 300, "log": 300}, group_streams_assignment_interval_ms=1_000)
    began_ms = house.now.wall_ms
    house.join(sent=STATEFUL)
    house.wait(500)
    assert house.group.assigning is None
    assert house.group.assignment_wall_ms == began_ms
