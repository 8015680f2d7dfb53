"""Another kind of groups is an addition: a class for a group, one for its kind, and no branch elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import pytest

from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.group_machine import GroupMachine
from ottla.coord.groups import Context, Decision, drop
from ottla.coord.kinds import KINDS
from ottla.coord.offsets import FetchGroup
from ottla.coord.outcome import GroupOutcome, JoinKey
from ottla.coord.records import OffsetCommitted
from ottla.coord.runtime.machine import Due, Input, Outcome, Reply, Timer
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import GROUP_ID_NOT_FOUND, INCONSISTENT_GROUP_PROTOCOL, NON_EMPTY_GROUP, NONE

NOW = Now(1_000, 1_000)


class Enter(NamedTuple):
    """A request of the toy: a member enters the room."""

    group_id: str
    member_id: str


class Entered(NamedTuple):
    """A record of the toy."""

    group_id: str
    member_id: str


class Closed(NamedTuple):
    """The tombstone of the toy."""

    group_id: str


class EndKey(NamedTuple):
    """A timer key of the toy: everybody leaves."""

    group_id: str


class RoomState(Enum):
    OPEN = "Open"


class Room:
    """A group of the toy's kind: it commits, fetches and deletes no offsets."""

    group_type: ClassVar[str] = "room"
    protocol_type: ClassVar[str] = "toy"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.weight = 0
        self.state = RoomState.OPEN
        self.members: dict[str, str] = {}

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_deserted(self) -> bool:
        return not self.members

    def is_subscribed(self, topic: str) -> bool:
        return False

    def yields_to(self, group_type: str) -> bool:
        return not self.members

    def without_deleted(self, topics: object) -> Sequence[Any]:
        return ()

    def serves(self, request: type) -> bool:
        return True

    def commit_error(self, commit: object) -> int:
        return GROUP_ID_NOT_FOUND

    def fetch_error(self, wanted: FetchGroup) -> int:
        return GROUP_ID_NOT_FOUND

    def offset_delete_error(self) -> int:
        return GROUP_ID_NOT_FOUND

    def session_restarted_by_commit(self, member_id: str) -> int | None:
        return None

    def expires_from_ms(self) -> int | None:
        return None

    def tombstones(self) -> Sequence[Any]:
        return (Closed(self.group_id),)


class Rooms:
    group_type: ClassVar[str] = Room.group_type
    decisions: ClassVar[Mapping[type, Decision]]
    records: ClassVar[frozenset[type]] = frozenset((Entered, EndKey, Closed))
    founding: ClassVar[frozenset[type]] = frozenset((Entered,))
    refusals: ClassVar[Mapping[type, Callable[[Any, int], object]]] = {}

    def __init__(self, context: Context) -> None:
        self.groups: dict[str, Room] = {}

    def apply(self, record: Entered | EndKey | Closed) -> int:
        if isinstance(record, Closed):
            return drop(self.groups, record.group_id)
        room = self.groups.setdefault(record.group_id, Room(record.group_id))
        before = room.weight
        if isinstance(record, Entered):
            room.members[record.member_id] = record.member_id
        else:
            room.members.clear()
        room.weight = 10 * len(room.members)
        return room.weight - before

    def recall(self, now: Now) -> list[GroupOutcome]:
        return [Outcome(timers=(Timer(EndKey(group_id), now.mono_ms + 5),)) for group_id in self.groups]

    def see(self, event: TopicsSeen) -> None:
        pass

    def enter(self, asked: Input[Enter], now: Now) -> Outcome[Any]:
        return Outcome((Entered(*asked.body),), (Reply(asked.token, "welcome"),), (Timer(EndKey(asked.body.group_id), 5),))

    def end(self, asked: Input[Due], now: Now) -> Outcome[Any]:
        return Outcome((asked.body.key,))


Rooms.decisions = {Enter: Rooms.enter, EndKey: Rooms.end}


