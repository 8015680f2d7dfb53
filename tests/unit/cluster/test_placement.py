"""Where replicas go."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.topics import assignment_error, factor_error, spread, spread_over_racks
from ottla.wire.errors import INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, NONE


@given(st.data(), st.integers(1, 9), st.integers(1, 40), st.integers(0, 100))
def test_leaders_are_spread_evenly_and_replicas_are_on_different_brokers(
    data: st.DataObject, count: int, partitions: int, first: int
) -> None:
    brokers = [10 * number for number in range(count)]
    factor = data.draw(st.integers(1, count))
    placed = spread(brokers, partitions, factor, first)
    assert len(placed) == partitions
    assert all(len(set(nodes)) == factor and set(nodes) <= set(brokers) for nodes in placed)
    leaders = Counter(nodes[0] for nodes in placed)
    most, least = max(leaders[node] for node in brokers), min(leaders[node] for node in brokers)
    assert most - least <= 1


def test_followers_of_one_leader_are_not_all_on_its_neighbour() -> None:
    placed = spread([1, 2, 3], 6, 2)
    assert {nodes for nodes in placed if nodes[0] == 1} == {(1, 2), (1, 3)}


@given(st.data(), st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(1, 40), st.integers(0, 100))
def test_replicas_are_on_as_many_racks_as_there_are(data: st.DataObject, rows: list[int], partitions: int, first: int) -> None:
    racks = {node: f"rack{row}" for node, row in enumerate(rows)}
    factor = data.draw(st.integers(1, len(racks)))
    placed = spread_over_racks(racks, partitions, factor, first)
    assert len(placed) == partitions
    for nodes in placed:
        assert len(set(nodes)) == factor
        assert len({racks[node] for node in nodes}) == min(factor, len(set(rows)))
    leaders = Counter(nodes[0] for nodes in placed)
    assert max(leaders.values()) - min(leaders[node] for node in racks) <= 1


def test_racks_mean_nothing_where_a_broker_has_none() -> None:
    assert spread_over_racks({1: "a", 2: "a", 3: None}, 5, 2, 1) == spread([1, 2, 3], 5, 2, 1)


@pytest.mark.parametrize(
    ("factor", "code"),
    [(0, INVALID_REPLICATION_FACTOR), (-2, INVALID_REPLICATION_FACTOR), (1, NONE), (2, NONE), (3, INVALID_REPLICATION_FACTOR)],
)
def test_there_are_at_least_one_replica_and_at_most_one_for_each_broker(factor: int, code: int) -> None:
    error_code, sentence = factor_error(factor, 2)
    assert error_code == code
    assert (sentence is None) == (code == NONE)


@pytest.mark.parametrize("replicas", [[[1, 1]], [[]], [[9]], [[1], [1, 2]], [[1], []]])
def test_a_placement_that_cannot_be_is_refused(replicas: list[list[int]]) -> None:
    error_code, sentence = assignment_error(replicas, [1, 2])
    assert error_code == INVALID_REPLICA_ASSIGNMENT
    assert sentence is not None


def test_a_placement_on_brokers_that_are_up_is_taken() -> None:
    assert assignment_error([[1, 2], [2, 1]], [1, 2]) == (NONE, None)
    assert assignment_error([[1]], [1, 2], size=2)[0] == INVALID_REPLICA_ASSIGNMENT
