"""What every assignor promises, and what `uniform` and `range` promise beyond, on groups of random shape."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.consumer.assign import Assignor, Subscriber, TopicShape
from ottla.coord.consumer.assign.range import RangeAssignor
from ottla.coord.consumer.assign.uniform import UniformAssignor
from tests.support.assignments import (
    RACKS,
    Subscribers,
    Topics,
    changed,
    check_whole,
    groups,
    most_level,
    moves,
    owners,
    settled,
    sizes,
    topic_id,
)

UNIFORM, RANGE = UniformAssignor(), RangeAssignor()
BOTH = pytest.mark.parametrize("assignor", [UNIFORM, RANGE], ids=["uniform", "range"])
A, B, C = topic_id(1), topic_id(2), topic_id(3)
SEEDS = st.integers(0, 1 << 32)


def members(count: int, *topic_ids: bytes) -> Subscribers:
    return {f"m-{number}": Subscriber(frozenset(topic_ids)) for number in range(count)}


@pytest.mark.slow
@BOTH
@given(group=groups(), seed=SEEDS)
def test_every_partition_has_one_owner_and_that_is_a_subscriber(
    assignor: Assignor, group: tuple[Subscribers, Topics], seed: int
) -> None:
    check_whole(*group, assignor.assign(*group))
    after = changed(settled(assignor, *group), group[1], seed)
    check_whole(*after, assignor.assign(*after))


@pytest.mark.slow
@BOTH
@given(group=groups(), seed=SEEDS)
def test_the_same_question_has_the_same_answer_in_whatever_order_it_is_put(
    assignor: Assignor, group: tuple[Subscribers, Topics], seed: int
) -> None:
    subscribers, topics = changed(settled(assignor, *group), group[1], seed)
    backwards = dict(reversed(subscribers.items())), dict(reversed(topics.items()))
    assert assignor.assign(subscribers, topics) == assignor.assign(*backwards)


@BOTH
@given(group=groups())
def test_who_keeps_what_it_has_is_told_so_by_the_mapping_it_came_with(
    assignor: Assignor, group: tuple[Subscribers, Topics]
) -> None:
    subscribers = settled(assignor, *group)
    assigned = assignor.assign(subscribers, group[1])
    assert all(assigned[member_id] is subscriber.owned for member_id, subscriber in subscribers.items())


@BOTH
def test_nobody_is_assigned_nothing(assignor: Assignor) -> None:
    assert assignor.assign({}, {A: TopicShape(3)}) == {}
    assert assignor.assign(members(2), {A: TopicShape(3)}) == {"m-0": {}, "m-1": {}}


@BOTH
def test_a_topic_that_is_not_there_is_passed_over(assignor: Assignor) -> None:
    subscribers = members(1, A, B) | {"m-0": Subscriber(frozenset({A, B}), owned={B: frozenset({0})})}
    assert assignor.assign(subscribers, {A: TopicShape(1)}) == {"m-0": {A: frozenset({0})}}


@given(group=groups(alike=True), seed=SEEDS)
def test_members_alike_have_equally_many_give_or_take_one(group: tuple[Subscribers, Topics], seed: int) -> None:
    after = changed(settled(UNIFORM, *group), group[1], seed)
    shares = sizes(UNIFORM.assign(*after), after[0])
    assert not shares or shares[0] - shares[-1] <= 1


@given(group=groups(alike=True), seed=SEEDS)
def test_no_more_partitions_move_than_must_for_equal_shares(group: tuple[Subscribers, Topics], seed: int) -> None:
    """Each member keeps what it has up to the share, the larger share going to those with most."""
    subscribers, topics = changed(settled(UNIFORM, *group), group[1], seed)
    assigned = UNIFORM.assign(subscribers, topics)
    shares = sizes(assigned, subscribers)
    kept = {member_id: {t: frozenset(n for n in ns if n < topics[t].partitions)
                        for t, ns in each.owned.items() if t in topics and t in each.topic_ids}
            for member_id, each in subscribers.items()}  # fmt: skip
    had = sizes(kept, subscribers)
    assert moves(subscribers, assigned) == sum(max(0, before - share) for before, share in zip(had, shares, strict=True))


@given(group=groups(most_members=6, alike=False), seed=SEEDS)
def test_no_assignment_is_more_level_than_uniforms(group: tuple[Subscribers, Topics], seed: int) -> None:
    assert sizes(UNIFORM.assign(*group), group[0]) == most_level(*group)
    after = changed(settled(UNIFORM, *group), group[1], seed)
    assert sizes(UNIFORM.assign(*after), after[0]) == most_level(*after)


def test_a_chain_of_members_relieves_one_that_shares_no_topic_with_the_least() -> None:
    """Nine, ten and eleven partitions: no topic has subscribers that differ by two, and yet a step is possible."""
    subscribers = {
        "m-1": Subscriber(frozenset({A}), owned={A: frozenset(range(9))}),
        "m-2": Subscriber(frozenset({A, B}), owned={A: frozenset({9}), B: frozenset(range(9))}),
        "m-3": Subscriber(frozenset({B}), owned={B: frozenset(range(9, 20))}),
    }
    topics = {A: TopicShape(10), B: TopicShape(20)}
    assigned = UNIFORM.assign(subscribers, topics)
    assert sizes(assigned, subscribers) == [10, 10, 10]
    assert moves(subscribers, assigned) == 2


def test_each_topic_is_spread_over_the_members() -> None:
    assigned = UNIFORM.assign(members(3, A, B), {A: TopicShape(3), B: TopicShape(3)})
    assert all(len(partitions[A]) == len(partitions[B]) == 1 for partitions in assigned.values())


def test_a_partition_that_two_members_claim_stays_with_one() -> None:
    owned = {A: frozenset({0, 1})}
    subscribers = {member_id: Subscriber(frozenset({A}), owned=owned) for member_id in ("m-1", "m-2")}
    check_whole(subscribers, {A: TopicShape(4)}, UNIFORM.assign(subscribers, {A: TopicShape(4)}))


@st.composite
def racked(draw: st.DrawFn) -> tuple[Subscribers, Topics]:
    subscribers, topics = draw(groups(most_members=6))
    racks = st.frozensets(st.sampled_from(RACKS), max_size=2)
    shapes = {
        each: TopicShape(shape.partitions, tuple(draw(racks) for _ in range(shape.partitions))) for each, shape in topics.items()
    }
    some = st.none() | st.sampled_from(RACKS)
    return {member_id: each._replace(rack_id=draw(some)) for member_id, each in subscribers.items()}, shapes


def near(subscribers: Subscribers, topics: Topics, assigned: dict[tuple[bytes, int], str]) -> int:
    """How many partitions are read in the reader's rack."""
    return sum(subscribers[member_id].rack_id in topics[t].racks[n] for (t, n), member_id in assigned.items())


