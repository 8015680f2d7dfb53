"""The assignor of share groups: balanced, sticky, and with several members for one partition if there are more members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.consumer.assign import Partitions, Subscriber, finish
from ottla.coord.share.simple_assignor import assign, assign_slowly
from ottla.wire.schema import Uuid

T, U = b"t" * 16, b"u" * 16
Assigned = Mapping[str, Partitions]


def members(count: int, *topics: Uuid, owned: Assigned | None = None) -> dict[str, Subscriber]:
    held = owned or {}
    return {f"m{at:03}": Subscriber(frozenset(topics or (T,)), owned=held.get(f"m{at:03}", {})) for at in range(count)}


def partitions(count: int) -> frozenset[int]:
    return frozenset(range(count))


def sizes(assigned: Assigned) -> list[int]:
    return sorted(sum(map(len, held.values())) for held in assigned.values())


def sharing(assigned: Assigned) -> Counter[tuple[Uuid, int]]:
    return Counter((topic, number) for held in assigned.values() for topic, numbers in held.items() for number in numbers)


def moved(before: Assigned, after: Assigned) -> int:
    """How many assignments are new."""
    return sum(
        len(numbers - before.get(member, {}).get(topic, frozenset()))
        for member, held in after.items()
        for topic, numbers in held.items()
    )


def test_each_partition_has_one_member_while_there_are_not_more_members_than_partitions() -> None:
    found = assign(members(3), {T: partitions(7)})
    assert sizes(found) == [2, 2, 3]
    assert set(sharing(found).values()) == {1}


def test_members_share_partitions_when_there_are_more_members_than_partitions() -> None:
    found = assign(members(7), {T: partitions(3)})
    assert sizes(found) == [1, 1, 1, 1, 1, 2, 2]
    assert sorted(sharing(found).values()) == [3, 3, 3]


def test_a_thousand_members_share_one_partition() -> None:
    found = assign(members(1_000), {T: partitions(1)})
    assert sizes(found) == [1] * 1_000


def test_members_without_partitions_have_an_empty_assignment() -> None:
    assert assign(members(2), {}) == {"m000": {}, "m001": {}}
    assert assign({}, {T: partitions(3)}) == {}


def test_a_partition_that_is_not_initialized_is_assigned_to_nobody() -> None:
    found = assign(members(2, T, U), {T: frozenset((1, 4))})
    assert set(sharing(found)) == {(T, 1), (T, 4)}


def test_topics_with_different_subscribers_are_balanced_one_by_one() -> None:
    subscribers = {"a": Subscriber(frozenset((T,))), "b": Subscriber(frozenset((U,))), "c": Subscriber(frozenset((T, U)))}
    found = assign(subscribers, {T: partitions(4), U: partitions(4)})
    assert {member: {topic: len(held) for topic, held in of.items()} for member, of in found.items()} == {
        "a": {T: 2},
        "b": {U: 2},
        "c": {T: 2, U: 2},
    }


def test_unchanged_assignments_are_the_same_objects() -> None:
    first = assign(members(3), {T: partitions(7)})
    again = assign(members(3, owned=first), {T: partitions(7)})
    assert all(again[member] is first[member] for member in first)


def test_a_new_member_takes_only_its_share() -> None:
    first = assign(members(3), {T: partitions(12)})
    after = assign(members(4, owned=first), {T: partitions(12)})
    assert sizes(after) == [3, 3, 3, 3]
    assert moved(first, after) == 3


def test_the_partitions_of_a_member_that_left_go_to_the_others_and_nothing_else_moves() -> None:
    first = assign(members(4), {T: partitions(12)})
    left = {member: held for member, held in members(4, owned=first).items() if member != "m001"}
    after = assign(left, {T: partitions(12)})
    assert sizes(after) == [4, 4, 4]
    assert moved(first, after) == 3


def test_a_topic_that_nobody_wants_any_more_is_taken_away() -> None:
    first = assign(members(2, T, U), {T: partitions(2), U: partitions(2)})
    after = assign(members(2, T, owned=first), {T: partitions(2), U: partitions(2)})
    assert set(sharing(after)) == {(T, 0), (T, 1)}


def test_a_large_assignment_pauses_and_has_the_same_result() -> None:
    subscribers, topics = members(300, T, U), {T: partitions(2_000), U: partitions(700)}
    work = assign_slowly(subscribers, topics)
    assert sum(1 for _ in work) >= 10
    assert finish(assign_slowly(subscribers, topics)) == assign(subscribers, topics)


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, Subscriber], dict[Uuid, frozenset[int]]]:
    topics = [bytes([at]) * 16 for at in range(draw(st.integers(1, 4)))]
    assignable = {topic: frozenset(draw(st.sets(st.integers(0, 9)))) for topic in topics}
    subscribers = {}
    for at in range(draw(st.integers(0, 9))):
        wanted = frozenset(draw(st.sets(st.sampled_from(topics))))
        owned = {topic: frozenset(numbers) for topic in topics if (numbers := draw(st.sets(st.integers(0, 11))))}
        subscribers[f"m{at}"] = Subscriber(wanted, owned=owned)
    return subscribers, assignable


@given(groups())
def test_nobody_gets_what_it_does_not_want_and_no_partition_is_left_out(
    group: tuple[dict[str, Subscriber], dict[Uuid, frozenset[int]]],
) -> None:
    subscribers, assignable = group
    found = assign(subscribers, assignable)
    assert found.keys() == subscribers.keys()
    for member, held in found.items():
        assert held.keys() <= subscribers[member].topic_ids
        assert all(numbers and numbers <= assignable[topic] for topic, numbers in held.items())
    shared = sharing(found)
    for topic, numbers in assignable.items():
        wanting = sum(topic in subscriber.topic_ids for subscriber in subscribers.values())
        if len({subscriber.topic_ids for subscriber in subscribers.values()}) > 1 and wanting:
            most = -(-wanting // len(numbers)) if numbers else 0
            assert all(1 <= shared[topic, number] <= most for number in numbers)
        elif wanting:
            assert all(shared[topic, number] >= 1 for number in numbers)


@given(groups())
def test_a_second_assignment_moves_nothing(group: tuple[dict[str, Subscriber], dict[Uuid, frozenset[int]]]) -> None:
    subscribers, assignable = group
    first = assign(subscribers, assignable)
    again = assign({id_: subscriber._replace(owned=first[id_]) for id_, subscriber in subscribers.items()}, assignable)
    assert moved(first, again) == 0
