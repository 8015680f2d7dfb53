"""Consumer groups under random interleavings of members of both protocols, lies, lost replies, topics, time and restarts.

The stage checks its invariants after every decision: no partition has two members, no error comes with records, and whoever reads
the records back has the same groups.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.coord.classic.states import State
from ottla.coord.consumer.states import GroupState
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.outcome import ExpiryKey, TopicsChanged
from ottla.coord.settings import GroupSettings
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.data import decode_from_member, encode_value
from ottla.wire.data.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.errors import MEMBER_ID_REQUIRED, NONE, REBALANCE_IN_PROGRESS
from tests.scenarios.consumer_words import topic, topic_id
from tests.scenarios.stage import Stage
from tests.scenarios.steps import Step, steps

GROUP = "g"
INSTANCES = (None, None, "i", "i", None, None, "j")
CLASSIC = (False, False, False, True, True, True, False)
"""Of each client: its instance id (two quarrel about one), and whether it speaks the classic protocol."""

Held = dict[str, frozenset[int]]


class Client:
    """Believes what it was told last, unless the reply got lost."""

    def __init__(self, number: int) -> None:
        self.name = f"client{number}"
        self.instance = INSTANCES[number]
        self.is_classic = CLASSIC[number]
        self.begin_anew()

    def begin_anew(self) -> None:
        self.member_id = "" if self.is_classic else self.name
        self.epoch = -1 if self.is_classic else 0
        self.held: Held = {}
        self.owned: Held = {}
        self.members: list[str] = []
        self.token = -1
        self.must_join = True
        self.must_sync = False


class World:
    def __init__(self, group_settings: GroupSettings) -> None:
        self.stage = Stage(group_settings)
        self.topics = KnownTopics()
        self.clients = [Client(number) for number in range(len(INSTANCES))]
        self.set_topic("a", 3)

    def take(self, step: Step) -> None:
        client = self.clients[step.client]
        self.listen(client)
        getattr(self, step.verb)(client, step.choice)
        if step.choice % 5:
            self.listen(client)

    def listen(self, client: Client) -> None:
        """Learn from the last reply; one that is heard after the next request is lost."""
        heard = self.stage.heard.pop(client.token, None)
        if isinstance(heard, ConsumerGroupHeartbeatResponse):
            hear_heartbeat(client, heard)
        elif isinstance(heard, JoinGroupResponse):
            hear_join(client, heard)
        elif isinstance(heard, SyncGroupResponse) and heard.error_code == NONE:
            client.owned = client.held = assigned(heard.assignment)
            client.must_sync = False
        elif isinstance(heard, HeartbeatResponse | SyncGroupResponse):
            client.must_join = client.must_join or heard.error_code != NONE
            if heard.error_code not in (NONE, REBALANCE_IN_PROGRESS):
                client.begin_anew()

    def ask(self, client: Client, body: Any, version: int) -> None:
        client.token = self.stage.ask(body, version, client.name)

    def set_topic(self, name: str, partitions: int) -> None:
        names = frozenset((name,))
        new = self.topics.topic(name) is None
        gone = () if partitions else names
        self.topics = self.topics.with_changes([topic(name, partitions)] if partitions else (), gone)
        self.stage.tell(TopicsChanged(self.topics, names, new and bool(partitions)))

    def live(self, client: Client, choice: int) -> None:
        """What the client's own timer does: a heartbeat, or what the classic protocol has for it."""
        if client.is_classic:
            self.live_classic(client, choice)
        else:
            self.heartbeat(client, choice, client.epoch)

    def heartbeat(self, client: Client, choice: int, epoch: int) -> None:
        joins = epoch == 0
        tells = joins or choice % 3 == 0
        held = {} if joins else client.owned
        part = ConsumerGroupHeartbeatRequest.TopicPartitions
        owned = [part(topic_id=topic_id(name), partitions=sorted(parts)) for name, parts in held.items()]
        body = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=client.member_id,
            member_epoch=epoch,
            instance_id=client.instance,
            rebalance_timeout_ms=20_000 if tells else -1,
            subscribed_topic_names=subscribed(client) if tells else None,
            subscribed_topic_regex=pattern(client, choice) if tells else None,
            server_assignor=(None, "range", "uniform")[choice % 3] if tells else None,
            topic_partitions=owned if tells or choice % 2 else None,
        )
        self.ask(client, body, 1)

    def give_back(self, client: Client, choice: int) -> None:
        client.owned = {name: parts & client.held.get(name, frozenset()) for name, parts in client.owned.items()}
        client.owned = {**client.held} if choice % 2 else {name: parts for name, parts in client.owned.items() if parts}

    def lie(self, client: Client, choice: int) -> None:
        if not client.is_classic:
            self.heartbeat(client, choice, (0, client.epoch + 1, client.epoch - 1, 1, 7, -3)[choice % 6])

    def go(self, client: Client, choice: int) -> None:
        if client.is_classic:
            identity = LeaveGroupRequest.MemberIdentity(member_id=client.member_id, group_instance_id=client.instance)
            self.ask(client, LeaveGroupRequest(group_id=GROUP, members=[identity]), 3)
        else:
            self.heartbeat(client, choice, -2 if client.instance is not None and choice % 2 else -1)
        client.begin_anew()

    def die(self, client: Client, choice: int) -> None:
        client.begin_anew()

    def live_classic(self, client: Client, choice: int) -> None:
        if client.token in self.stage.waiting:
            return
        if client.must_join:
            self.join(client, choice)
        elif client.must_sync:
            self.sync(client)
        else:
            body = HeartbeatRequest(
                group_id=GROUP, member_id=client.member_id, generation_id=client.epoch, group_instance_id=client.instance
            )
            self.ask(client, body, 3)

    def join(self, client: Client, choice: int) -> None:
        part = ConsumerProtocolSubscription.TopicPartition
        owned = [part(topic=name, partitions=sorted(parts)) for name, parts in client.owned.items()]
        subscription = ConsumerProtocolSubscription(topics=subscribed(client), owned_partitions=owned)
        names = ("range", "sticky") if choice % 4 else ("range",)
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=encode_value(subscription, 1)) for name in names]
        body = JoinGroupRequest(
            group_id=GROUP,
            member_id=client.member_id,
            group_instance_id=client.instance,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        self.ask(client, body, 5)

    def sync(self, client: Client) -> None:
        """As the leader of a classic group it gives all of the topic to the first member."""
        part = ConsumerProtocolAssignment.TopicPartition
        everything = ConsumerProtocolAssignment(assigned_partitions=[part(topic="a", partitions=[0, 1, 2])])
        assignment = SyncGroupRequest.SyncGroupRequestAssignment
        body = SyncGroupRequest(
            group_id=GROUP,
            member_id=client.member_id,
            generation_id=client.epoch,
            group_instance_id=client.instance,
            assignments=[assignment(member_id=m, assignment=encode_value(everything, 1)) for m in client.members[:1]],
        )
        self.ask(client, body, 4)

    def commit(self, client: Client, choice: int) -> None:
        part = OffsetCommitRequest.OffsetCommitRequestPartition
        places = [part(partition_index=choice % 3, committed_offset=choice, committed_metadata="")]
        body = OffsetCommitRequest(
            group_id=GROUP,
            member_id=client.member_id,
            generation_id_or_member_epoch=client.epoch - choice % 2,
            group_instance_id=client.instance,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="a", topic_id=topic_id("a"), partitions=places)],
        )
        self.stage.ask(body, 9 if choice % 4 else 8, client.name)

    def delete(self, client: Client, choice: int) -> None:
        self.stage.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2, client.name)

    def topic(self, client: Client, choice: int) -> None:
        self.set_topic(("a", "b")[choice % 2], choice % 7 + (choice % 2 == 0))

    def wait(self, client: Client, choice: int) -> None:
        self.stage.wait((100, 1_100, 3_000, 9_000, 25_000)[choice % 5])

    def restart(self, client: Client, choice: int) -> None:
        if choice < 8:
            self.stage.restart()

    def behave(self) -> None:
        """Everybody does what it should, hears of it, gives back at once, and a second passes."""
        for client in self.clients:
            if client.name in ("client3", "client6"):
                continue
            self.listen(client)
            for _ in range(2):
                self.live(client, 1)
                self.listen(client)
            client.owned = {**client.held}
        self.stage.wait(1_100)

    def settled(self) -> bool:
        group = self.stage.machine.consumers.groups.get(GROUP)
        if group is None or group.state is not GroupState.STABLE:
            return False
        owned = {(of, partition) for of, partitions in group.owners.items() for partition in partitions}
        there = {
            (found.topic_id, partition)
            for name in frozenset().union(*group.subscribed_topics())
            if (found := self.topics.topic(name)) is not None
            for partition in range(found.shape.partitions)
        }
        return owned == there and len(group.members) == len(self.clients) - 2