@given(group=racked(), seed=SEEDS)
def test_racks_change_neither_shares_nor_moves(group: tuple[Subscribers, Topics], seed: int) -> None:
    blind = {member_id: each._replace(rack_id=None) for member_id, each in group[0].items()}
    with_racks, without = UNIFORM.assign(*group), UNIFORM.assign(blind, group[1])
    check_whole(*group, with_racks)
    assert sizes(with_racks, blind) == sizes(without, blind)
    assert near(*group, owners(with_racks)) >= near(*group, owners(without))
    before = {member_id: each._replace(owned=without[member_id]) for member_id, each in group[0].items()}
    after, _ = changed(before, group[1], seed)
    blind = {member_id: each._replace(rack_id=None) for member_id, each in after.items()}
    with_racks, without = UNIFORM.assign(after, group[1]), UNIFORM.assign(blind, group[1])
    check_whole(after, group[1], with_racks)
    assert moves(after, with_racks) <= moves(after, without)


def test_each_rack_reads_its_own_replicas_where_that_is_possible() -> None:
    racks = tuple(frozenset({RACKS[(number // 2) % 3]}) for number in range(12))
    subscribers = {f"m-{number}": Subscriber(frozenset({A}), rack_id=RACKS[number % 3]) for number in range(6)}
    topics = {A: TopicShape(12, racks)}
    assigned = UNIFORM.assign(subscribers, topics)
    assert near(subscribers, topics, owners(assigned)) == 12
    assert set(sizes(assigned, subscribers)) == {2}


@given(group=groups())
def test_a_range_is_neighbours_and_the_first_members_have_the_larger_ones(group: tuple[Subscribers, Topics]) -> None:
    subscribers, topics = group
    assigned = RANGE.assign(subscribers, topics)
    order = sorted(subscribers, key=lambda m: (subscribers[m].instance_id is None, subscribers[m].instance_id or m))
    for each, shape in topics.items():
        readers = [member_id for member_id in order if each in subscribers[member_id].topic_ids]
        dealt = [sorted(assigned[member_id].get(each, ())) for member_id in readers]
        assert [number for numbers in dealt for number in numbers] == (list(range(shape.partitions)) if readers else [])
        assert [len(numbers) for numbers in dealt] == sorted(map(len, dealt), reverse=True)
        assert not dealt or len(dealt[0]) - len(dealt[-1]) <= 1


def test_topics_of_one_size_are_co_partitioned() -> None:
    assigned = RANGE.assign(members(3, A, B, C), dict.fromkeys((A, B, C), TopicShape(7)))
    assert all(partitions[A] == partitions[B] == partitions[C] for partitions in assigned.values())


def test_a_static_member_has_the_same_range_under_a_new_id() -> None:
    topics = {A: TopicShape(4)}
    before = {"x": Subscriber(frozenset({A}), "i-1"), "y": Subscriber(frozenset({A}), "i-2"), "a": Subscriber(frozenset({A}))}
    after = {"z": before["x"], "b": before["y"], "a": before["a"]}
    one, other = RANGE.assign(before, topics), RANGE.assign(after, topics)
    assert (one["x"], one["y"], one["a"]) == (other["z"], other["b"], other["a"])
    assert Counter(map(len, (partitions[A] for partitions in one.values()))) == {2: 1, 1: 2}
