"""A fixed share of what `make sim` does at length: logs that live through power cuts, and a checker that does find faults."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.log.log import Log, LogConfig
from ottla.log.segments.segment import Segment
from ottla.ports import Now
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Record, open_batches
from ottla.records.batches.header import batches
from ottla.sim import invariants
from ottla.sim.disk import SimDisk
from ottla.sim.storage import Folder
from tests.sim import crashes
from tests.sim.lives import life


@pytest.mark.rows(2, seconds=1)
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_logs_survive_power_cuts_at_any_operation(first: int) -> None:
    assert sum(map(crashes.survive, range(first, first + 10))) == 10 * crashes.CUTS_PER_SEED


def test_a_deleted_segment_whose_files_are_still_to_be_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(self: Log, segments: Sequence[Segment]) -> Sequence[Segment]:
        first = self.segments.index(segments[0])
        del self.segments[first : first + len(segments)]
        return segments

    monkeypatch.setattr(Log, "_leave", leave)
    with pytest.raises(AssertionError, match="it is deleted"):
        sum(map(crashes.survive, range(15, 45)))


def test_a_failed_sync_of_names_that_is_tried_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the second sync succeeds, and what the first had to write is taken for written. Each tenth seed shows it."""

    def forget(folder: Folder, reason: str) -> None:
        folder.dropped += folder.pending
        folder.pending.clear()

    monkeypatch.setattr(Folder, "fail", forget)
    with pytest.raises(AssertionError, match=r"is lost or changed|are missing|had been synced"):
        sum(map(crashes.survive, range(60)))


def test_a_fault_names_its_seed_and_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life.LogLife, "faults", lambda life: ["something is lost"])
    with pytest.raises(AssertionError, match=r"(?s)seed 7: .*something is lost.*python -m tests.sim.crashes --seed 7"):
        crashes.survive(7)


def test_the_same_seed_lives_the_same_life() -> None:
    lives = [crashes.live(3), crashes.live(3)]
    assert lives[0].known == lives[1].known
    assert lives[0].disk.operations == lives[1].disk.operations


def test_the_invariants_find_what_is_wrong() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", LogConfig(), Now(0, 0))
    written: list[Record] = []
    for number in range(3):
        batch = build([b"k"], [b"%d" % number], 0)
        log.append(batch, [header for _, header in batches(batch)], 0, Now(0, 0))
        written += open_batches(batch).records()
    assert invariants.acknowledged_records_are_readable(log, written) == []
    assert invariants.offsets_are_dense(log) == []
    assert invariants.newest_of_every_key_is_kept(log, written, 3) == []
    other = written[1]._replace(value=b"another")
    assert invariants.acknowledged_records_are_readable(log, [written[0], other, written[2]]) != []
    assert invariants.acknowledged_records_are_readable(log, written[:2]) != []
    assert invariants.newest_of_every_key_is_kept(log, [*written, written[2]._replace(offset=3)], 3) != []
    assert invariants.removed_records_stay_removed(log, {b"k": 2}) != []
