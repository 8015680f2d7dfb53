"""Throttles of moves as settings: replicas that are read from, and replicas that are new."""

from __future__ import annotations

from ottla.client.admin.reassignments import FOLLOWER_REPLICAS, LEADER_REPLICAS, throttled_brokers, throttled_replicas
from ottla.client.types import TopicPartition

BEFORE = {TopicPartition("t", 0): [1, 2], TopicPartition("t", 1): [1, 2], TopicPartition("u", 0): [4]}
AFTER = {TopicPartition("t", 0): [3, 2], TopicPartition("t", 1): [2, 1], TopicPartition("u", 0): [4, 5]}


def test_old_replicas_are_throttled_as_leaders_and_new_ones_as_followers() -> None:
    assert throttled_replicas(BEFORE, AFTER) == {
        "t": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"},
        "u": {LEADER_REPLICAS: "0:4", FOLLOWER_REPLICAS: "0:5"},
    }


def test_brokers_without_a_part_in_a_move_are_not_throttled() -> None:
    assert throttled_brokers({**BEFORE, TopicPartition("w", 0): [7, 8]}, {**AFTER, TopicPartition("w", 0): [8, 7]}) == [
        1,
        2,
        3,
        4,
        5,
    ]