class House:
    """A machine with rooms, and what a shard would do."""

    def __init__(self) -> None:
        self.machine = GroupMachine(GroupSettings(), lambda: "id", kinds=(*KINDS, Rooms))

    def ask(self, body: object, version: int = 0) -> Any:
        outcome = self.machine.decide(Input(body, version, "client", "host", 1), NOW)
        for record in outcome.records:
            self.machine.apply(record)
        return outcome.replies[0].message if outcome.replies else None

    def listed(self, *types: str) -> list[tuple[str, str, str]]:
        found = self.ask(ListGroupsRequest(types_filter=list(types))).groups
        return [(group.group_id, group.group_type, group.group_state) for group in found]

    def join(self, group_id: str) -> int:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        body = JoinGroupRequest(group_id=group_id, session_timeout_ms=30_000, protocol_type="consumer", protocols=[protocol])
        error_code: int = getattr(self.ask(body, 3), "error_code", NONE)
        return error_code

    def delete(self, group_id: str) -> int:
        error_code: int = self.ask(DeleteGroupsRequest(groups_names=[group_id])).results[0].error_code
        return error_code


@pytest.fixture
def house() -> House:
    house = House()
    assert house.ask(Enter("r", "ann")) == "welcome"
    return house


def test_a_group_of_a_new_kind_is_listed_with_type_and_state(house: House) -> None:
    house.machine.apply(OffsetCommitted("other", "t", 0, 1, 0, "", 1))
    assert house.listed() == [("other", "classic", "Empty"), ("r", "room", "Open")]
    assert house.listed("room") == [("r", "room", "Open")]
    assert house.machine.count == 2
    assert house.machine.weight == house.machine.weight_of("r") == 10


def test_apis_of_other_kinds_refuse_it(house: House) -> None:
    assert house.join("r") == INCONSISTENT_GROUP_PROTOCOL
    beat = ConsumerGroupHeartbeatRequest(
        group_id="r", member_id="m", rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert house.ask(beat, 1).error_code == GROUP_ID_NOT_FOUND
    (described,) = house.ask(DescribeGroupsRequest(groups=["r"]), 6).groups
    assert (described.error_code, described.error_message) == (GROUP_ID_NOT_FOUND, "Group r is not a classic group.")


def test_its_own_rules_decide_about_offsets(house: House) -> None:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        name="t", partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    )
    commit = OffsetCommitRequest(group_id="r", generation_id_or_member_epoch=-1, topics=[topic])
    assert house.ask(commit, 8).topics[0].partitions[0].error_code == GROUP_ID_NOT_FOUND
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="r", topics=None)
    assert house.ask(wanted).error_code == GROUP_ID_NOT_FOUND


def test_its_timers_are_due_and_set_again_after_a_restart(house: House) -> None:
    assert Timer(EndKey("r"), NOW.mono_ms + 5) in house.machine.recall(NOW).timers
    house.ask(Due(EndKey("r")))
    assert house.machine.weight == 0


def test_it_is_deleted_when_it_is_empty(house: House) -> None:
    assert house.delete("r") == NON_EMPTY_GROUP
    house.ask(Due(EndKey("r")))
    assert house.delete("r") == NONE
    assert house.listed() == []


def test_another_kind_takes_its_place_when_it_is_empty(house: House) -> None:
    house.ask(Due(EndKey("r")))
    assert house.join("r") == NONE
    assert house.listed() == [("r", "classic", "PreparingRebalance")]


def test_it_takes_the_place_of_a_group_of_offsets(house: House) -> None:
    house.machine.apply(OffsetCommitted("s", "t", 0, 1, 0, "", 1))
    house.ask(Enter("s", "bob"))
    assert house.listed("classic") == []


def test_a_deadline_whose_group_is_another_by_now_changes_nothing(house: House) -> None:
    assert house.machine.decide(Input(Due(JoinKey("r"))), NOW) == Outcome()
