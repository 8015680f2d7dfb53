"""Groups under random interleavings of clients, lies, time and restarts. The stage checks its invariants after every decision."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.coord.classic.states import State
from ottla.coord.outcome import ExpiryKey
from ottla.coord.settings import GroupSettings
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.api.sync_group import SyncGroupRequest
from ottla.wire.errors import MEMBER_ID_REQUIRED, NONE
from tests.scenarios.stage import Stage
from tests.scenarios.steps import Step, steps
from tests.support.coordinator_records import everything

GROUP = "g"
SESSION_MS, REBALANCE_MS = 10_000, 20_000
CLIENTS = (None, None, "instance", "instance", "other")
"""The instance ids of the clients: two of them quarrel about one."""


class Client:
    """Believes what it was told last, and now and then lies."""

    def __init__(self, number: int) -> None:
        self.name = f"client{number}"
        self.instance = CLIENTS[number]
        self.member_id = ""
        self.generation = -1
        self.members: list[str] = []
        self.token = -1


class World:
    def __init__(self, group_settings: GroupSettings) -> None:
        self.stage = Stage(group_settings)
        self.clients = [Client(number) for number in range(len(CLIENTS))]
        self.acknowledged: dict[int, int] = {}
        self._offset = 0

    def take(self, step: Step) -> None:
        client = self.clients[step.client]
        self._listen(client)
        getattr(self, step.verb)(client, step.choice)
        self._listen(client)

    def _listen(self, client: Client) -> None:
        heard = self.stage.heard.get(client.token)
        if isinstance(heard, JoinGroupResponse) and heard.error_code in (NONE, MEMBER_ID_REQUIRED):
            client.member_id, client.generation = heard.member_id, heard.generation_id
            client.members = [member.member_id for member in heard.members]

    def _ask(self, client: Client, body: Any, version: int) -> Any:
        client.token = self.stage.ask(body, version, client.name)
        return self.stage.heard.get(client.token)

    def join(self, client: Client, choice: int) -> None:
        names = (("range",), ("range", "sticky"), ("sticky",), ("range", "sticky"))[choice % 4]
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=bytes([choice // 8])) for name in names]
        body = JoinGroupRequest(
            group_id=GROUP,
            member_id="" if choice == 31 else client.member_id,
            group_instance_id=client.instance,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=protocols,
        )
        self._ask(client, body, (3, 5, 8, 9)[choice % 4] if client.instance is None else (5, 8, 9)[choice % 3])

    def forget(self, client: Client, choice: int) -> None:
        """The process dies and another one comes in its place."""
        client.member_id, client.generation = "", -1

    def sync(self, client: Client, choice: int) -> None:
        assigned = SyncGroupRequest.SyncGroupRequestAssignment
        body = SyncGroupRequest(
            group_id=GROUP,
            member_id=client.member_id,
            generation_id=client.generation + (choice == 31),
            group_instance_id=client.instance,
            assignments=[assigned(member_id=m, assignment=m.encode()) for m in client.members if choice % 8 != 7],
        )
        self._ask(client, body, 4)

    def beat(self, client: Client, choice: int) -> None:
        body = HeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            generation_id=client.generation - (choice == 31),
            group_instance_id=client.instance,
        )
        self._ask(client, body, 3)

    def leave(self, client: Client, choice: int) -> None:
        identity = LeaveGroupRequest.MemberIdentity(
            member_id="" if choice % 4 == 3 else client.member_id, group_instance_id=client.instance
        )
        self._ask(client, LeaveGroupRequest(group_id=GROUP, members=[identity]), 3)

    def commit(self, client: Client, choice: int) -> None:
        self._offset += 1
        body = OffsetCommitRequest(
            group_id=GROUP,
            member_id="" if choice == 31 else client.member_id,
            generation_id_or_member_epoch=client.generation,
            group_instance_id=client.instance,
            topics=[commit_topic(choice % 3, self._offset)],
        )
        response = self._ask(client, body, 7)
        assert isinstance(response, OffsetCommitResponse)
        if response.topics[0].partitions[0].error_code == NONE:
            self.acknowledged[choice % 3] = self._offset

    def delete(self, client: Client, choice: int) -> None:
        if choice == 0:
            response = self._ask(client, DeleteGroupsRequest(groups_names=[GROUP]), 2)
            if not response.results[0].error_code:
                self.acknowledged.clear()

    def wait(self, client: Client, choice: int) -> None:
        self.stage.wait((100, 3_000, 9_000, 15_000)[choice % 4])

    def settle(self, client: Client, choice: int) -> None:
        """Three clients behave for a while, so that what follows happens to a group with a history."""
        for _ in range(choice % 8):
            for number in (0, 1, 2 + choice % 3):
                behave(self, number)
            self.stage.wait(1_000)

    def restart(self, client: Client, choice: int) -> None:
        if choice < 8:
            self.stage.restart()

    def check_offsets(self) -> None:
        """An acknowledged commit is never lost and never goes back."""
        held = {record.partition: record.offset for record in everything(self.stage.machine.offsets)}
        assert held == self.acknowledged

    def check_nobody_waits(self) -> None:
        """Once all time is up, every request has been answered, and a group at rest is all there is."""
        self.stage.wait(20 * 60_000)
        assert not self.stage.waiting
        for group in self.stage.machine.classic.groups.values():
            assert group.state is State.EMPTY
            assert not group.invited
        assert set(self.stage.timers) <= {ExpiryKey()}


def commit_topic(partition: int, offset: int) -> OffsetCommitRequest.OffsetCommitRequestTopic:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])


VERBS = ("settle",) * 2 + ("join",) * 3 + ("sync",) * 2 + ("beat", "commit", "leave", "forget", "wait", "wait", "restart", "delete")
STEPS = steps(VERBS, len(CLIENTS))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(STEPS, st.sampled_from((2, 1_000)), st.sampled_from((0, 3_000)))
def test_groups_keep_their_invariants(taken: list[Step], max_size: int, delay_ms: int) -> None:
    world = World(GroupSettings(group_max_size=max_size, group_initial_rebalance_delay_ms=delay_ms))
    for step in taken:
        world.take(step)
        world.check_offsets()
    world.check_nobody_waits()


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(STEPS)
@example([])
def test_members_that_behave_settle_whatever_happened_before(taken: list[Step]) -> None:
    world = World(GroupSettings())
    for step in taken:
        world.take(step)
    world.stage.wait(60_000)
    rounds = 0
    while not settled(world):
        rounds += 1
        assert rounds < 12, "the group does not settle"
        for number in (0, 1, 4):
            behave(world, number)
        world.stage.wait(1_000)


def settled(world: World) -> bool:
    group = world.stage.machine.classic.groups.get(GROUP)
    return group is not None and group.state is State.STABLE and len(group.members) == 3 and not group.unsynced


def behave(world: World, number: int) -> None:
    """What a client does that has nothing but joining in mind."""
    client = world.clients[number]
    world._listen(client)
    if client.token in world.stage.waiting:
        return
    group = world.stage.machine.classic.groups.get(GROUP)
    if group is None or client.member_id not in (*group.members, *group.invited):
        client.member_id = ""
    if group is not None and client.member_id in group.unsynced:
        world.sync(client, 0)
    elif group is None or client.member_id not in group.members or group.state is not State.STABLE:
        world.join(client, 1)
    else:
        world.beat(client, 0)
