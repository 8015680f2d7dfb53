"""Plans of moves: which brokers replicas should be on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import SettingError
from ottla.client.replica_plans import drained, spread
from ottla.client.types import TopicPartition


def placed(*replicas: Sequence[int]) -> dict[TopicPartition, list[int]]:
    return {TopicPartition("t", index): list(nodes) for index, nodes in enumerate(replicas)}


def no_racks(*nodes: int) -> dict[int, str | None]:
    return dict.fromkeys(nodes)


def test_what_is_not_on_the_drained_broker_stays() -> None:
    moves = drained(placed([1, 2], [2, 3], [3, 1]), 1, no_racks(1, 2, 3))
    assert moves == {TopicPartition("t", 0): [3, 2], TopicPartition("t", 2): [3, 2]}


def test_a_replica_takes_the_place_of_the_drained_one_so_that_a_follower_gives_no_lead_away() -> None:
    moves = drained(placed([2, 1]), 1, no_racks(1, 2, 3))
    assert moves == placed([2, 3])


def test_a_drained_brokers_replicas_go_to_racks_that_have_none() -> None:
    moves = drained(placed([1, 2]), 1, {1: "a", 2: "b", 3: "b", 4: "a"})
    assert moves == placed([4, 2])


def test_a_broker_that_is_needed_cannot_be_drained() -> None:
    with pytest.raises(SettingError, match="t-0 needs 2 brokers and there are 1"):
        drained(placed([1, 2]), 1, no_racks(1, 2))


def test_a_dead_broker_can_be_drained() -> None:
    assert drained(placed([1, 2]), 1, no_racks(2, 3)) == placed([3, 2])


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


@given(racks, st.data())
def test_a_spread_is_fair_and_has_each_replica_once(brokers: Mapping[int, str | None], data: st.DataObject) -> None:
    nodes = st.lists(st.integers(0, 12), min_size=1, max_size=3, unique=True)
    before = placed(*data.draw(st.lists(nodes, min_size=1, max_size=20)))
    after = {**before, **spread(before, brokers)}
    for where, replicas in after.items():
        assert len(set(replicas)) == len(replicas) == len(before[where])
        assert set(replicas) <= set(brokers)
    counts = Counter(node for replicas in after.values() for node in replicas)
    if all(len(replicas) == 1 for replicas in after.values()):
        assert max(counts[node] for node in brokers) - min(counts[node] for node in brokers) <= 1


@given(racks, st.data())
def test_a_drained_broker_holds_nothing_and_the_others_lose_nothing(brokers: Mapping[int, str | None], data: st.DataObject) -> None:
    nodes = st.lists(st.sampled_from(sorted(brokers)), min_size=1, max_size=2, unique=True)
    before = placed(*data.draw(st.lists(nodes, min_size=1, max_size=20)))
    gone = data.draw(st.sampled_from(sorted(brokers)))
    moves = drained(before, gone, brokers)
    assert set(moves) == {where for where, replicas in before.items() if gone in replicas}
    for where, replicas in moves.items():
        assert gone not in replicas
        assert set(before[where]) - {gone} < set(replicas)
        assert len(set(replicas)) == len(before[where])
