"""Share groups under random interleavings of members, lies, lost replies, topics, administrators, time and restarts.

The stage checks its invariants after every decision. A toy of the share coordinator executes orders, late or in vain, and knows
which share partitions have state.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coord.outcome import ExpiryKey
from ottla.coord.share.events import (
    AlteringShares,
    DeleteShares,
    DeletingShares,
    InitializeShares,
    SharesDeleted,
    SharesInitialized,
    ShareStateDeletion,
    StatePlace,
)
from ottla.wire.api.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from ottla.wire.api.share_group_describe import ShareGroupDescribeRequest
from ottla.wire.errors import COORDINATOR_NOT_AVAILABLE, NONE
from tests.scenarios.steps import Step, steps
from tests.support.share_stage import ShareStage

CLIENTS = 5
TOPICS = (("t",), ("u",), ("t", "u"), ("t", "u", "nowhere"))
VERBS = (
    *("beat",) * 6,
    *("join",) * 3,
    "lie",
    "lose",
    "leave",
    "wait",
    "wait long",
    *("persist",) * 3,
    "fail",
    "add",
    "delete topic",
    "restart",
    "alter",
    "delete offsets",
    "delete group",
)
Alter = AlterShareGroupOffsetsRequest
Delete = DeleteShareGroupOffsetsRequest


class World:
    """A group `g`, its members, and the states of its share partitions."""

    def __init__(self, interval_ms: int = 0, max_size: int = 200) -> None:
        self.stage = ShareStage(group_share_assignment_interval_ms=interval_ms, group_share_max_size=max_size)
        self.stage.create(t=2, u=3)
        self.epochs = dict.fromkeys(range(CLIENTS), 0)
        self.states: set[tuple[bytes, int]] = set()

    def take(self, step: Step) -> None:
        verb, client, choice = step
        getattr(self, "do_" + verb.replace(" ", "_"))(client, choice)
        self.check()

    def do_join(self, client: int, choice: int) -> None:
        self._beat(client, 0, TOPICS[choice % len(TOPICS)])

    def do_beat(self, client: int, choice: int) -> None:
        names = TOPICS[choice % len(TOPICS)] if choice % 8 == 0 or not self.epochs[client] else None
        self._beat(client, self.epochs[client], names)

    def do_lie(self, client: int, choice: int) -> None:
        self._beat(client, choice - 2, None, heard=False)

    def do_lose(self, client: int, choice: int) -> None:
        self._beat(client, self.epochs[client], TOPICS[choice % len(TOPICS)], heard=False)

    def do_leave(self, client: int, choice: int) -> None:
        self.stage.heartbeat(f"m{client}", -1)
        self.epochs[client] = 0

    def _beat(self, client: int, epoch: int, names: tuple[str, ...] | None, *, heard: bool = True) -> None:
        before = self.stage.machine.shares.groups.get("g")
        known = None if before is None else before.members.get(f"m{client}")
        response = self.stage.heartbeat(f"m{client}", epoch, names)
        if response.error_code or response.member_epoch < 0:
            self.epochs[client] = 0
            return
        assert known is None or response.member_epoch >= known.epoch, "an epoch went back"
        if heard:
            self.epochs[client] = response.member_epoch

    def do_wait(self, client: int, choice: int) -> None:
        self.stage.wait(choice * 300)

    def do_wait_long(self, client: int, choice: int) -> None:
        self.stage.wait(choice * 2_000)

    def do_persist(self, client: int, choice: int) -> None:
        """Execute the order number `choice`; others overtake it."""
        if self.stage.orders:
            self._execute(self.stage.orders.pop(choice % len(self.stage.orders)), NONE)

    def do_fail(self, client: int, choice: int) -> None:
        if self.stage.orders:
            self._execute(self.stage.orders.pop(choice % len(self.stage.orders)), COORDINATOR_NOT_AVAILABLE)

    def _execute(self, order: Any, error_code: int) -> None:
        places = {place[:2] for place in order.places}
        if isinstance(order, DeleteShares):
            self.states -= set() if error_code else places
            return
        assert isinstance(order, InitializeShares)
        self.states |= set() if error_code else places
        self.stage.tell(SharesInitialized(order.group_id, order.places, [error_code] * len(order.places)))

    def do_add(self, client: int, choice: int) -> None:
        counts = {"t": min(2 + choice, 6)} if choice % 2 else {"u": min(3 + choice, 6)}
        for name, count in counts.items():
            known = self.stage.topics.topic(name)
            if known is None or known.shape.partitions < count:
                self.stage.create(**{name: count})

    def do_delete_topic(self, client: int, choice: int) -> None:
        name = "tu"[choice % 2]
        known = self.stage.topics.topic(name)
        if known is not None:
            self.states = {place for place in self.states if place[0] != known.topic_id}
            self.stage.delete(name)

    def do_restart(self, client: int, choice: int) -> None:
        self.stage.restart()

    def do_alter(self, client: int, choice: int) -> None:
        part = Alter.AlterShareGroupOffsetsRequestPartition(partition_index=choice % 4, start_offset=choice)
        topic = Alter.AlterShareGroupOffsetsRequestTopic(topic_name=TOPICS[choice % 2][0], partitions=[part])
        answer: AlteringShares = self.stage.request(Alter(group_id="g", topics=[topic]), 0)
        if answer.places:
            self.states |= {place[:2] for place in answer.places}
            assert not self.stage.request(SharesInitialized("g", answer.places, [NONE]))

    def do_delete_offsets(self, client: int, choice: int) -> None:
        topic = Delete.DeleteShareGroupOffsetsRequestTopic(topic_name=TOPICS[choice % 2][0])
        answer: DeletingShares = self.stage.request(Delete(group_id="g", topics=[topic]), 0)
        if answer.places and choice % 3:
            self._delete(answer.places)
            self.stage.request(SharesDeleted("g", tuple({place.topic_id for place in answer.places})))

    def do_delete_group(self, client: int, choice: int) -> None:
        answer: DeletingShares = self.stage.request(ShareStateDeletion("g"))
        if not answer.error_code and choice % 3:
            self._delete(answer.places)
            self.stage.request(DeleteGroupsRequest(groups_names=["g"]), 2)

    def _delete(self, places: tuple[StatePlace, ...]) -> None:
        self.states -= {place[:2] for place in places}

    def check(self) -> None:
        """Who reads a partition reads one with state, and initialized partitions have state, unless it is being deleted."""
        group = self.stage.machine.shares.groups.get("g")
        if group is None:
            return
        alive = {topic_id for topic_id in group.initialized if self.stage.topics.with_id(topic_id) is not None}
        made = {(topic_id, number) for topic_id in alive for number in group.initialized[topic_id].partitions}
        assert made <= self.states, "an initialized partition has no state"
        for member in group.members.values():
            for topic_id, numbers in member.assigned.items():
                topic = self.stage.topics.with_id(topic_id)
                assert topic is None or {(topic_id, number) for number in numbers} <= made

    def settle(self) -> None:
        """Let members that behave send heartbeats, and orders be executed, until nothing changes."""
        self.stage.create(t=6, u=6)
        for _ in range(12):
            self.stage.wait(5_000)
            for client in range(CLIENTS):
                self._beat(client, self.epochs[client], ("t", "u"))
            while self.stage.orders:
                self._execute(self.stage.orders.pop(0), NONE)


STEPS = steps(VERBS, CLIENTS)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(STEPS, st.sampled_from((0, 1_000)), st.sampled_from((2, 200)))
def test_share_groups_keep_their_invariants(taken: list[Step], interval_ms: int, max_size: int) -> None:
    world = World(interval_ms, max_size)
    for step in taken:
        world.take(step)
    world.stage.wait(20 * 60_000)
    assert not world.stage.waiting
    assert not any(group.members for group in world.stage.machine.shares.groups.values())
    assert set(world.stage.timers) <= {ExpiryKey()}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_members_that_behave_read_every_partition_whatever_happened_before(taken: list[Step]) -> None:
    world = World()
    for step in taken:
        world.take(step)
    world.stage.wait(60_000)
    world.settle()
    group = world.stage.group
    assert {member.epoch for member in group.members.values()} == {group.epoch}
    shared = Counter(number for member in group.members.values() for held in member.assigned.values() for number in held)
    assert sum(shared.values()) == 12, "each of the partitions of t and u has one member"
    assert not group.initializing
    described = world.stage.request(ShareGroupDescribeRequest(group_ids=["g"])).groups[0]
    assert len(described.members) == CLIENTS
