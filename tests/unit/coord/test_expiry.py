"""Looking for what expired, and forgetting deleted topics, in slices: together they find what one look would, and none is long."""

from __future__ import annotations

import random

import pytest

from ottla.coord import expiry
from ottla.coord.consumer.assign import TopicShape
from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.consumer.topics import KnownTopic, KnownTopics
from ottla.coord.group_machine import GroupMachine
from ottla.coord.outcome import ExpiryKey, GroupOutcome, TopicsDeleted, TopicsKey
from ottla.coord.records import OffsetCommitted, OffsetForgotten, OffsetPending
from ottla.coord.runtime.machine import Due, Input
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from tests.support.coordinator_records import everything

RETENTION_MS = 1_000
SETTINGS = GroupSettings(offsets_retention_ms=RETENTION_MS)
LATE = Now(5_000, 5_000)
OLD_ID, NEW_ID = b"o" * 16, b"n" * 16


def coordinator(groups: int, offsets: int, *, seed: int = 0) -> GroupMachine:
    """Simple groups with so many offsets in all, of which about half have expired when it is `LATE`."""
    machine, chance = GroupMachine(SETTINGS, lambda: "id"), random.Random(seed)
    for number in range(offsets):
        commit_ms = chance.choice((100, 4_900))
        topic = f"t{number // groups // 10}"
        machine.apply(OffsetCommitted(f"g{number % groups}", topic, number // groups, 1, 0, "", commit_ms))
    return machine


def run(machine: GroupMachine, outcome: GroupOutcome) -> list[GroupOutcome]:
    """Apply an outcome, and all slices that follow it."""
    outcomes = [outcome]
    while True:
        for record in outcome.records:
            machine.apply(record)
        following = [timer.key for timer in outcome.timers if timer.key != ExpiryKey()]
        if not following:
            return outcomes
        outcome = machine.decide(Input(Due(following[0])), LATE)
        outcomes.append(outcome)


def look(machine: GroupMachine) -> list[GroupOutcome]:
    return run(machine, machine.decide(Input(Due(ExpiryKey())), LATE))


@pytest.mark.parametrize(("groups", "offsets"), [(1, 0), (1, 300), (7, 500), (400, 1_000), (1_000, 1_000)])
def test_slices_find_what_one_look_finds(monkeypatch: pytest.MonkeyPatch, groups: int, offsets: int) -> None:
    whole, sliced = coordinator(groups, offsets), coordinator(groups, offsets)
    monkeypatch.setattr(expiry, "MOST_LOOKED_AT", 1 << 30)
    (found,) = look(whole)
    monkeypatch.setattr(expiry, "MOST_LOOKED_AT", 20)
    outcomes = look(sliced)
    assert len(outcomes) > offsets // 200
    assert {record for outcome in outcomes for record in outcome.records} == set(found.records)
    assert everything(sliced.offsets) == everything(whole.offsets)
    assert sliced.classic.groups.keys() == whole.classic.groups.keys()


def test_no_slice_looks_at_more_than_it_may() -> None:
    outcomes = look(coordinator(100, 100_000))
    assert len(outcomes) > 50
    assert max(len(outcome.records) for outcome in outcomes) <= expiry.MOST_LOOKED_AT // expiry.TOMBSTONE + 10


def test_what_is_committed_between_two_slices_stays() -> None:
    machine = coordinator(50, 20_000)
    first = machine.decide(Input(Due(ExpiryKey())), LATE)
    for record in first.records:
        machine.apply(record)
    machine.apply(OffsetCommitted("g49", "t0", 0, 9, 0, "", 4_999))
    machine.apply(OffsetCommitted("new", "t0", 0, 9, 0, "", 4_999))
    run(machine, machine.decide(Input(Due(first.timers[0].key)), LATE))
    assert machine.offsets.of("g49")["t0"][0].offset == 9
    assert machine.offsets.of("new")["t0"][0].offset == 9


def test_a_pending_offset_keeps_its_group_and_what_stands_in_its_place() -> None:
    machine = GroupMachine(SETTINGS, lambda: "id")
    machine.apply(OffsetCommitted("g", "t", 0, 1, 0, "", 100))
    machine.apply(OffsetCommitted("g", "t", 1, 1, 0, "", 100))
    machine.apply(OffsetPending(9, OffsetCommitted("g", "t", 0, 2, 0, "", 100)))
    (outcome,) = look(machine)
    assert outcome.records == (OffsetForgotten("g", "t", 1),)


def test_deleted_topics_are_forgotten_in_slices() -> None:
    machine = coordinator(1_000, 20_000)
    outcomes = run(machine, machine.decide(Input(TopicsDeleted(frozenset(("t0", "nowhere")))), LATE))
    assert len(outcomes) > 10
    assert max(len(outcome.records) for outcome in outcomes) <= expiry.MOST_LOOKED_AT // expiry.TOMBSTONE + 10
    assert {record.topic for record in everything(machine.offsets)} == {"t1"}
    assert len(machine.classic.groups) == 1_000


def test_what_was_committed_for_a_topic_of_the_same_name_stays_whatever_the_clock_showed() -> None:
    machine = GroupMachine(SETTINGS, lambda: "id")
    machine.apply(TopicsSeen(KnownTopics([KnownTopic("t", NEW_ID, TopicShape(1))]), frozenset("t"), new=True))
    machine.apply(OffsetCommitted("old", "t", 0, 1, 0, "", 200, topic_id=OLD_ID))
    machine.apply(OffsetCommitted("older", "t", 0, 1, 0, "", 200))
    machine.apply(OffsetCommitted("new", "t", 0, 1, 0, "", 100, topic_id=NEW_ID))
    outcome = machine.decide(Input(Due(TopicsKey(frozenset("t"), ("old", "older", "new", "gone"), 0))), LATE)
    assert outcome.records == (OffsetForgotten("old", "t", 0), OffsetForgotten("older", "t", 0))


def test_a_group_all_of_whose_topics_have_expired_goes_in_as_many_slices_as_that_takes() -> None:
    machine = GroupMachine(SETTINGS, lambda: "id")
    for number in range(20_000):
        machine.apply(OffsetCommitted("g", f"t{number // 10}", number % 10, 1, 0, "", 100))
    key, slices = ExpiryKey(), 0
    while "g" in machine.classic.groups:
        outcome = machine.decide(Input(Due(key)), LATE)
        assert outcome.records
        for record in outcome.records:
            machine.apply(record)
        (timer,) = outcome.timers
        assert isinstance(timer.key, ExpiryKey)
        assert timer.deadline_ms is not None
        key, slices = timer.key, slices + 1
        assert "g" not in machine.classic.groups or timer.deadline_ms < LATE.mono_ms + 10, (
            "the rest comes soon, not at the next check"
        )
    assert slices > 10
    assert not machine.offsets.of("g")


@pytest.mark.parametrize("body", [Due(ExpiryKey()), TopicsDeleted(frozenset({"t"}))])
def test_one_topic_of_very_many_partitions_goes_in_slices(body: object) -> None:
    machine = GroupMachine(SETTINGS, lambda: "id")
    for number in range(10_000):
        machine.apply(OffsetCommitted("g", "t", number, 1, 0, "", 100))
    outcome, slices = machine.decide(Input(body), LATE), 1
    while True:
        assert len(outcome.records) <= expiry.MOST_FORGOTTEN + 1
        for record in outcome.records:
            machine.apply(record)
        (timer,) = outcome.timers or (None,)
        if timer is None or timer.deadline_ms is None or timer.deadline_ms > LATE.mono_ms + expiry.PAUSE_MS:
            break
        outcome, slices = machine.decide(Input(Due(timer.key)), LATE), slices + 1
    assert slices >= 10_000 // expiry.MOST_FORGOTTEN
    assert not machine.offsets.of("g")
