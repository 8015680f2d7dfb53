"""What share groups take in memory is counted: members, their assignments, and the partitions with state."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.group_machine import GroupMachine
from ottla.coord.memory import GroupMemory
from ottla.coord.runtime.machine import Input
from ottla.coord.settings import GroupSettings
from ottla.coord.share.events import InitializeShares, SharesInitialized
from ottla.ports import Now
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.share_stage import ShareStage, known_topics

NOW = Now(1, 1)
DEADLINE_BYTES = 1_500
"""What a member takes outside of the coordinator, about: its deadline."""


class Coordinator:
    """A machine that is asked by hand, whose partitions are initialized at once."""

    def __init__(self, partitions: int) -> None:
        self.machine = GroupMachine(
            GroupSettings(group_share_assignment_interval_ms=0), lambda: "id", memory=GroupMemory(lambda: self.machine.weight)
        )
        self.machine.apply(TopicsSeen(known_topics(t=partitions), frozenset(), new=False))

    def put(self, body: Any) -> None:
        outcome = self.machine.decide(Input(body, 1, "client", "/127.0.0.1", 1), NOW)
        for record in outcome.records:
            self.machine.apply(record)
        for order in outcome.orders:
            assert isinstance(order, InitializeShares)
            self.put(SharesInitialized(order.group_id, order.places, [0] * len(order.places)))

    def settle(self, group_id: str, members: int) -> None:
        ids = [f"{group_id:8}-{at:04d}-0000-0000-000000000000" for at in range(members)]
        for member_id in ids:
            names = ["t"]
            self.put(
                ShareGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=0, subscribed_topic_names=names)
            )
        for member_id in ids * 2:
            epoch = self.machine.shares.groups[group_id].members[member_id].epoch
            self.put(ShareGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch))


@pytest.mark.parametrize(("groups", "members", "partitions"), [(100, 1, 1), (20, 2, 400), (3, 50, 100)])
def test_what_is_counted_of_share_groups_is_about_what_is_taken(groups: int, members: int, partitions: int) -> None:
    coordinator = Coordinator(partitions)
    coordinator.settle("warm", members)
    before = coordinator.machine.weight
    tracemalloc.start()
    try:
        for number in range(groups):
            coordinator.settle(f"group-{number}", members)
        taken = tracemalloc.get_traced_memory()[0] + DEADLINE_BYTES * groups * members
    finally:
        tracemalloc.stop()
    assert 0.7 * taken < coordinator.machine.weight - before < 2 * taken, "members of one group share tables"


def test_a_share_group_that_is_deleted_counts_no_more() -> None:
    stage = ShareStage()
    stage.create(t=10)
    stage.join("a", "b", "c")
    assert stage.machine.weight > 0
    for member_id in "abc":
        stage.heartbeat(member_id, -1)
    for record in stage.group.tombstones():
        stage.machine.apply(record)
    assert stage.machine.weight == 0