def hear_heartbeat(client: Client, heard: ConsumerGroupHeartbeatResponse) -> None:
    if heard.error_code:
        client.begin_anew()
        return
    client.member_id, client.epoch = heard.member_id or "", max(heard.member_epoch, 0)
    if heard.assignment is not None:
        client.held = {
            bytes(each.topic_id).rstrip(b"\0").decode(): frozenset(each.partitions) for each in heard.assignment.topic_partitions
        }


def hear_join(client: Client, heard: JoinGroupResponse) -> None:
    if heard.error_code == MEMBER_ID_REQUIRED:
        client.member_id = heard.member_id
    elif heard.error_code == NONE:
        client.member_id, client.epoch, client.must_join = heard.member_id, heard.generation_id, False
        client.must_sync = True
        client.members = [member.member_id for member in heard.members]
    elif heard.error_code != REBALANCE_IN_PROGRESS:
        client.begin_anew()


def assigned(assignment: bytes) -> Held:
    if not assignment:
        return {}
    _, held = decode_from_member(ConsumerProtocolAssignment, assignment)
    return {each.topic: frozenset(each.partitions) for each in held.assigned_partitions}


def subscribed(client: Client) -> list[str]:
    return ["a"] if client.name in ("client0", "client3") else ["a", "b"]


