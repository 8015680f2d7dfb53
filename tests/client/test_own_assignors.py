"""Assignors of users: a function shares out partitions, and members carry its state from generation to generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

import ottla
from tests.support.peers import Peer


def member(broker: Peer, topic: str, group: str, assignor: ottla.PartitionAssignor) -> ottla.Consumer:
    return ottla.Consumer(
        topic,
        bootstrap_servers=broker.address,
        group_id=group,
        auto_offset_reset="earliest",
        partition_assignment_strategy=assignor,
        heartbeat_interval_ms=100,
    )


def poll_until(consumers: list[ottla.Consumer], sizes: list[int]) -> None:
    while [len(consumer.assignment()) for consumer in consumers] != sizes:
        for consumer in consumers:
            consumer.poll(20)


@pytest.mark.parametrize("cooperative", [False, True])
def test_members_get_what_the_function_says_and_their_state(
    broker: Peer, topic: str, unique: Callable[[str], str], cooperative: bool
) -> None:
    seen: list[list[bytes]] = []

    def first_gets_most(
        members: Mapping[str, ottla.MemberSubscription], counts: Mapping[str, int]
    ) -> dict[str, tuple[list[tuple[str, int]], bytes]]:
        seen.append(sorted(subscription.state for subscription in members.values()))
        eldest = max(members, key=lambda name: (members[name].state, name))
        shares: dict[str, tuple[list[tuple[str, int]], bytes]] = {name: ([(topic, 0)], b"b") for name in members}
        shares[eldest] = ([(topic, number) for number in range(len(members) > 1, counts[topic])], b"eldest")
        return shares

    assignor = ottla.PartitionAssignor("most", first_gets_most, cooperative=cooperative)
    group = unique("group")
    with member(broker, topic, group, assignor) as one:
        poll_until([one], [3])
        with member(broker, topic, group, assignor) as two:
            poll_until([one, two], [2, 1])
            assert two.assignment() == {(topic, 0)}
    assert seen[0] == [b""]
    assert [b"", b"eldest"] in seen


@pytest.mark.parametrize(
    ("share", "match"),
    [
        ([("t", 0)], "t-0 to a member that has not subscribed"),
        ([(None, 3)], "or it does not exist"),
        ([(None, 0), (None, 0)], "assigned a partition twice"),
    ],
)
def test_a_wrong_result_ends_the_membership(
    broker: Peer, topic: str, unique: Callable[[str], str], share: list[tuple[str | None, int]], match: str
) -> None:
    partitions = [(name or topic, number) for name, number in share]
    assignor = ottla.PartitionAssignor("wrong", lambda members, counts: dict.fromkeys(members, partitions))
    with (
        member(broker, topic, unique("group"), assignor) as consumer,
        pytest.raises(ottla.SettingError, match=match),
    ):
        consumer.poll(20_000)


def test_an_exception_of_an_assignor_is_raised_by_poll(broker: Peer, topic: str, unique: Callable[[str], str]) -> None:
    def fail(members: Mapping[str, ottla.MemberSubscription], counts: Mapping[str, int]) -> dict[str, list[tuple[str, int]]]:
        raise LookupError("mine")

    consumer = member(broker, topic, unique("group"), ottla.PartitionAssignor("fails", fail))
    with pytest.raises(LookupError, match="mine"):
        consumer.poll(20_000)
    consumer.close()
