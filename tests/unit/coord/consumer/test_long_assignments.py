"""A large group is assigned bit by bit, while it goes on and others have their turn; small groups are assigned at once."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Hashable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from ottla.coord.consumer import slow_target, target
from ottla.coord.consumer.assign import Subscriber, TopicShape, draft, uneven, uniform
from ottla.coord.consumer.assign import range as ranges
from ottla.coord.consumer.assign.uniform import UniformAssignor
from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.consumer.group import ConsumerGroup
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.group_machine import GroupMachine
from ottla.coord.outcome import TopicsChanged
from ottla.coord.runtime.machine import Due, Input, Outcome
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.errors import NONE, UNKNOWN_MEMBER_ID
from tests.scenarios.consumer_words import heartbeat, topic, topic_id
from tests.scenarios.stage import Stage

MEMBERS, PARTITIONS = 4_000, 4_000
MOST_CALLS = 10_000
"""In one step: about two milliseconds of work."""

SELDOM = GroupSettings(group_consumer_assignment_interval_ms=1 << 40)
ALWAYS = replace(SELDOM, group_consumer_assignment_interval_ms=0)


class Crowd:
    """A machine with a group of thousands, which counts the calls of Python and C in each of its steps."""

    def __init__(self, assignor: str, topics: int) -> None:
        self.machine = GroupMachine(SELDOM, lambda: "nobody")
        self.names = [f"t{number}" for number in range(topics)]
        known = KnownTopics([topic(name, PARTITIONS // topics) for name in self.names])
        self.machine.apply(TopicsSeen(known, frozenset(), new=False))
        self.assignor = assignor
        self.timers: list[tuple[int, int, Hashable]] = []
        self.heard: dict[int, Any] = {}
        self.calls: list[int] = []
        for number in range(MEMBERS):
            self.carry_out(self.machine.decide(self.join(number), Now(1_000, 1_000)))
        self.finish()
        self.calls.clear()
        self.machine.configure(ALWAYS)

    def join(self, number: int) -> Input[ConsumerGroupHeartbeatRequest]:
        body = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=f"m{number:05}",
            member_epoch=0,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=self.names[number % len(self.names) :],
            topic_partitions=[],
            server_assignor=self.assignor,
        )
        return Input(body, 1, "c", "/127.0.0.1", number)

    def carry_out(self, outcome: Outcome[Any]) -> None:
        for record in outcome.records:
            self.machine.encode(record)
            self.machine.apply(record)
        for timer in outcome.timers:
            if timer.deadline_ms is not None and timer.deadline_ms < 5_000:
                heapq.heappush(self.timers, (timer.deadline_ms, len(self.calls), timer.key))
        self.heard.update((reply.token, reply.message) for reply in outcome.replies)

    def finish(self) -> None:
        while self.timers:
            self.step(Input(Due(heapq.heappop(self.timers)[2])))

    def step(self, asked: Input[Any]) -> None:
        calls = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            self.carry_out(self.machine.decide(asked, Now(2_000, 2_000)))
        finally:
            sys.setprofile(None)
        self.calls.append(calls)


@pytest.mark.slow
@pytest.mark.parametrize(("assignor", "topics"), [("uniform", 1), ("uniform", 4), ("range", 1)])
def test_no_step_looks_at_all_of_a_large_group(assignor: str, topics: int) -> None:
    crowd = Crowd(assignor, topics)
    crowd.step(crowd.join(MEMBERS))
    crowd.finish()
    assert len(crowd.calls) > 20
    assert max(crowd.calls) < MOST_CALLS
    reply = crowd.heard[MEMBERS]
    group = crowd.machine.consumers.groups["g"]
    assert (reply.error_code, reply.member_epoch) == (NONE, group.epoch)
    assert group.assignment_epoch == group.epoch
    given = [(of, number) for held in group.targets.values() for of, numbers in held.items() for number in numbers]
    assert len(given) == len(set(given)) == PARTITIONS


class World:
    """A small group that is thought to be large, and makes the smallest steps."""

    def __init__(self) -> None:
        self.stage = Stage(replace(GroupSettings(), group_consumer_assignment_interval_ms=0))
        self.topics = KnownTopics([topic("a", 4)])
        self.stage.tell(TopicsChanged(self.topics, frozenset(("a",)), True))
        self.epochs: dict[str, int] = {}

    def ask(self, member_id: str, instance_id: str | None = None, epoch: int | None = None, **options: str) -> int:
        """A heartbeat; the answer is its token. Members give up what they have to."""
        epoch = self.epochs.get(member_id, 0) if epoch is None else epoch
        identity = {"member_id": member_id, "group_instance_id": instance_id}
        said = {"topics": "a", "owns": ""} if epoch == 0 else {"owns": ""}
        return self.stage.ask(heartbeat({**said, **options}, "g", identity, epoch, 30_000 if epoch == 0 else -1), 1, "c")

    def hear(self, token: int, member_id: str) -> set[int] | None:
        """The partitions that it is told."""
        reply = self.stage.heard.pop(token)
        assert reply.error_code == NONE, reply
        self.epochs[member_id] = reply.member_epoch
        if reply.assignment is None:
            return None
        return {number for held in reply.assignment.topic_partitions for number in held.partitions}

    def live(self, member_id: str, instance_id: str | None = None) -> set[int] | None:
        token = self.ask(member_id, instance_id)
        self.stage.wait(1_000)
        return self.hear(token, member_id)

    def settle(self, *member_ids: str) -> dict[str, frozenset[int]]:
        for _ in range(4):
            for member_id in member_ids:
                self.live(member_id)
        return {member_id: frozenset(self.group.members[member_id].assigned.get(topic_id("a"), ())) for member_id in member_ids}

    @property
    def group(self) -> ConsumerGroup:
        return self.stage.machine.consumers.groups["g"]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(target, "MOST_AT_ONCE", -1)
    monkeypatch.setattr(slow_target, "STORED_AT_ONCE", 1)
    for module in (target, draft, ranges, uneven, uniform):
        monkeypatch.setattr(module, "BETWEEN_PAUSES", 1)
    return World()


def test_who_calls_for_the_assignment_hears_it_in_the_same_answer(world: World) -> None:
    token = world.ask("ada")
    assert token in world.stage.waiting
    assert world.group.assigning == token
    world.stage.wait(1_000)
    assert world.hear(token, "ada") == {0, 1, 2, 3}
    assert world.group.assigning is None


def test_others_do_not_wait_for_it(world: World) -> None:
    world.live("ada")
    first = world.ask("bea")
    assert world.hear(world.ask("ada"), "ada") is None
    second = world.ask("cleo")
    assert world.hear(second, "cleo") == set(), "one assignment at a time"
    world.stage.wait(1_000)
    world.hear(first, "bea")
    assert {len(held) for held in world.settle("ada", "bea", "cleo").values()} == {1, 2}


def test_members_that_leave_meanwhile_get_nothing_and_the_others_get_what_is_theirs(world: World) -> None:
    world.settle("ada", "bea")
    token = world.ask("cleo")
    world.ask("bea", epoch=-1)
    world.stage.wait(1_000)
    world.hear(token, "cleo")
    assert "bea" not in world.group.targets
    assert set(world.settle("ada", "cleo").values()) == {frozenset(half) for half in _halves(world, "ada")}


def _halves(world: World, member_id: str) -> tuple[set[int], set[int]]:
    held = set(world.group.members[member_id].assigned[topic_id("a")])
    assert len(held) == 2
    return held, {0, 1, 2, 3} - held


def test_who_called_for_it_and_left_is_told_so(world: World) -> None:
    world.live("ada")
    token = world.ask("bea")
    world.ask("bea", epoch=-1)
    world.stage.wait(1_000)
    assert world.stage.heard[token].error_code == UNKNOWN_MEMBER_ID
    assert world.settle("ada") == {"ada": {0, 1, 2, 3}}


def test_a_static_member_that_is_replaced_meanwhile_passes_its_target_on(world: World) -> None:
    world.live("ada-1", "ada")
    token = world.ask("bea")
    world.ask("ada-1", "ada", epoch=-2)
    assert world.hear(world.ask("ada-2", "ada"), "ada-2") is not None
    world.stage.wait(1_000)
    world.hear(token, "bea")
    for _ in range(3):
        world.live("ada-2", "ada")
        world.live("bea")
    assert {len(member.assigned[topic_id("a")]) for member in world.group.members.values()} == {2}


def test_a_group_that_goes_meanwhile_and_comes_again_has_nothing_of_it(world: World) -> None:
    token = world.ask("ada")
    world.ask("ada", epoch=-1)
    assert not world.group.members
    second = world.ask("bea")
    world.stage.wait(1_000)
    assert world.stage.heard[token].error_code == UNKNOWN_MEMBER_ID
    world.hear(second, "bea")
    assert world.settle("bea") == {"bea": {0, 1, 2, 3}}


@pytest.mark.parametrize("ms", range(0, 40, 4))
def test_a_restart_in_the_middle_begins_anew(world: World, ms: int) -> None:
    world.settle("ada", "bea")
    world.ask("cleo")
    world.stage.wait(ms)
    world.stage.restart()
    assert world.group.assigning is None
    world.epochs["cleo"] = 0
    held = world.settle("ada", "bea", "cleo").values()
    assert sorted(number for numbers in held for number in numbers) == [0, 1, 2, 3]
    assert world.group.assignment_epoch == world.group.epoch


def test_a_small_group_is_assigned_at_once() -> None:
    world = World()
    assert world.hear(world.ask("ada"), "ada") == {0, 1, 2, 3}
    assert not any(type(key).__name__ == "AssignmentKey" for key in world.stage.timers)


def test_what_pauses_comes_to_the_same_as_what_does_not() -> None:
    subscribers = {f"m{number}": Subscriber(frozenset((b"%d" % (number % 3), b"9"))) for number in range(50)}
    topics = {name: TopicShape(300) for name in (b"0", b"1", b"2", b"9")}
    work = UniformAssignor().assign_slowly(subscribers, topics)
    pauses = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            found = end.value
            break
        pauses += 1
    assert found == UniformAssignor().assign(subscribers, topics)
    assert pauses > 10
