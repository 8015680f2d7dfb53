"""Where replicas go."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.placement import assignment_error, factor_error, spread
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
