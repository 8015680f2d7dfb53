"""Streams groups under random interleavings of members, lies, lost replies, topics, time and restarts.

After every decision, nobody has an active task that another has, no process has a task twice, and epochs only rise. What members
run is compared, too: two may run a task only while one of them is out of the group and does not know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coord.streams.group import StreamsGroup
from ottla.coord.streams.holders import TaskHolders
from ottla.coord.streams.member import StreamsMember
from ottla.coord.streams.states import StreamsGroupState, StreamsMemberState
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.errors import NONE
from tests.scenarios.steps import Step, steps
from tests.support.streams_house import Sent, StreamsHouse, Told, listed, source, topology

CLIENTS = 5
PROCESSES = ("p", "p", "q", "q", "r")
"""Several members are threads of one process."""
INSTANCES = (None, None, None, "i", "j")
STORES = [Sent.TopicInfo(name="log")]
TOPOLOGY = topology(source("0", "t", state_changelog_topics=STORES), source("1", "u"))
VERBS = (
    *("beat",) * 8,
    *("join",) * 3,
    *("revoke",) * 4,
    "lie",
    "lose",
    "leave",
    "pause",
    "die",
    "wait",
    "wait long",
    "grow",
    "drop topic",
    "add topic",
    "standbys",
    "restart",
    "delete group",
)
Owned = dict[str, set[int]]


@dataclass
class Client:
    """What a member knows of itself: `runs` is what it owns by kind, and `told` what it shall own."""

    number: int
    epoch: int = 0
    runs: tuple[Owned, Owned, Owned] = field(default_factory=lambda: ({}, {}, {}))
    told: tuple[Owned, Owned, Owned] = field(default_factory=lambda: ({}, {}, {}))
    lives: int = 0

    @property
    def member_id(self) -> str:
        return f"m{self.number}.{self.lives}"

    def forget(self) -> None:
        """Be out of the group, without tasks."""
        self.epoch = 0
        self.runs = self.told = ({}, {}, {})

    def take(self, reply: Told) -> None:
        self.epoch = reply.member_epoch
        kinds = reply.active_tasks, reply.standby_tasks, reply.warmup_tasks
        if all(kind is not None for kind in kinds):
            active, standby, warmup = ({each.subtopology_id: set(each.partitions) for each in kind or ()} for kind in kinds)
            self.told = active, standby, warmup

    def reconcile(self) -> None:
        """Close what is no longer told, and run what is."""
        self.runs = self.told


class World:
    """A group `g` with its topics `t`, `log` and `u`, and the members of three processes."""

    def __init__(self, interval_ms: int = 0, delay_ms: int = 0) -> None:
        self.house = StreamsHouse(
            {"t": 3, "log": 3, "u": 2},
            group_streams_assignment_interval_ms=interval_ms,
            group_streams_initial_rebalance_delay_ms=delay_ms,
        )
        self.topics = {"t": 3, "log": 3, "u": 2}
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0

    def take(self, step: Step) -> None:
        verb, client, choice = step
        getattr(self, "do_" + verb.replace(" ", "_"))(self.clients[client], choice)
        self.check()

    @property
    def group(self) -> StreamsGroup | None:
        found = self.house.machine.context.find("g")
        assert found is None or isinstance(found, StreamsGroup)
        return found

    def do_join(self, client: Client, choice: int) -> None:
        client.forget()
        self._beat(client, joining=True)

    def do_beat(self, client: Client, choice: int) -> None:
        if client.epoch > 0:
            self._beat(client, says_owned=choice % 3 > 0)

    def do_revoke(self, client: Client, choice: int) -> None:
        client.reconcile()
        if client.epoch > 0:
            self._beat(client)

    def do_lie(self, client: Client, choice: int) -> None:
        before = self.group and self.group.members.get(client.member_id)
        told = self._ask(client, epoch=choice + 100)
        assert told.error_code
        assert before == (self.group and self.group.members.get(client.member_id)), "a refusal has changed something"

    def do_lose(self, client: Client, choice: int) -> None:
        if client.epoch > 0:
            self._ask(client, epoch=client.epoch)

    def do_leave(self, client: Client, choice: int) -> None:
        self._ask(client, epoch=-1, owns=False)
        client.forget()

    def do_pause(self, client: Client, choice: int) -> None:
        """Leave as a static member that returns under another id."""
        if INSTANCES[client.number] is not None and self._ask(client, epoch=-2, owns=False).error_code == NONE:
            client.lives += 1
        client.forget()

    def do_die(self, client: Client, choice: int) -> None:
        """End without a word, and be another member next time."""
        client.forget()
        client.lives += 1

    def do_wait(self, client: Client, choice: int) -> None:
        self.house.wait(choice * 300)

    def do_wait_long(self, client: Client, choice: int) -> None:
        self.house.wait(choice * 2_000)

    def do_grow(self, client: Client, choice: int) -> None:
        if self.topics.get("u", 9) < 5:
            self._change({"u": self.topics["u"] + 1})

    def do_drop_topic(self, client: Client, choice: int) -> None:
        name = ("t", "u", "log")[choice % 3]
        self.topics.pop(name, None)
        self.house.change_topics(gone=[name])

    def do_add_topic(self, client: Client, choice: int) -> None:
        self._change({name: count for name, count in {"t": 3, "log": 3, "u": 2}.items() if name not in self.topics})

    def _change(self, partitions: Mapping[str, int]) -> None:
        self.topics |= partitions
        self.house.change_topics(made=partitions)

    def do_standbys(self, client: Client, choice: int) -> None:
        self.house.of_group = {"streams.num.standby.replicas": choice % 3}

    def do_restart(self, client: Client, choice: int) -> None:
        before = {} if self.group is None else dict(self.group.members)
        self.house.restart()
        assert before == ({} if self.group is None else self.group.members), "a restart has changed members"

    def do_delete_group(self, client: Client, choice: int) -> None:
        self.house.ask(DeleteGroupsRequest(groups_names=["g"]))
        if self.group is None:
            self.epochs.clear()
            self.group_epoch = 0

    def _beat(self, client: Client, *, joining: bool = False, says_owned: bool = True) -> None:
        told = self._ask(client, epoch=0 if joining else client.epoch, owns=says_owned, joining=joining)
        if told.error_code:
            client.forget()
        else:
            client.take(told)
            for kind in range(3):  # what is new begins to run at once; what is told no longer runs until it was closed
                for name, partitions in client.told[kind].items():
                    if not any(partitions & client.runs[other].get(name, set()) for other in range(3) if other != kind):
                        client.runs[kind][name] = client.runs[kind].get(name, set()) | partitions

    def _ask(self, client: Client, *, epoch: int, owns: bool = True, joining: bool = False) -> Told:
        said: dict[str, Any] = {"instance_id": INSTANCES[client.number]}
        if joining:
            return self.house.join(client.member_id, TOPOLOGY, process_id=PROCESSES[client.number], **said)
        if owns:
            active, standby, warmup = client.runs
            said |= {"active_tasks": listed(active), "standby_tasks": listed(standby), "warmup_tasks": listed(warmup)}
        return self.house.live(client.member_id, epoch, **said)

    def check(self) -> None:
        group = self.group
        if group is None:
            return
        assert group.epoch >= self.group_epoch, "the group's epoch went back"
        assert group.assignment_epoch <= group.epoch
        self.group_epoch = group.epoch
        for member in group.members.values():
            assert member.epoch in (-2, 0) or member.epoch >= self.epochs.get(member.member_id, 0), "an epoch went back"
            assert member.epoch <= group.epoch
            self.epochs[member.member_id] = max(member.epoch, 0)
        check_holders(group)
        self.check_runs(group)

    def check_runs(self, group: StreamsGroup) -> None:
        """Two clients run an active task only while one of them is out and does not know it yet."""
        runners: dict[tuple[str, int], str] = {}
        for client in self.clients:
            member = group.members.get(client.member_id)
            if member is None or member.epoch < client.epoch or client.epoch <= 0:
                continue
            for name, partitions in client.runs[0].items():
                for partition in partitions:
                    assert member.given_at(name, partition) is not None, f"{client.member_id} runs {name}_{partition} unasked"
                    assert (name, partition) not in runners, f"{name}_{partition} is run twice"
                    runners[name, partition] = client.member_id

    def settle(self) -> None:
        """Let all who are in the group go on in peace, until nothing changes."""
        self.do_add_topic(self.clients[0], 0)
        for client in self.clients:
            if client.epoch == 0:
                self.do_join(client, 0)
        for _ in range(30):
            self.house.wait(4_000)
            for client in self.clients:
                if client.epoch == 0:
                    self.do_join(client, 0)
                self.do_revoke(client, 0)
                self.check()


def check_holders(group: StreamsGroup) -> None:
    """Each active task is of one member, each process has a task once, and the table of holders is right."""
    holders = TaskHolders()
    active: set[tuple[str, int]] = set()
    in_process: set[tuple[str, str, int]] = set()
    for member in group.members.values():
        for held in (member.assigned, member.revoking):
            holders.add(member.member_id, held)
            for task in places(held.active):
                assert task not in active, f"{task} is active twice"
                active.add(task)
            for kind in held.without_epochs():
                for task in places(kind):
                    assert (member.process_id, *task) not in in_process, f"{member.process_id} has {task} twice"
                    in_process.add((member.process_id, *task))
    assert holders.active == group.holders.active
    for own, kept in ((holders.standby, group.holders.standby), (holders.warmup, group.holders.warmup)):
        assert sets_of(own) == sets_of(kept)


def places(tasks: Mapping[str, Iterable[int]]) -> list[tuple[str, int]]:
    return [(name, partition) for name, partitions in tasks.items() for partition in partitions]


def sets_of(several: Any) -> dict[tuple[str, int], frozenset[str]]:
    return {(name, partition): frozenset(ids) for name, partitions in several.items() for partition, ids in partitions.items()}


@given(
    taken=steps(VERBS, CLIENTS),
    interval_ms=st.sampled_from((0, 1_000)),
    delay_ms=st.sampled_from((0, 3_000)),
)
@settings(max_examples=60, deadline=None)
def test_whatever_members_do_every_task_is_owned_once_and_all_settle(taken: list[Step], interval_ms: int, delay_ms: int) -> None:
    world = World(interval_ms, delay_ms)
    for step in taken:
        world.take(step)
    world.settle()
    group = world.group
    assert group is not None
    assert group.state is StreamsGroupState.STABLE, {member.member_id: member.state for member in group.members.values()}
    held = [task for member in group.members.values() for task in places(member.assigned.active)]
    wanted = [("0", partition) for partition in range(3)] + [("1", partition) for partition in range(world.topics["u"])]
    assert sorted(held) == wanted


def member_of(world: World, number: int) -> StreamsMember:
    assert world.group is not None
    return world.group.members[world.clients[number].member_id]


@pytest.mark.parametrize("standbys", [0, 1, 2])
def test_members_that_come_and_go_in_order_settle_at_once(standbys: int) -> None:
    world = World()
    world.do_standbys(world.clients[0], standbys)
    for number in (0, 2, 4):
        world.do_join(world.clients[number], 0)
        world.check()
    world.settle()
    assert all(member_of(world, number).state is StreamsMemberState.STABLE for number in (0, 2, 4))
