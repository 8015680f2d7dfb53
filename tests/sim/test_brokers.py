"""Brokers that live for weeks: a share of what `make sim` does, and mistakes planted into the broker, which must be found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from ottla.broker.partitions.checkpoints import Checkpoints
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.syncs import Syncs
from ottla.coord.group_machine import GroupMachine
from ottla.coord.runtime.machine import NOTHING
from ottla.log.log import Log
from ottla.log.segments.segment import Segment
from ottla.log.segments.soundness import ENDLESS
from ottla.log.slice_reader import LogReader
from ottla.ports import Steps
from ottla.registry import journal
from ottla.registry.generations import FIRST, Found, journal_name, numbers, read_journal
from ottla.sim.disk import SimDisk
from tests.sim import brokers
from tests.sim.lives import broker_life
from tests.sim.seeds import Violation
from tests.support.kinds import one_of_each

MOST_SEEDS = 200
LEAVE = Log._leave


@pytest.mark.rows(1, seconds=5)
@pytest.mark.parametrize("seed", one_of_each(range(8), 0, 1, seconds=12))
def test_what_must_be_true_of_a_broker_is_true_for_weeks(seed: int) -> None:
    lived = brokers.live(seed)  # raises what was violated
    assert lived.acknowledged
    assert lived.plan.weeks == brokers.WEEKS


def test_a_seed_is_lived_the_same_way_every_time() -> None:
    assert brokers.live(5, weeks=0.5) == brokers.live(5, weeks=0.5)


def test_a_violation_names_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_life, "weight", lambda broker: -1)
    monkeypatch.setattr(broker_life, "MORE_ITEMS", -1)
    with pytest.raises(Violation, match=r"seed 2: memory is bounded: .*python -m tests.sim.brokers --seed 2 --weeks 0.25"):
        brokers.live(2, weeks=0.25)


def test_whatever_escapes_the_broker_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def escape(partitions: Partitions, now: object) -> None:
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr(Partitions, "retain", escape)
    with pytest.raises(Violation, match=r"seed 1: nothing escapes: an exception did: ZeroDivisionError: by chance"):
        brokers.live(1, weeks=0.25)


def test_the_command_tells_what_was_lived(capsys: pytest.CaptureFixture[str]) -> None:
    assert brokers.main(["--seeds", "2", "--jobs", "1", "--weeks", "0.2"]) == 0
    assert "lived 2 seeds in" in capsys.readouterr().out
    assert brokers.main(["--seeds", "2", "--seconds", "0", "--jobs", "1", "--weeks", "0.2"]) == 2


def leave_queued(log: Log, segments: Sequence[Segment]) -> Sequence[Segment]:
    """As it was once: a segment that goes takes its batches along, and leaves its indexes queued for the next sync."""
    queued = {one: [each for each in log._unsynced.get(one, ()) if each[1].path.endswith("index")] for one in segments}
    gone = LEAVE(log, segments)
    log._unsynced.update({one: files for one, files in queued.items() if files})
    return gone


def nothing(*arguments: Any, **named: Any) -> Steps[None]:
    yield from ()


MISTAKES: dict[str, tuple[str, object, str, Callable[..., Any]]] = {
    "syncs what retention deleted": (
        ": a sync failed .*index: ", Log, "_leave", leave_queued
    ),
    "applies no retention": ("retention applies", Partitions, "retain", nothing),
    "writes no checkpoints": ("checkpoints are new", Checkpoints, "write_soon", nothing),
    "answers before the sync": ("nothing is lost", Partition, "must_sync", lambda partition, acks_all: False),
    "forgets flush.ms": ("flush.ms is kept", Syncs, "flush", lambda syncs, partition, now: None),
    "expires no offsets": ("offsets expire", GroupMachine, "_expire", lambda machine, key, now: NOTHING),
}  # fmt: skip


def first_half_alone(disk: SimDisk) -> Found | None:
    """A registry of one file, which ends where it can't be read."""
    if not numbers(disk, FIRST):
        return None
    number = numbers(disk, FIRST)[-1]
    reading = read_journal(disk, f"{FIRST}/{journal_name(number)}")
    reading.fault = -1
    return Found(number, reading, [])


SUFFERING = (32, 45, 49, 59, 13, 1, 21)
"""Seeds in which file handles are short, and bits rot, before long."""
SUFFERED: dict[str, tuple[str, object, str, Callable[..., Any]]] = {
    "leaves closed what it could not open": ("partitions stay online", Partitions, "_open_later", nothing),
    "takes a lack of handles for a failed sync": (
        "partitions stay online", Syncs, "_start_later", lambda syncs, partition, failure: partition.fail(failure)
    ),
    "serves what nobody checked": (
        "nothing rots unseen", LogReader, "_proven", lambda reader, offset, place, *sizes, **may: (*place, ENDLESS, -1)
    ),
    "takes a damaged registry for an older one": (
        "topic . is no more, and nobody deleted it|a bit of registry.*, and the start (says nothing of|does not mend) it",
        journal, "find", first_half_alone,
    ),
}  # fmt: skip


def live_all(seeds: Iterable[int] = range(MOST_SEEDS)) -> None:
    for seed in seeds:
        brokers.live(seed)


@pytest.mark.rows(1, seconds=3)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mistake", one_of_each(MISTAKES, "answers before the sync", "syncs what retention deleted", seconds=10))
def test_a_mistake_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(Violation, match=name):
        live_all()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mistake", one_of_each(SUFFERED, "takes a damaged registry for an older one", seconds=12))
def test_a_mistake_that_only_a_suffering_disk_shows_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, wrong = SUFFERED[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(Violation, match=name):
        live_all(SUFFERING)


@pytest.mark.full(seconds=20)
def test_handles_are_short_and_bits_rot_in_these_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    brokers.live(45, weeks=2, tell=True)
    told = capsys.readouterr().out
    assert "there are no file handles" in told
    assert " rots" in told
