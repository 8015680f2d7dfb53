"""Cuts of a log: a follower drops batches that its leader does not have, or begins a new log at the leader's start.

The planning of a cut only reads. Then the log in memory changes at once, and its files follow, newest first. If the process ends
between two files, the log is unchanged or shorter. Nothing is appended before the files are changed. If the disk fails, the next
call that writes continues the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.log.names import LOG, OF_A_SEGMENT
from ottla.log.producer_state.producers import Producers
from ottla.log.producer_state.snapshots import remove_snapshots
from ottla.log.segments.compacted_note import note_copied
from ottla.log.segments.segment import Segment
from ottla.ports import Disk, StorageFailed


class PlannedCut(NamedTuple):
    """A plan to truncate a log at `offset`: the log then ends at byte `position` of `segment`, and its end offset is `end_offset`.

    `producers` is the producers' state at that end. `end_offset` is less than `offset` if a batch contains `offset`. The plan is
    valid while the log's number of truncations is `cuts`.
    """

    offset: int
    segment: Segment
    position: int
    end_offset: int
    producers: Producers
    cuts: int


@dataclass(slots=True)
class PendingCut:
    """The work of a truncation that is left to do on disk: remove the segments `gone`, and truncate the segment `last`.

    A `fresh` segment, if any, replaces the last one. Producer snapshots up to `snapshots_until` are kept. `write_epochs(sync)`
    writes the leader epochs, and `settle_positions` adjusts the sidecars.
    """

    gone: list[Segment]
    last: Segment
    end_offset: int
    snapshots_until: int
    interval: int
    write_epochs: Callable[[bool], None]
    settle_positions: Callable[[], None]
    fresh: Segment | None = None

    def finish(self, disk: Disk, path: str, segments: Sequence[Segment], snapshots: list[int]) -> None:
        """Do the remaining work, durably. Raises `StorageFailed`, after which another call continues."""
        while self.gone:
            self.gone[-1].remove()
            self.gone.pop()
        unwanted = [offset for offset in snapshots if offset > self.snapshots_until]
        remove_snapshots(disk, path, snapshots, unwanted=unwanted)
        if any(offset in snapshots for offset in unwanted):
            raise StorageFailed(path, "snapshots of producers beyond the end of the log cannot be removed; repair the disk.")
        disk.sync_dir(path)  # or a crash could bring back files that describe, or follow, batches written from now on
        if self.fresh is None:
            if self.last.may_have_gaps:
                note_copied(disk, path, segments)  # its size is no longer the one that compaction wrote
            self.last.truncate(self.end_offset, self.interval)
            self.write_epochs(False)
        else:
            replace_only_segment(disk, self.last, self.fresh, lambda: self.write_epochs(True))
        self.settle_positions()


def replace_only_segment(disk: Disk, old: Segment, fresh: Segment, before_renaming: Callable[[], None]) -> None:
    """Replace `old`, a log's only segment, by the empty segment `fresh` with another base offset. Raises `StorageFailed`.

    The file is renamed, so that a start after a crash finds exactly one segment.
    """
    if not disk.exists(fresh.path(LOG)):
        if disk.exists(old.path(LOG)):
            old.forget_end(0)
            old.truncate(old.base_offset, 0)
        before_renaming()
        old.remove(OF_A_SEGMENT)
        if disk.exists(old.path(LOG)):
            disk.rename(old.path(LOG), fresh.path(LOG), sync=False)
        else:
            _ = fresh.file
    disk.sync_dir(fresh.directory)
