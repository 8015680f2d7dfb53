"""Sharing out partitions: what must hold for any members and topics, and the ways of each assignor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.assignors import (
    STRATEGIES,
    Assignment,
    MemberSubscription,
    assign_cooperative_sticky,
    assign_range,
    assign_round_robin,
    assign_sticky,
)
from ottla.client.consumer.subscription_bytes import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from ottla.client.types import TopicPartition

TOPICS = ["a", "b", "c"]
counts_of = st.fixed_dictionaries({topic: st.integers(0, 7) for topic in TOPICS})
subscriptions = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(6)]),
    st.lists(st.sampled_from(TOPICS), min_size=1, unique=True),
    min_size=1,
)


def fresh(members: dict[str, list[str]]) -> dict[str, MemberSubscription]:
    return {member: MemberSubscription(topics, []) for member, topics in members.items()}


def holding(members: dict[str, list[str]], held: Assignment, generation_id: int = 1) -> dict[str, MemberSubscription]:
    return {member: MemberSubscription(topics, held.get(member, []), generation_id) for member, topics in members.items()}


def wanted_partitions(members: dict[str, list[str]], counts: dict[str, int]) -> list[TopicPartition]:
    topics = {topic for subscribed in members.values() for topic in subscribed}
    return sorted(TopicPartition(topic, index) for topic in topics for index in range(counts[topic]))


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
@given(subscriptions, counts_of)
def test_every_partition_goes_to_one_member_that_wants_it(name: str, members: dict[str, list[str]], counts: dict[str, int]) -> None:
    given = STRATEGIES[name].assign(fresh(members), counts)
    assert set(given) == set(members)
    assert sorted(where for share in given.values() for where in share) == wanted_partitions(members, counts)
    assert all(where.topic in members[member] for member, share in given.items() for where in share)


@pytest.mark.parametrize("name", ["roundrobin", "sticky", "cooperative-sticky"])
@given(st.integers(1, 6), counts_of)
def test_members_that_want_the_same_get_the_same_give_or_take_one(name: str, size: int, counts: dict[str, int]) -> None:
    given = STRATEGIES[name].assign(fresh({f"m{number}": TOPICS for number in range(size)}), counts)
    sizes = [len(share) for share in given.values()]
    assert max(sizes) - min(sizes) <= 1


def test_range_gives_neighbouring_partitions_and_the_rest_to_the_first() -> None:
    given = assign_range(fresh({"x": ["a", "b"], "y": ["a", "b"]}), {"a": 3, "b": 3})
    assert given == {
        "x": [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", 1)],
        "y": [TopicPartition("a", 2), TopicPartition("b", 2)],
    }


def test_round_robin_deals_all_topics_as_one_row() -> None:
    given = assign_round_robin(fresh({"x": ["a", "b"], "y": ["a", "b"]}), {"a": 3, "b": 3})
    assert given == {
        "x": [TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)],
        "y": [TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", 2)],
    }


def test_static_members_come_before_others_in_the_order_of_their_names() -> None:
    members = {
        "z": MemberSubscription(["a"], [], group_instance_id="first"),
        "a": MemberSubscription(["a"], []),
        "b": MemberSubscription(["a"], [], group_instance_id="second"),
    }
    assert [next(iter(assign_range(members, {"a": 3})[member])).partition for member in ("z", "b", "a")] == [0, 1, 2]


@pytest.mark.slow
@given(subscriptions, counts_of)
def test_sticky_changes_nothing_when_nothing_changed(members: dict[str, list[str]], counts: dict[str, int]) -> None:
    first = assign_sticky(fresh(members), counts)
    assert assign_sticky(holding(members, first), counts) == first


@given(st.integers(2, 6), st.integers(0, 20))
def test_sticky_moves_only_what_a_new_member_must_get(size: int, count: int) -> None:
    members = {f"m{number}": ["a"] for number in range(size)}
    before = assign_sticky(fresh(members), {"a": count})
    after = assign_sticky(holding({**members, "new": ["a"]}, before), {"a": count})
    moved = sum(len(set(before[member]) - set(after[member])) for member in members)
    assert moved == len(after["new"]) == count // (size + 1)


@given(subscriptions, subscriptions, counts_of)
def test_cooperative_never_gives_what_another_still_holds_and_settles_after_a_few_rounds(
    members: dict[str, list[str]], later: dict[str, list[str]], counts: dict[str, int]
) -> None:
    held = assign_cooperative_sticky(fresh(members), counts)
    for _ in range(4):
        given = assign_cooperative_sticky(holding(later, held), counts)
        for member, share in given.items():
            for other in later.keys() - {member}:
                wanted = {where for where in held.get(other, []) if where.topic in later[other]}
                assert not wanted & set(share)
        held = given
    assert sorted(where for share in held.values() for where in share) == wanted_partitions(later, counts)


def test_of_two_that_claim_a_partition_the_later_generation_has_it() -> None:
    claimed = [TopicPartition("a", 0)]
    members = {"old": MemberSubscription(["a"], claimed, 3), "new": MemberSubscription(["a"], claimed, 4)}
    assert assign_sticky(members, {"a": 1}) == {"old": [], "new": claimed}


@given(
    st.lists(st.sampled_from(TOPICS), unique=True), st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 50)), unique=True)
)
def test_what_members_tell_one_another_survives_the_trip(topics: list[str], owned: list[tuple[str, int]]) -> None:
    partitions = sorted(TopicPartition(*where) for where in owned)
    said = decode_subscription(encode_subscription(MemberSubscription(topics, partitions, 7)), "static")
    assert said == MemberSubscription(sorted(topics), partitions, 7, "static")
    assert decode_assignment(encode_assignment(partitions)).partitions == partitions


def test_an_empty_assignment_is_no_partitions() -> None:
    assert decode_assignment(b"").partitions == []
