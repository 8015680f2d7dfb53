"""What members of groups take in memory: shared where it is the same, counted, and bounded over all groups."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from ottla.coord.consumer.names import SharedNames, TopicNames
from ottla.coord.coordinator_partitions import MOST_KEPT, partition_of
from ottla.coord.group_machine import GroupMachine
from ottla.coord.memory import MOST_OF_ONE, GroupMemory
from ottla.coord.outcome import JoinKey
from ottla.coord.runtime.machine import Due, Input
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.sync_group import SyncGroupRequest
from ottla.wire.errors import GROUP_MAX_SIZE_REACHED, MEMBER_ID_REQUIRED, NONE, UNKNOWN_SERVER_ERROR

NOW = Now(1_000, 1_000)
NAMES = 2_000
ENOUGH = 1 << 30


class Coordinator:
    """A machine that is asked by hand. Several may share a memory."""

    def __init__(self, most_bytes: int = ENOUGH) -> None:
        self.ids = iter(range(1_000_000))
        settings = GroupSettings(ottla_max_group_bytes=most_bytes, group_initial_rebalance_delay_ms=0)
        self.memory = GroupMemory(lambda: self.machine.weight)
        self.machine = GroupMachine(settings, lambda: str(next(self.ids)), memory=self.memory)
        self.replies: dict[int, Any] = {}

    def request(self, body: Any, version: int, token: int = 1, client_id: str = "ada") -> Any:
        self.carry_out(self.machine.decide(Input(body, version, client_id, "/127.0.0.1", token), NOW))
        return self.replies.pop(token, None)

    def carry_out(self, outcome: Any) -> None:
        for record in outcome.records:
            self.machine.apply(record)
        self.replies.update((reply.token, reply.message) for reply in outcome.replies)

    @property
    def taken_bytes(self) -> int:
        return self.memory.names.weight + self.machine.weight

    def configure(self, most_bytes: int) -> None:
        self.machine.configure(replace(self.machine.context.settings, ottla_max_group_bytes=most_bytes))

    def subscribe(self, group_id: str, names: list[str], member_id: str = "m", epoch: int = 0) -> int:
        body = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=names,
            topic_partitions=[],
        )
        return int(self.request(body, 1).error_code)

    def join(self, group_id: str, metadata: bytes = b"", member_id: str = "", version: int = 3, client_id: str = "ada") -> Any:
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)]
        body = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        answer = self.request(body, version, client_id=client_id)
        if answer is None:  # the first member of a group waits a moment for others
            self.carry_out(self.machine.decide(Input(Due(JoinKey(group_id))), NOW))
            answer = self.replies.pop(1)
        return answer


def names_of(number: int) -> list[str]:
    return [f"topic-{number}-{index}" for index in range(NAMES)]


def test_members_of_many_groups_that_subscribe_to_the_same_topics_share_their_names() -> None:
    coordinator = Coordinator()
    assert coordinator.subscribe("first", names_of(0)) == NONE
    names = coordinator.memory.names.weight
    tracemalloc.start()
    try:
        for number in range(20):
            assert coordinator.subscribe(f"group-{number}", names_of(0)) == NONE
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert coordinator.memory.names.weight == names
    assert taken / 20 < 16_000, "each of them has two thousand names"


def test_what_is_counted_is_about_what_is_taken() -> None:
    coordinator = Coordinator()
    tracemalloc.start()
    try:
        for number in range(10):
            assert coordinator.subscribe(f"group-{number}", names_of(number)) == NONE
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.7 * taken < coordinator.taken_bytes < 1.3 * taken


def test_names_that_nobody_subscribes_to_any_more_are_counted_no_more() -> None:
    coordinator = Coordinator()
    assert coordinator.subscribe("g", names_of(0)) == NONE
    before = coordinator.taken_bytes
    assert coordinator.subscribe("g", ["other"], epoch=2) == NONE
    assert coordinator.taken_bytes < before / 10
    coordinator.request(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-1), 1)
    assert coordinator.taken_bytes == 0


def test_beyond_the_bound_new_members_are_turned_away_and_those_that_are_there_stay(
    caplog: pytest.LogCaptureFixture,
) -> None:
    coordinator = Coordinator(3_000_000)
    codes = [coordinator.subscribe(f"group-{number}", names_of(number)) for number in range(20)]
    assert codes == sorted(codes)
    assert set(codes) == {NONE, GROUP_MAX_SIZE_REACHED}
    assert coordinator.taken_bytes <= 3_000_000
    assert coordinator.subscribe("group-0", names_of(0), epoch=2) == NONE, "the same again takes no more"
    assert coordinator.subscribe("group-0", names_of(0) + names_of(50), epoch=2) == GROUP_MAX_SIZE_REACHED
    assert coordinator.subscribe("group-0", ["one"], epoch=2) == NONE, "less than before"
    assert coordinator.subscribe("late", names_of(60)) == NONE, "there is room again"
    assert {record.cause for record in caplog.records if hasattr(record, "cause")} >= {"ottla.max.group.bytes"}


def test_metadata_of_classic_members_counts_and_so_do_ids_that_nobody_joins_with() -> None:
    coordinator = Coordinator(1_000_000)
    assert coordinator.join("g", bytes(900_000)).error_code == NONE
    assert coordinator.join("h", bytes(200_000)).error_code == GROUP_MAX_SIZE_REACHED
    codes = [coordinator.join("i", version=4, client_id=f"{number}{'x' * 8_000}").error_code for number in range(100)]
    assert codes == sorted(codes, key=(MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED).index)
    assert codes[0] == MEMBER_ID_REQUIRED
    assert codes[-1] == GROUP_MAX_SIZE_REACHED


def test_one_group_is_no_larger_than_its_leader_can_be_told_in_a_moment() -> None:
    """All members' metadata goes to the leader in one reply, and into one record: 100 MB kept everybody waiting."""
    coordinator = Coordinator()
    ada = coordinator.join("g", bytes(MOST_OF_ONE // 2))
    assert coordinator.join("h", bytes(MOST_OF_ONE)).error_code == GROUP_MAX_SIZE_REACHED
    assert coordinator.join("g", bytes(MOST_OF_ONE // 2)).error_code == GROUP_MAX_SIZE_REACHED
    assert coordinator.machine.weight < MOST_OF_ONE
    again = coordinator.join("g", bytes(MOST_OF_ONE // 2), member_id=ada.member_id)
    assert [again.error_code, len(again.members)] == [NONE, 1], "the group goes on"
    wanted = SyncGroupRequest.SyncGroupRequestAssignment(member_id=ada.member_id, assignment=bytes(MOST_OF_ONE // 2))
    sync = {"group_id": "g", "generation_id": again.generation_id, "member_id": ada.member_id}
    assert coordinator.request(SyncGroupRequest(**sync, assignments=[wanted]), 3).error_code == UNKNOWN_SERVER_ERROR
    assert coordinator.request(SyncGroupRequest(**sync, assignments=[]), 3).error_code == NONE


def test_a_member_that_joins_again_with_what_it_had_has_room() -> None:
    coordinator = Coordinator()
    joined = coordinator.join("g", bytes(500_000))
    coordinator.configure(0)
    assert coordinator.join("g", bytes(500_000), joined.member_id).error_code == NONE


def test_what_a_leader_assigns_counts() -> None:
    coordinator = Coordinator()
    joined = coordinator.join("g")
    coordinator.configure(100_000)

    def assign(size: int) -> int:
        assigned = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(size))
        body = SyncGroupRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=[assigned]
        )
        return int(coordinator.request(body, 3).error_code)

    assert assign(200_000) == UNKNOWN_SERVER_ERROR
    assert assign(1_000) == NONE


def subscription(names: list[str], rest: bytes = b"") -> bytes:
    topics = b"".join(len(name).to_bytes(2) + name.encode() for name in names)
    return b"\0\1" + len(names).to_bytes(4) + topics + rest


def test_topics_that_a_classic_subscription_names_count() -> None:
    coordinator = Coordinator()
    metadata = subscription(names_of(0))
    coordinator.join("g", metadata)
    coordinator.join("h", bytes(len(metadata)))
    groups = coordinator.machine.classic.groups
    assert groups["g"].weight - groups["h"].weight > NAMES * 80, "the metadata of both are as large"


def test_subscriptions_of_a_classic_group_that_name_too_many_topics_are_not_read() -> None:
    coordinator = Coordinator()
    coordinator.join("g", subscription([str(number) for number in range(30_000)]))
    assert coordinator.machine.classic.groups["g"].topics is None
    assert coordinator.machine.classic.groups["g"].is_subscribed("any of them"), "it may be"


def test_names_made_slowly_are_the_same_and_come_in_small_steps() -> None:
    many = [f"topic-{number * 7_919 % 9_973}" for number in range(12_000)]
    made = TopicNames.slowly(many)
    steps = 0
    while True:
        try:
            next(made)
        except StopIteration as end:
            slowly = end.value
            break
        steps += 1
    at_once = TopicNames(many)
    assert steps >= 6
    assert slowly == at_once
    assert slowly.ordered == at_once.ordered == tuple(sorted(set(many)))
    assert slowly.weight == pytest.approx(at_once.weight, rel=0.2)
    shared = SharedNames()
    assert shared.share(at_once) is shared.share(slowly) is at_once


def test_keys_of_32_kb_whose_partitions_are_remembered_take_a_bounded_part_of_memory() -> None:
    for number in range(MOST_KEPT + 10):
        partition_of(f"key-{number}", 50)
    assert partition_of.cache_info().currsize * 32_767 < 40 << 20
