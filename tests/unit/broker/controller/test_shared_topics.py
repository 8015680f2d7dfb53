"""Topics of a cluster as a broker makes and deletes them: races with other brokers, and waiting for the controller."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ottla.broker.failures import Changes
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.metadata_waits import MetadataWaits
from ottla.broker.serving.purgatory import Purgatory
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.broker.topics.commits import Commits
from ottla.broker.topics.topics import ExpectedTopic, Topics
from ottla.cluster import layout
from ottla.cluster.controller_rules.context import ReplicaAssignment
from ottla.cluster.controller_rules.entries import DELETIONS, topic_value
from ottla.cluster.decision import Decision
from ottla.cluster.image import BrokerImage, ClusterImage
from ottla.cluster.registry_entries import apply_entry
from ottla.cluster.topics import TopicSpec
from ottla.ports import NEW, Change
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.process import SimProcess
from ottla.sim.shared_registry import SimSharedRegistry
from ottla.sim.world import World
from ottla.wire.api.create_topics import CreateTopicsResponse
from ottla.wire.errors import (
    INVALID_PARTITIONS,
    NONE,
    REASSIGNMENT_IN_PROGRESS,
    REQUEST_TIMED_OUT,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.simulated import completed

OTHER_ID = b"2".ljust(16)
USER = "/config/users/alice"


class Room:
    """What a broker of a cluster makes topics with, and nothing else of it."""

    def __init__(self, protocol_version: str = "3.9") -> None:
        self.world = World(0)
        self.ensemble = SimEnsemble(self.world)
        self.registry = SimSharedRegistry(self.ensemble, SimProcess(self.world, "a"))
        self.image = ClusterImage()
        self.image.brokers = {node: BrokerImage(node) for node in (1, 2, 3)}
        self.announced: list[Change] = []
        self.commits = Commits(self.registry, self.image, Changes(), self._announce, set())
        scheduler = Scheduler(self.world.clock)
        self.world.timed.append(scheduler)
        purgatory = Purgatory(scheduler, Changes())
        settings: Any = SettingsInForce(BrokerSettings.parse({"inter.broker.protocol.version": protocol_version}))
        self.news = MetadataWaits(purgatory, scheduler)
        rooms = (self.image, self.commits, settings, self.world.random.randbytes, purgatory, self.news)
        self.topics = Topics(*rooms, holds=lambda name: False, cordoned=tuple, is_alone=False)
        self.world.run(100)

    def _announce(self, changes: Any) -> list[Change]:
        self.announced += changes
        return []

    def create(self, *names: str) -> list[Decision]:
        wanted = [TopicSpec(name, 2, 3) for name in names]
        decisions: list[Decision] = self.do(self.topics.create(wanted))
        return decisions

    def do(self, steps: Any) -> Any:
        return completed(self.world, steps)

    def told(self, name: str, topic_id: bytes, *leaders: int) -> None:
        """As if the controller had told who leads a topic."""
        replicas = dict.fromkeys(range(len(leaders)), (1, 2, 3))
        apply_entry(self.image, layout.topic_path(name), layout.topic_json(topic_id, replicas))
        for index, leader in enumerate(leaders):
            apply_entry(self.image, layout.state_path(name, index), layout.state_json(1, leader, 0, (1, 2, 3)))
        self.news.notify()

    def forgotten(self, name: str) -> None:
        """As if the controller had told that a topic is deleted."""
        self.image.drop_topic(name)
        self.news.notify()


@pytest.fixture
def room() -> Room:
    return Room()


def test_a_topic_that_is_made_is_in_the_registry_and_in_the_image_when_the_controller_tells(room: Room) -> None:
    (made,) = room.create("t")
    assert made.error_code == NONE
    entry = room.ensemble.get(layout.topic_path("t"))
    assert entry is not None
    assert len(layout.read(entry.value)["partitions"]) == 2
    assert room.ensemble.get(layout.topic_config_path("t")) is not None
    assert "t" not in room.image.topics


@pytest.mark.parametrize(("protocol_version", "has_id"), [("2.7", False), ("2.8", True)])
def test_topics_have_ids_from_2_8_on(protocol_version: str, has_id: bool) -> None:
    room = Room(protocol_version)
    room.create("t")
    entry = room.ensemble.get(layout.topic_path("t"))
    assert entry is not None
    assert ("topic_id" in layout.read(entry.value)) == has_id


def test_a_topic_that_another_broker_has_just_made_exists_already_and_hinders_no_other(room: Room) -> None:
    room.ensemble.put(Change(layout.topic_path("t"), b"{}", NEW))
    one, two = room.create("t", "u")
    assert (one.error_code, two.error_code) == (TOPIC_ALREADY_EXISTS, NONE)
    assert room.ensemble.get(layout.topic_path("u")) is not None


def test_a_name_can_be_given_again_as_soon_as_the_topic_before_is_gone(room: Room) -> None:
    room.ensemble.put(Change(layout.topic_path("t"), b"{}", NEW))
    room.world.after(500, lambda: room.ensemble.put(Change(layout.topic_path("t"), None)))
    one, two = room.create("t", "u")
    assert (one.error_code, two.error_code) == (NONE, NONE)


def test_a_topic_that_is_made_in_the_same_moment_exists_already(room: Room) -> None:
    room.ensemble.before_commit.append(partial(room.ensemble.put, Change(layout.topic_path("t"), b"{}", NEW)))
    (one,) = room.create("t")
    assert one.error_code == TOPIC_ALREADY_EXISTS


def test_a_deletion_is_a_note_for_the_controller(room: Room) -> None:
    room.told("t", bytes(range(16)), 1)
    one, two = room.do(room.topics.delete(["t", "u"]))
    assert (one.error_code, two.error_code) == (NONE, UNKNOWN_TOPIC_OR_PARTITION)
    assert room.ensemble.children(DELETIONS) == ["t"]
    (again,) = room.do(room.topics.delete(["t"]))
    assert again.error_code == NONE


def entry_of(room: Room, name: str) -> Any:
    entry = room.ensemble.get(layout.topic_path(name))
    assert entry is not None
    return layout.read(entry.value)


def test_a_topic_that_is_being_moved_gets_no_partitions_and_its_move_is_not_forgotten(room: Room) -> None:
    moving = topic_value(bytes(range(16)), {0: ReplicaAssignment((1, 2, 3, 4, 5, 6), (1, 2, 3), (4, 5, 6))})
    room.ensemble.put(Change(layout.topic_path("t"), moving))
    apply_entry(room.image, layout.topic_path("t"), moving)
    for validate_only in (True, False):
        grown = room.do(room.topics.add_partitions("t", 2, None, validate_only=validate_only))
        assert grown.error_code == REASSIGNMENT_IN_PROGRESS
    assert entry_of(room, "t") == layout.read(moving)


def test_partitions_are_added_to_what_the_registry_says_however_late_the_controller_is(room: Room) -> None:
    room.told("t", bytes(range(16)), 1)
    room.ensemble.put(Change(layout.topic_path("t"), layout.topic_json(bytes(range(16)), {0: (3, 2), 1: (2, 1), 2: (1, 3)})))
    assert room.do(room.topics.add_partitions("t", 2, None)).error_code == INVALID_PARTITIONS
    assert room.do(room.topics.add_partitions("t", 3, None, validate_only=True)).error_code == INVALID_PARTITIONS
    assert room.do(room.topics.add_partitions("t", 4, [(1, 2)], validate_only=True)).error_code == NONE
    assert len(entry_of(room, "t")["partitions"]) == 3
    assert room.do(room.topics.add_partitions("t", 4, [(1, 2)])).error_code == NONE
    assert room.do(room.topics.add_partitions("t", 5, [(2, 3)])).error_code == NONE
    assert entry_of(room, "t")["partitions"] == {"0": [3, 2], "1": [2, 1], "2": [1, 3], "3": [1, 2], "4": [2, 3]}


def test_a_topic_that_is_gone_from_the_registry_is_not_made_again_by_growing_it(room: Room) -> None:
    room.told("t", bytes(range(16)), 1)
    assert room.do(room.topics.add_partitions("t", 2, None)).error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert room.ensemble.get(layout.topic_path("t")) is None


def test_a_change_rests_on_what_other_brokers_have_written(room: Room) -> None:
    room.ensemble.put(Change(USER, layout.config_json({"a": "1"}), NEW))

    def decide() -> list[Decision]:
        known = room.image.user_configs.get("alice", {})
        return [Decision("alice", changes=(Change(USER, layout.config_json(known | {"b": "2"})),))]

    room.ensemble.before_commit.append(partial(room.ensemble.put, Change(USER, layout.config_json({"a": "1", "c": "3"}))))
    (made,) = room.do(room.commits.commit_slowly(decide))
    assert made.error_code == NONE
    assert room.image.user_configs["alice"] == {"a": "1", "b": "2", "c": "3"}
    entry = room.ensemble.get(USER)
    assert entry is not None
    assert layout.read(entry.value)["config"] == room.image.user_configs["alice"]


def test_without_the_registry_nobody_knows_whether_a_change_was_made(room: Room) -> None:
    room.registry.faults.lose_answer = 1.0
    (one,) = room.create("t")
    assert one.error_code == REQUEST_TIMED_OUT


def test_a_reply_leaves_when_the_controller_has_told(room: Room) -> None:
    (made,) = room.create("t")
    late: list[tuple[str, int]] = []
    now = room.world.clock.now()
    room.world.after(500, lambda: room.told("t", made.topic_id, 1, -1))
    room.world.after(900, lambda: room.told("t", made.topic_id, 1, 2))
    expected = {"t": ExpectedTopic(made.topic_id, 2), "v": ExpectedTopic(OTHER_ID, 0)}
    room.do(room.topics.reply(CreateTopicsResponse(), expected, now, 30_000, lambda *one: late.append(one)))
    assert late == []
    assert 900 <= room.world.now_ms - now.mono_ms < 1000


def test_a_reply_leaves_when_time_is_up(room: Room) -> None:
    late: list[tuple[str, int]] = []
    now = room.world.clock.now()
    expected = {"t": ExpectedTopic(OTHER_ID, 2)}
    room.do(room.topics.reply(CreateTopicsResponse(), expected, now, 200, lambda *one: late.append(one)))
    assert late == [("t", REQUEST_TIMED_OUT)]
    assert 200 <= room.world.now_ms - now.mono_ms < 300


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_a_reply_leaves_when_the_topic_is_deleted_before_it_is_complete(room: Room, is_made_anew: bool) -> None:
    (made,) = room.create("t")
    incomplete: list[tuple[str, int]] = []
    now = room.world.clock.now()
    room.world.after(500, lambda: room.told("t", made.topic_id, 1, -1))
    room.world.after(900, lambda: room.told("t", OTHER_ID, 1) if is_made_anew else room.forgotten("t"))
    expected = {"t": ExpectedTopic(made.topic_id, 2)}
    room.do(room.topics.reply(CreateTopicsResponse(), expected, now, 30_000, lambda *one: incomplete.append(one)))
    assert incomplete == [("t", UNKNOWN_TOPIC_OR_PARTITION)]
    assert 900 <= room.world.now_ms - now.mono_ms < 1000


def test_the_reply_to_a_deletion_leaves_when_the_name_is_in_use_again(room: Room) -> None:
    room.told("t", OTHER_ID, 1)
    incomplete: list[tuple[str, int]] = []
    now = room.world.clock.now()
    expected = {"t": ExpectedTopic(bytes(range(16)), 0)}
    room.do(room.topics.reply(CreateTopicsResponse(), expected, now, 30_000, lambda *one: incomplete.append(one)))
    assert not incomplete
    assert room.world.now_ms - now.mono_ms < 100