def pattern(client: Client, choice: int) -> str | None:
    return ("a|c", "", "b+", "(")[choice % 4] if client.name == "client1" and choice % 9 else None


VERBS = ("live",) * 6 + ("give_back",) * 2 + ("lie", "go", "die", "commit", "topic", "wait", "wait", "restart", "delete")
STEPS = steps(VERBS, len(INSTANCES))
SETTINGS = st.builds(
    GroupSettings,
    group_consumer_max_size=st.sampled_from((2, 1_000)),
    group_initial_rebalance_delay_ms=st.just(0),
    group_consumer_assignment_interval_ms=st.sampled_from((0, 1_000)),
    group_consumer_migration_policy=st.sampled_from(("bidirectional", "bidirectional", "upgrade", "downgrade", "disabled")),
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(STEPS, SETTINGS)
def test_consumer_groups_keep_their_invariants(taken: list[Step], group_settings: GroupSettings) -> None:
    world = World(group_settings)
    for step in taken:
        world.take(step)
    check_nobody_waits(world)


def check_nobody_waits(world: World) -> None:
    """Once all time is up, every request has been answered, and nobody is a member any more."""
    world.stage.wait(20 * 60_000)
    assert not world.stage.waiting
    assert all(group.state is GroupState.EMPTY for group in world.stage.machine.consumers.groups.values())
    assert all(group.state is State.EMPTY for group in world.stage.machine.classic.groups.values())
    assert set(world.stage.timers) <= {ExpiryKey()}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(STEPS)
@example([])
def test_members_of_both_protocols_that_behave_settle_whatever_happened_before(taken: list[Step]) -> None:
    world = World(GroupSettings(group_initial_rebalance_delay_ms=0))
    for step in taken:
        world.take(step)
    world.stage.wait(60_000)
    for _ in range(30):
        if world.settled():
            return
        world.behave()
    raise AssertionError("the group does not settle")
