"""Mistakes planted into logs and brokers are found by the simulation of followers, under the name of what is not true any more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ottla.broker.partitions.checkpoints import Checkpoints
from ottla.log.checkpoints import RECOVERY_POINTS
from ottla.log.cleaner.compaction import Compaction
from ottla.log.log import Log
from ottla.log.recovery import truncation
from ottla.log.segments.segment import Segment
from tests.sim import followers
from tests.support.planted import found

CUT, REPLACE, FORGET_END = Log.cut, Log.replace_segments, Segment.forget_end


def give_up_a_refused_cut(log: Log) -> None:
    cut, log._pending = log._pending, None
    if cut is not None:
        cut.finish(log._disk, log.path, log.segments, log._snapshots)


def keep_producers(log: Log, plan: Any) -> None:
    CUT(log, plan._replace(producers=log.producers))


def replace_whatever_was_cut(log: Log, old: Any, new: Any, now: Any, count: int) -> bool:
    return REPLACE(log, old, new, now, log.cuts)


def make_another_file_first(disk: Any, old: Segment, fresh: Segment, before: Callable[[], None]) -> None:
    _ = fresh.file
    disk.sync_dir(fresh.directory)
    before()
    old.remove()
    disk.sync_dir(fresh.directory)


def keep_ages(segment: Segment, size: int) -> None:
    first = segment._first_timestamp
    FORGET_END(segment, size)
    segment._first_timestamp = first


def lower_recovery_point_alone(checkpoints: Checkpoints, partition: Any, offset: int, latest_start: int) -> Any:
    noted, key = checkpoints._offsets[RECOVERY_POINTS], (partition.topic, partition.index)
    if noted.get(key, 0) > offset:
        noted[key] = offset
        yield partial(checkpoints._bring_up_to_date, RECOVERY_POINTS)


def says_more_of_recovery_alone(checkpoints: Checkpoints, partition: Any, offset: int, latest_start: int) -> bool:
    return checkpoints.recovery_point(partition.topic, partition.index) > offset


Planted = list[tuple[object, str, Any]]
MISTAKES: dict[str, tuple[str, int, Planted]] = {
    "puts back what was cut": (
        "stays online",
        168,
        [(Compaction, "is_outdated", False), (Log, "replace_segments", replace_whatever_was_cut)],
    ),
    "keeps the size of what it compacted": ("stays online", 205, [(truncation, "note_copied", lambda *_: None)]),
    "leaves what the disk refused to remove": ("stays online", 1, [(Log, "finish_pending", give_up_a_refused_cut)]),
    "keeps producers of what was cut": ("knows producers", 0, [(Log, "cut", keep_producers)]),
    "begins anew beside the old log": ("stays online", 1, [(truncation, "replace_only_segment", make_another_file_first)]),
    "takes for compacted what was written since": (
        "is clean",
        9,
        [(Checkpoints, "lower", lower_recovery_point_alone), (Checkpoints, "is_beyond", says_more_of_recovery_alone)],
    ),
    "keeps the age of what was cut": ("ages", 25, [(Segment, "forget_end", keep_ages)]),
}
"""What is not true then, one of the first seeds that show it, and what is planted."""

MOST_SEEDS = 10


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_and_named(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, seed, planted = MISTAKES[mistake]
    for owner, attribute, wrong in planted:
        monkeypatch.setattr(owner, attribute, wrong)
    assert name in found(name, followers.live, range(seed, seed + MOST_SEEDS))
