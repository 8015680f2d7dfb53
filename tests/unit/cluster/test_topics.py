"""Decisions about topics, each made true through a registry and read back into a fresh image."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster import layout, topics
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.cluster.registry_entries import apply_entry, load
from ottla.cluster.topics import TopicSpec
from ottla.ports import Change
from ottla.sim.registry import MemoryRegistry
from ottla.wire.errors import (
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    NONE,
    POLICY_VIOLATION,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.broker_entry import broker_json
from tests.support.entries import make_entry


def no_bad_config(configs: Mapping[str, str | None]) -> str | None:
    return "bad is no setting." if "bad" in configs else None


def loaded(registry: MemoryRegistry) -> ClusterImage:
    image = ClusterImage()
    load(image, registry)
    return image


def _led(decision: Decision, first: int) -> list[Change]:
    """Return the states that the controller gives to new partitions, which the first of their replicas leads."""
    return [
        Change(layout.state_path(decision.name, index), layout.state_json(0, nodes[0], 0, nodes))
        for index, nodes in enumerate(decision.replicas, first)
    ]


class Cluster:
    """A registry and the image of it, as a broker keeps them."""

    def __init__(self, brokers: int = 1) -> None:
        self.registry = MemoryRegistry()
        self.image = ClusterImage()
        self._ids = itertools.count(1)
        endpoint = ["PLAINTEXT://localhost:9092"]
        self.commit(
            [Change(layout.broker_path(n), broker_json("localhost", 9092, endpoint, None, 0)) for n in range(1, brokers + 1)]
        )

    def commit(self, changes: list[Change]) -> None:
        self.registry.commit(changes)
        for change in changes:
            apply_entry(self.image, change.path, change.value)

    def create(self, *wanted: TopicSpec) -> list[Decision]:
        decisions = topics.create(self.image, wanted, lambda: next(self._ids).to_bytes(16, "big"), no_bad_config)
        for decision in decisions:
            self.commit([*decision.changes, *_led(decision, 0)])
        return decisions

    def code(self, *wanted: TopicSpec) -> int:
        """The error code of the last of these topics."""
        decision = self.create(*wanted)[-1]
        assert (decision.message is None) == (decision.error_code == NONE)
        assert decision.message is None or decision.message.endswith(".")
        return decision.error_code

    def grow(self, name: str, count: int, assignments: list[list[int]] | None = None) -> int:
        decision = topics.add_partitions(self.image, name, self.image.topics.get(name), count, assignments)
        first = len(self.image.topics[name].partitions) if decision.changes else 0
        self.commit([*decision.changes, *_led(decision, first)])
        return decision.error_code

    def delete(self, name: str) -> None:
        """Remove a topic as the controller does."""
        self.commit([Change(layout.topic_path(name), None), Change(layout.topic_config_path(name), None)])

    def reloaded(self) -> ClusterImage:
        return loaded(self.registry)


def placed(name: str, *replicas: list[int], first: int = 0) -> TopicSpec:
    return TopicSpec(name, -1, -1, tuple((index, tuple(nodes)) for index, nodes in enumerate(replicas, first)))


def test_a_created_topic_is_in_the_image_with_its_partitions_settings_and_id() -> None:
    cluster = Cluster(brokers=3)
    (decision,) = cluster.create(TopicSpec("t", 4, 2, configs={"retention.ms": " 5 "}))
    topic = cluster.image.topics["t"]
    assert [partition.index for partition in topic.partitions] == [0, 1, 2, 3]
    assert all(partition.leader == partition.replicas[0] for partition in topic.partitions)
    assert all(partition.isr == partition.replicas for partition in topic.partitions)
    assert topic.configs == {"retention.ms": "5"}
    assert cluster.image.name_of(decision.topic_id) == "t"


def test_an_image_read_from_the_registry_equals_the_one_that_the_changes_made() -> None:
    cluster = Cluster(brokers=2)
    cluster.create(TopicSpec("a", 2, 2, configs={"x": "1"}), TopicSpec("b", 1, 1))
    cluster.grow("a", 5)
    cluster.delete("b")
    loaded = cluster.reloaded()
    assert loaded.topics == cluster.image.topics
    assert loaded.brokers == cluster.image.brokers
    assert list(loaded.topics) == ["a"]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (TopicSpec(""), INVALID_TOPIC_EXCEPTION),
        (TopicSpec("a b"), INVALID_TOPIC_EXCEPTION),
        (TopicSpec("there_is"), INVALID_TOPIC_EXCEPTION),
        (TopicSpec("there.is"), TOPIC_ALREADY_EXISTS),
        (TopicSpec("__cluster_metadata"), INVALID_REQUEST),
        (TopicSpec("__consumer_offsets"), NONE),
        (TopicSpec("t", 0), INVALID_PARTITIONS),
        (TopicSpec("t", -2), INVALID_PARTITIONS),
        (TopicSpec("t", 10_001), POLICY_VIOLATION),
        (TopicSpec("t", -1, -1, tuple((index, (9,)) for index in range(10_001))), POLICY_VIOLATION),
        (TopicSpec("t", 1, 0), INVALID_REPLICATION_FACTOR),
        (TopicSpec("t", 1, 3), INVALID_REPLICATION_FACTOR),
        (TopicSpec("t", 1, 2), NONE),
        (TopicSpec("t", configs={"bad": "1"}), INVALID_CONFIG),
        (TopicSpec("t", 2, 1, ((0, (1,)), (1, (2,)))), INVALID_REQUEST),
        (TopicSpec("t", -1, 1, ((0, (1,)),)), INVALID_REQUEST),
        (placed("t", [1], [2]), NONE),
        (placed("t", [1, 2], [2, 1]), NONE),
        (placed("t", [1], first=1), INVALID_REPLICA_ASSIGNMENT),
        (placed("t", [1, 1]), INVALID_REPLICA_ASSIGNMENT),
        (placed("t", [1], [1, 2]), INVALID_REPLICA_ASSIGNMENT),
        (placed("t", [7]), INVALID_REPLICA_ASSIGNMENT),
        (placed("t", []), INVALID_REPLICA_ASSIGNMENT),
        (TopicSpec("t", -1, -1, ((0, (1,)), (0, (1,)))), INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_topic_that_cannot_be_made_has_kafkas_code_and_leaves_nothing(wanted: TopicSpec, code: int) -> None:
    cluster = Cluster(brokers=2)
    cluster.create(TopicSpec("there.is"))
    before = cluster.reloaded().topics
    assert cluster.code(wanted) == code
    assert (cluster.reloaded().topics == before) == (code != NONE)


def test_a_topic_that_a_request_names_twice_is_not_made_and_the_others_are() -> None:
    cluster = Cluster()
    decisions = cluster.create(TopicSpec("twice"), TopicSpec("once"), TopicSpec("twice"))
    assert [decision.error_code for decision in decisions] == [INVALID_REQUEST, NONE, INVALID_REQUEST]
    assert list(cluster.image.topics) == ["once"]


def test_two_names_of_one_request_may_not_collide() -> None:
    assert Cluster().code(TopicSpec("a.b"), TopicSpec("a_b")) == INVALID_TOPIC_EXCEPTION


def test_a_request_makes_ten_thousand_partitions_at_most_over_all_its_topics() -> None:
    assert Cluster().code(TopicSpec("a", 9_999), TopicSpec("b", 1), TopicSpec("c", 1)) == POLICY_VIOLATION


def test_a_deleted_topic_is_gone_by_name_and_by_id_and_its_name_can_be_used_again() -> None:
    cluster = Cluster()
    (first,) = cluster.create(TopicSpec("t_1", 2, configs={"a": "b"}))
    cluster.delete("t_1")
    assert cluster.image.name_of(first.topic_id) is None
    assert cluster.registry.children(layout.TOPICS) == cluster.registry.children(layout.TOPIC_CONFIGS) == []
    (second,) = cluster.create(TopicSpec("t.1"))
    assert second.error_code == NONE
    assert second.topic_id != first.topic_id
    assert cluster.image.topics["t.1"].configs == {}


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("t", 3, None, NONE),
        ("t", 2, None, INVALID_PARTITIONS),
        ("t", 1, None, INVALID_PARTITIONS),
        ("t", 0, None, INVALID_PARTITIONS),
        ("t", 20_000, None, POLICY_VIOLATION),
        ("nobody", 3, None, UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 4, [[1]], INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[]], INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[9]], INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[1, 2]], INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[2]], NONE),
    ],
)
def test_partitions_are_added_and_never_taken_away(name: str, count: int, assignments: list[list[int]] | None, code: int) -> None:
    cluster = Cluster(brokers=2)
    cluster.create(TopicSpec("t", 2))
    before = [partition.replicas for partition in cluster.image.topics["t"].partitions]
    assert cluster.grow(name, count, assignments) == code
    after = [partition.replicas for partition in cluster.reloaded().topics["t"].partitions]
    assert after[:2] == before
    assert len(after) == (count if code == NONE else 2)
    assert assignments is None or code or after[2:] == [tuple(nodes) for nodes in assignments]


def test_settings_replace_all_those_before() -> None:
    cluster = Cluster()
    cluster.create(TopicSpec("t", configs={"a": "1", "b": "2"}))
    decision = topics.set_configs(cluster.image.topics["t"], {"b": "3"}, no_bad_config)
    cluster.commit(list(decision.changes))
    assert cluster.reloaded().topics["t"].configs == {"b": "3"}
    assert topics.set_configs(cluster.image.topics["t"], {"bad": "3"}, no_bad_config).error_code == INVALID_CONFIG


def test_the_registry_holds_what_kafka_would_have_written() -> None:
    cluster = Cluster()
    cluster.create(TopicSpec("t", 1, configs={"retention.ms": "5"}))
    stored = {
        path: cluster.registry.get(path)
        for path in (layout.topic_path("t"), layout.state_path("t", 0), layout.topic_config_path("t"))
    }
    assert {path: json.loads(entry.value) for path, entry in stored.items() if entry is not None} == {
        "/brokers/topics/t": {
            "removing_replicas": {},
            "partitions": {"0": [1]},
            "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
            "adding_replicas": {},
            "version": 3,
        },
        "/brokers/topics/t/partitions/0/state": {"controller_epoch": 0, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1]},
        "/config/topics/t": {"version": 1, "config": {"retention.ms": "5"}},
    }


def test_a_topic_without_an_id_as_older_brokers_wrote_it_is_understood() -> None:
    registry = MemoryRegistry()
    make_entry(registry, "/brokers/topics/old", b'{"version":1,"partitions":{"1":[7],"0":[7,8]}}')
    topic = loaded(registry).topics["old"]
    assert [partition.replicas for partition in topic.partitions] == [(7, 8), (7,)]
    assert topic.topic_id == bytes(16)


@given(st.binary(min_size=16, max_size=16))
def test_topic_ids_are_written_as_kafka_writes_them(topic_id: bytes) -> None:
    text = layout.uuid_text(topic_id)
    assert len(text) == 22
    assert layout.uuid_bytes(text) == topic_id


@given(st.lists(st.tuples(st.sampled_from("cdg"), st.sampled_from(["a", "a.b", "a_b", "c"]), st.integers(-1, 6)), max_size=20))
def test_any_sequence_of_decisions_leaves_an_image_equal_to_the_registry(steps: list[tuple[str, str, int]]) -> None:
    cluster = Cluster(brokers=2)
    for what, name, number in steps:
        if what == "c":
            cluster.create(TopicSpec(name, number))
        elif what == "g":
            cluster.grow(name, number)
        elif name in cluster.image.topics:
            cluster.delete(name)
    assert cluster.reloaded().topics == cluster.image.topics
    assert not {"a.b", "a_b"} <= cluster.image.topics.keys()
    assert all(cluster.image.name_of(topic.topic_id) == name for name, topic in cluster.image.topics.items())
