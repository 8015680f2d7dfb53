"""Plans of moves: which brokers replicas should be on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.admin.replica_plans import drain_broker, spread
from ottla.client.errors import SettingError
from ottla.client.types import TopicPartition


def placed(*replicas: Sequence[int]) -> dict[TopicPartition, list[int]]:
    return {TopicPartition("t", index): list(nodes) for index, nodes in enumerate(replicas)}


def no_racks(*nodes: int) -> dict[int, str | None]:
    return dict.fromkeys(nodes)


def test_what_is_not_on_the_drained_broker_stays() -> None:
    moves = drain_broker(placed([1, 2], [2, 3], [3, 1]), 1, no_racks(1, 2, 3))
    assert moves == {TopicPartition("t", 0): [3, 2], TopicPartition("t", 2): [3, 2]}


def test_a_replica_takes_the_place_of_the_drained_one_so_that_a_follower_gives_no_lead_away() -> None:
    moves = drain_broker(placed([2, 1]), 1, no_racks(1, 2, 3))
    assert moves == placed([2, 3])


def test_a_drained_brokers_replicas_go_to_racks_that_have_none() -> None:
    moves = drain_broker(placed([1, 2]), 1, {1: "a", 2: "b", 3: "b", 4: "a"})
    assert moves == placed([4, 2])


def test_a_broker_that_is_needed_cannot_be_drained() -> None:
    with pytest.raises(SettingError, match="t-0 needs 2 brokers, and 1 are available"):
        drain_broker(placed([1, 2]), 1, no_racks(1, 2))


def test_a_dead_broker_can_be_drained() -> None:
    assert drain_broker(placed([1, 2]), 1, no_racks(2, 3)) == placed([3, 2])


def test_topics_that_lie_well_do_not_move() -> None:
    assert spread(placed([1, 2], [2, 3], [3, 1]), no_racks(1, 2, 3)) == {}


def test_a_new_broker_gets_its_share_and_only_that_moves() -> None:
    before = placed([1], [2], [1], [2], [1], [2])
    after = {**before, **spread(before, no_racks(1, 2, 3))}
    assert Counter(node for replicas in after.values() for node in replicas) == {1: 2, 2: 2, 3: 2}
    assert sum(after[where] != before[where] for where in before) == 2


def test_more_replicas_are_asked_for() -> None:
    after = spread(placed([1], [1]), no_racks(1, 2, 3), 3)
    assert all(sorted(replicas) == [1, 2, 3] for replicas in after.values())
    assert len({replicas[0] for replicas in after.values()}) == 2


racks = st.dictionaries(st.integers(0, 9), st.sampled_from([None, "a", "b", "c"]), min_size=3)


placements = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), min_size=1, max_size=7)


def held_by(brokers: Iterable[int], after: Mapping[TopicPartition, Sequence[int]]) -> list[int]:
    counts = Counter(node for replicas in after.values() for node in replicas)
    return [counts[node] for node in brokers]


def moved(before: Mapping[TopicPartition, Sequence[int]], after: Mapping[TopicPartition, Sequence[int]]) -> int:
    """How many replicas are new where they are."""
    return sum(len(set(after[where]).difference(before[where])) for where in before)


def fewest(before: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[int], sizes: Mapping[TopicPartition, int]) -> int:
    """How many replicas must move until brokers hold equally many or one more: a flow of least cost, one path after another."""
    fair, left = divmod(sum(sizes.values()), len(brokers))
    edges: list[list[Any]] = []
    for where, size in sizes.items():
        edges.append(["source", where, size, 0])
        edges += [[where, node, 1, int(node not in before[where])] for node in brokers]
    for node in brokers:
        edges += [[node, "sink", fair, -1_000], [node, "more", 1, 0]]
    edges.append(["more", "sink", left, 0])
    edges += [[target, source, 0, -cost] for source, target, _, cost in edges]
    half, total = len(edges) // 2, 0
    for _ in range(sum(sizes.values())):
        cost, by = dict[object, int](source=0), dict[object, int]()
        is_nearer = True
        while is_nearer:
            is_nearer = False
            for at, (source, target, room, price) in enumerate(edges):
                if room and source in cost and cost[source] + price < cost.get(target, 1 << 30):
                    cost[target], by[target], is_nearer = cost[source] + price, at, True
        reached: object = "sink"
        while reached != "source":
            at = by[reached]
            edges[at][2] -= 1
            edges[(at + half) % len(edges)][2] += 1
            reached = edges[at][0]
        total += cost["sink"]
    return total + 1_000 * fair * len(brokers)


@settings(max_examples=200, deadline=None)
@given(st.sets(st.integers(0, 6), min_size=4), placements, st.none() | st.integers(1, 4))
def test_a_spread_is_fair_and_moves_no_more_than_it_must(brokers: set[int], replicas: list[list[int]], factor: int | None) -> None:
    before, nodes = placed(*replicas), sorted(brokers)
    after = {**before, **spread(before, no_racks(*nodes), factor)}
    sizes = {where: factor or len(some) for where, some in before.items()}
    for where, some in after.items():
        assert len(set(some)) == len(some) == sizes[where]
        assert set(some) <= brokers
    held = held_by(nodes, after)
    assert max(held) - min(held) <= 1
    assert moved(before, after) == fewest(before, nodes, sizes)
    assert spread(after, no_racks(*nodes), factor) == {}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=4, max_size=7), placements, st.none() | st.integers(1, 4))
def test_a_spread_takes_no_rack_from_a_partition(
    given_racks: list[str | None], replicas: list[list[int]], factor: int | None
) -> None:
    brokers = dict(enumerate(given_racks))
    before = placed(*replicas)
    after = {**before, **spread(before, brokers, factor)}
    sizes = {where: factor or len(some) for where, some in before.items()}

    def on_racks(nodes: Iterable[int]) -> int:
        return len({brokers[node] or node for node in nodes if node in brokers})

    for where, some in after.items():
        assert len(set(some)) == len(some) == sizes[where]
        assert on_racks(some) >= min(on_racks(before[where]), sizes[where])
    assert spread(after, brokers, factor) == {}


@pytest.mark.parametrize("count", [6, 100])
def test_a_broker_added_to_three_gets_a_quarter_of_three_replicas_each(count: int) -> None:
    before = placed(*([1 + (index + shift) % 3 for shift in range(3)] for index in range(count)))
    after = {**before, **spread(before, no_racks(1, 2, 3, 4))}
    held = held_by((1, 2, 3, 4), after)
    assert max(held) - min(held) <= 1
    assert moved(before, after) == held[3] == 3 * count // 4
    led = Counter(replicas[0] for replicas in after.values())
    assert max(led.values()) - min(led.values()) <= 1


def test_leads_pass_in_a_chain_where_no_broker_can_give_one_directly() -> None:
    before = placed([1, 2], [1, 2], [2, 3], [2, 3])
    after = {**before, **spread(before, no_racks(1, 2, 3))}
    led = Counter(replicas[0] for replicas in after.values())
    assert sorted(led.values()) == [1, 1, 2]


@given(racks, st.data())
def test_a_drained_broker_holds_nothing_and_the_others_lose_nothing(brokers: Mapping[int, str | None], data: st.DataObject) -> None:
    nodes = st.lists(st.sampled_from(sorted(brokers)), min_size=1, max_size=2, unique=True)
    before = placed(*data.draw(st.lists(nodes, min_size=1, max_size=20)))
    gone = data.draw(st.sampled_from(sorted(brokers)))
    moves = drain_broker(before, gone, brokers)
    assert set(moves) == {where for where, replicas in before.items() if gone in replicas}
    for where, replicas in moves.items():
        assert gone not in replicas
        assert set(before[where]) - {gone} < set(replicas)
        assert len(set(replicas)) == len(before[where])
