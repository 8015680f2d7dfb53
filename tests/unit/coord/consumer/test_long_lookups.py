"""Regular expressions that take long to match are looked up bit by bit, while the group goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.coord import patterns
from ottla.coord.consumer.group import ConsumerGroup
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.outcome import TopicsChanged
from ottla.wire.errors import NONE
from tests.scenarios.consumer_words import heartbeat, topic
from tests.scenarios.stage import Stage

TOPICS = ("a1", "a2", "b1", "b2", "c1")


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One name at a time."""
    patterns.matcher.cache_clear()
    monkeypatch.setattr(patterns, "SLICE_WORK", 1)
    yield
    patterns.matcher.cache_clear()


class World:
    def __init__(self) -> None:
        self.stage = Stage()
        self.topics = KnownTopics([topic(name, 1) for name in TOPICS])
        self.stage.tell(TopicsChanged(self.topics, frozenset(TOPICS), True))
        self.epochs: dict[str, int] = {}

    def add(self, name: str) -> None:
        self.topics = self.topics.with_changes([topic(name, 1)])
        self.stage.tell(TopicsChanged(self.topics, frozenset((name,)), True))

    def live(self, member_id: str, **options: str) -> set[str] | None:
        """One heartbeat of a member, which gives back whatever it has to: the topics that it was told, if it was."""
        epoch = self.epochs.get(member_id, 0)
        identity: dict[str, Any] = {"member_id": member_id, "group_instance_id": None}
        token = self.stage.ask(heartbeat({"owns": "", **options}, "g", identity, epoch, 30_000 if epoch == 0 else -1), 1, "c")
        reply = self.stage.heard[token]
        assert reply.error_code == NONE, reply
        self.epochs[member_id] = reply.member_epoch
        if reply.assignment is None:
            return None
        return {bytes(held.topic_id).rstrip(b"\0").decode() for held in reply.assignment.topic_partitions}

    @property
    def group(self) -> ConsumerGroup:
        return self.stage.machine.consumers.groups["g"]


def test_a_member_waits_for_its_topics_and_gets_them_all() -> None:
    world = World()
    assert world.live("ada", pattern="[ab].") == set()
    assert world.group.seeking
    assert not world.live("ada")
    world.stage.wait(1_000)
    assert not world.group.seeking
    assert world.group.resolved["[ab]."].topics == {"a1", "a2", "b1", "b2"}
    assert world.live("ada") == {"a1", "a2", "b1", "b2"}


def test_patterns_that_come_meanwhile_and_topics_that_do_are_not_missed() -> None:
    world = World()
    world.live("ada", pattern="a.")
    world.live("bea", pattern="b.|c.")
    world.add("a3")
    world.stage.wait(3_000)
    world.live("ada")
    assert world.group.seeking, "one more pattern than was looked up"
    world.stage.wait(3_000)
    assert {pattern: known.topics for pattern, known in world.group.resolved.items()} == {
        "a.": {"a1", "a2", "a3"},
        "b.|c.": {"b1", "b2", "c1"},
    }
    for _ in range(3):
        world.live("ada")
        world.live("bea")
        world.stage.wait(1_100)
    assert world.group.members["ada"].assigned.keys() == world.topics.shapes_of({"a1", "a2", "a3"}).keys()
    world.add("a4")
    world.stage.wait(11_000)
    world.live("ada")
    world.stage.wait(2_000)
    assert world.live("ada") == {"a1", "a2", "a3", "a4"}


def test_who_stops_to_subscribe_meanwhile_leaves_nothing_behind() -> None:
    world = World()
    world.live("ada", pattern="a.")
    world.live("ada", pattern="", topics="c1")
    world.stage.wait(3_000)
    assert not world.group.resolved
    assert not world.group.seeking
    world.live("ada", pattern="c.")
    world.stage.wait(3_000)
    assert {pattern: known.topics for pattern, known in world.group.resolved.items()} == {"c.": {"c1"}}


def test_a_restart_in_the_middle_begins_anew() -> None:
    world = World()
    world.live("ada", pattern="a.")
    world.stage.wait(3)
    world.stage.restart()
    assert not world.group.seeking
    world.live("ada")
    world.stage.wait(2_000)
    assert world.live("ada") == {"a1", "a2"}


def test_a_group_that_goes_in_the_middle_is_gone() -> None:
    world = World()
    world.live("ada", pattern="a.")
    world.epochs["ada"] = -1
    world.live("ada")
    world.stage.wait(3_000)
    assert not world.group.members
    assert not world.group.resolved
