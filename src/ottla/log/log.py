"""One partition's log: appends to the newest segment, and truncation. Reads are in `reads`, the rest in `maintenance`.

It uses its directory, batch headers and the settings. An append is short on purpose: headers are checked once, and batches are
written unchanged, except for offsets and leader epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from ottla.log import follower_batches
from ottla.log.append_result import NO_TIMESTAMP, Appended, refusal
from ottla.log.config import LOG_APPEND_TIME, LogConfig
from ottla.log.errors import Damaged, Unfinished
from ottla.log.maintenance import RUNG_BYTES, LogUpkeep
from ottla.log.names import DELETING, set_aside_name
from ottla.log.partition_metadata import NO_TOPIC_ID
from ottla.log.producer_state.producers import Producers
from ottla.log.producer_state.snapshots import producers_at, run_to_end, thin
from ottla.log.recovery.gaps import AssumedGaps
from ottla.log.recovery.recovery import LogRecovery, RecoveredLog
from ottla.log.recovery.segment_bounds import check_boundaries
from ottla.log.recovery.truncation import PendingCut, PlannedCut
from ottla.log.segments import retention
from ottla.log.segments.compacted_note import note_copied
from ottla.log.segments.segment import LARGEST_RELATIVE, Segment
from ottla.log.segments.soundness import ENDLESS
from ottla.log.segments.stamps import set_times, stamp_all
from ottla.log.segments.transaction_index import Marker, read_marker
from ottla.log.sidecars import NO_SIDECARS, SidecarFormat
from ottla.log.slice_reader import LogReader
from ottla.log.unsynced_batches import DurablePlace
from ottla.ports import Disk, Now, Pauses, StorageFailed, Syncable
from ottla.records.batches.header import BatchHeader
from ottla.wire.errors import NONE, RECORD_LIST_TOO_LARGE

__all__ = ["Appended", "Damaged", "Log", "LogConfig"]

log = logging.getLogger("ottla.log")

NONE_AT_ALL = -1
"""The `snapshots_until` that removes all producer snapshots, for a log that begins again after a cut."""


class Log(LogUpkeep):
    """A partition's log, opened by `Log.open`. Synchronous, and for one thread.

    `size_bytes` is the size of the segments' batches. Files of deleted segments
    stay until the caller has raised `noted_start`, the start of the log in the synced checkpoint of epochs.
    """

    __slots__ = ("topic_id",)

    def __init__(self, disk: Disk, path: str, config: LogConfig, opened: RecoveredLog, topic_id: bytes) -> None:
        self.path = path
        self.config = config
        self.topic_id = topic_id
        self.segments = opened.segments
        self.epochs = opened.epochs
        self.producers = opened.producers
        self.log_start_offset = opened.log_start_offset
        self.log_end_offset = opened.log_end_offset
        self.synced_offset = opened.log_end_offset
        self.size_bytes = sum(segment.size for segment in opened.segments)
        self._active = opened.segments[-1]
        self.unnamed = None if self._active.size else self._active
        self._aborted = opened.aborted
        self._disk = disk
        self._snapshots = opened.snapshots
        self._snapshot_at = 0
        self._rungs = thin(opened.snapshots, opened.segments[-2:][0].base_offset, opened.log_end_offset)
        self._next_rung = self._active.size + RUNG_BYTES
        self._reader = LogReader(path, opened.segments, opened.epochs)
        self._unsynced = {}
        self._epochs_saved = opened.epochs_saved
        self._names_synced = True
        self._removed = opened.removed
        self.noted_start = ENDLESS
        self._pending = None
        self.cuts = 0
        self.durable_offset = opened.log_end_offset
        self._asked = self._durable_at = DurablePlace(opened.log_end_offset, self._active, self._active.size)
        self._swap = None
        self._swap_step = 0
        self.sidecars = NO_SIDECARS

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        config: LogConfig,
        now: Now,
        *,
        topic_id: bytes = NO_TOPIC_ID,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        is_noted: bool = False,
        is_start_known: bool = True,
        was_killed: bool = False,
        is_journaled: bool = False,
        sidecars: SidecarFormat | None = None,
    ) -> Log:
        """Open the directory `path`, creating it if needed.

        After a clean shutdown (`clean`) nothing is scanned. Otherwise batches from `recovery_point` on are read and checked, and
        a torn tail is cut off. `recovery_point` and `log_start_offset` are from the checkpoints (`ottla.log.checkpoints`).
        `is_noted`: the checkpoints contain this log, so that a gap before or between segments is damage. Without
        `is_start_known` the log begins where its leader epochs begin. `was_killed`: the process ended, but the machine did not
        fail, so that only the end of the last append can be missing. `is_journaled`: the journal has batches of this log, so that a
        gap between segments is a loss, which ends the log, and not the compaction of another program. `sidecars` is the format of
        files beside the segments.

        Raises `Damaged` if synced data is bad, and `StorageFailed`.
        """
        recovery = LogRecovery(
            disk, path, config, clean=clean, recovery_point=recovery_point, was_killed=was_killed, sidecars=sidecars
        )
        opened = recovery.run(
            topic_id, log_start_offset, is_noted=is_noted, is_start_known=is_start_known, is_journaled=is_journaled
        )
        opened.producers.expire(now.wall_ms - config.producer_id_expiration_ms)
        log = cls(disk, path, config, opened, topic_id)
        if sidecars is not None and opened.sidecars:
            log.sidecars = sidecars.open(disk, path, log, opened.sidecars, is_whole=opened.is_clean)
        if is_noted:
            log.noted_start = log.log_start_offset if opened.epochs_saved else log_start_offset
        if not opened.is_new:
            assumed = opened.gaps.gaps if config.compacts and not is_noted else None
            check_boundaries(disk, path, log._reader, log.log_start_offset, log.log_end_offset, opened.holed, assumed)
            log._store(opened.gaps)
        log._reserve(log._active)
        return log

    @property
    def leader_epoch(self) -> int:
        """Return the newest epoch in the log, or -1."""
        return self.epochs.latest

    @property
    def last_stable_offset(self) -> int:
        """Return the offset before which read_committed consumers can read: the oldest open transaction, or the log's end.

        The offset is never below the log's start, even if a transaction began before the start.
        """
        unstable = self.producers.first_unstable_offset()
        return self.log_end_offset if unstable is None else max(unstable, self.log_start_offset)

    # Writing

    def append(
        self,
        view: bytearray | memoryview,
        headers: Sequence[BatchHeader],
        leader_epoch: int,
        now: Now,
        *,
        origin_client: bool = True,
    ) -> Appended:
        """Append the checked batches that fill `view`, after stamping them in place with offsets and `leader_epoch`.

        `headers` are the batches' headers, in order. Sequences are checked only for clients' batches, producer epochs for all.
        Raises `StorageFailed` with nothing changed.
        """
        if self._pending is not None:
            self.finish_pending()
        config = self.config
        idempotent = headers[0].producer_id >= 0
        marker = None
        if idempotent:
            answer, marker = self._check_producer(view, headers, origin_client)
            if answer is not None:
                return answer
        append_time = NO_TIMESTAMP
        if config.message_timestamp_type == LOG_APPEND_TIME:
            append_time = now.wall_ms
            headers = set_times(view, headers, append_time)
        base_offset = self.log_end_offset
        position, next_offset, newest = stamp_all(view, headers, base_offset, leader_epoch)
        segment = self._active
        if segment.must_roll(position, next_offset - 1, newest, config, now.wall_ms):
            if position > config.segment_bytes:
                return refusal(RECORD_LIST_TOO_LARGE)
            self.roll()
            segment = self._active
        if leader_epoch > self.epochs.latest:
            self.assign_leader_epoch(leader_epoch)
        segment.append(view, headers, base_offset, config.index_interval_bytes)
        self.log_end_offset = next_offset
        self.size_bytes += position
        if idempotent:
            self._note_producers(headers, base_offset, now, marker)
        if segment.size > self._next_rung:
            self._add_rung()
        return Appended(NONE, base_offset, next_offset - 1, append_time, False)

    def append_as_follower(self, view: memoryview, headers: Sequence[BatchHeader], now: Now) -> None:
        """Append whole batches unchanged, with the leader's epochs and offsets. The leader's compaction can leave gaps.

        The batches begin at the end of the log or later. Raises `StorageFailed`: batches before the failed one are then appended.
        """
        self.finish_pending()
        position = 0
        for run in follower_batches.runs(headers):
            first, last = run[0], run[-1]
            size = sum(header.size for header in run)
            newest = max(header.max_timestamp for header in run)
            if self._active.must_roll(size, last.last_offset, newest, self.config, now.wall_ms):
                is_too_far = last.last_offset - self.log_end_offset > LARGEST_RELATIVE
                self.roll(first.base_offset if is_too_far else None)
            if first.base_offset > self.log_end_offset and not self._active.may_have_gaps:
                note_copied(self._disk, self.path, self.segments)
                self._active.may_have_gaps = True
            if first.leader_epoch > self.epochs.latest:
                self.assign_leader_epoch(first.leader_epoch, first.base_offset)
            part = view[position : position + size]
            self._active.append(part, run, first.base_offset, self.config.index_interval_bytes)
            self.log_end_offset = last.next_offset
            self.size_bytes += size
            for start, header in follower_batches.of_producers(run):
                marker = read_marker(part[start : start + header.size]) if header.is_control else None
                self._note_producers((header,), header.base_offset, now, marker)
            position += size
        if self._active.size > self._next_rung:
            self._add_rung()

    def assign_leader_epoch(self, leader_epoch: int, start_offset: int | None = None) -> None:
        """Record that `leader_epoch` begins at `start_offset`, by default the end of the log. Raises `StorageFailed`."""
        self.finish_pending()
        before = list(self.epochs.entries)
        if self.epochs.assign(leader_epoch, self.log_end_offset if start_offset is None else start_offset):
            try:
                self._write_epochs()
            except StorageFailed:
                self.epochs.entries = before
                raise

    # Deletion and truncation

    def delete_records(self, offset: int) -> None:
        """Set the log's start to `offset`, or to the log's end if that is lower. The next `retain` deletes segments before it.

        The caller writes the checkpoint of log start offsets.
        """
        if offset > self.log_start_offset:
            self._move_start(min(offset, self.log_end_offset))

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that contains `offset` or a later one, as a diverging follower does. Raises `StorageFailed`.

        First make a recovery point at or below `offset` durable, because a start after a crash would treat a shorter log as
        damaged. Epochs that begin at `offset` or later are removed, even if they have no batches.
        """
        plan = run_to_end(self.plan_cut(offset))
        if plan is not None:
            self.cut(plan)

    def plan_cut(self, offset: int) -> Pauses[PlannedCut | None]:
        """Plan `truncate_to(offset)`, with pauses. Return None if no batch has to be dropped. Raises `StorageFailed`.

        The planning only reads the files. If it returns None, it removes leader epochs without batches that begin at `offset` or
        later.
        """
        self.finish_pending()
        if offset >= self.log_end_offset:
            if self.epochs.truncate_end(offset):
                self._write_epochs()
            return None
        while True:
            cuts, number = self.cuts, self._reader.number(max(0, offset - 1))
            segments = self.segments[: number + 1]
            try:
                position, end_offset = self._reader.in_parts(partial(self._cut_at, segments[-1], offset))
            except Unfinished:
                yield
                continue
            spans = [*((segment, segment.size) for segment in segments[:-1]), (segments[-1], position)]
            producers = yield from producers_at(self._disk, self.path, self._snapshots, spans, self.config.ottla_max_producer_ids)
            plan = PlannedCut(offset, segments[-1], position, end_offset, producers, cuts)
            if self.is_current(plan):
                return plan

    def is_current(self, plan: PlannedCut) -> bool:
        """Return whether a planned truncation is still valid: its segment exists, and the log was not truncated since the plan."""
        return plan.cuts == self.cuts and plan.segment in self.segments

    def loses_all(self, plan: PlannedCut) -> bool:
        """Return whether the planned truncation is before the log's start, so that it removes the whole log."""
        return min(plan.offset, plan.end_offset) < self.log_start_offset

    def cut(self, plan: PlannedCut) -> None:
        """Truncate the log as planned. Raises `StorageFailed` if the disk fails after the change in memory.

        Then `finish_pending` must be called to change the remaining files.
        """
        if self.loses_all(plan):
            self.restart_at(min(plan.offset, self.log_start_offset))
            return
        self.finish_swap()
        assert self.is_current(plan), "a plan from before another cut says nothing of what the log holds now"
        first = self.segments.index(plan.segment) + 1
        gone = list(self._leave(self.segments[first:])) if first < len(self.segments) else []
        self._aborted.mark_removed(gone)
        segment = plan.segment
        if segment is not self._active:
            self._active, self.unnamed = segment, None  # its name was synced before the next segment was begun
        self._unsynced.pop(segment, None)  # no longer sealed
        self._aborted.mark_changed(segment)
        segment.forget_end(plan.position)
        plan.producers.replace_in_count(self.producers)
        self.producers = plan.producers
        self._was_cut(plan.end_offset)
        end, interval, truncated = plan.end_offset, self.config.index_interval_bytes, self.sidecars.on_truncation
        self._pending = PendingCut(gone, segment, end, end, interval, self._write_epochs, truncated)
        self.finish_pending()

    def _was_cut(self, end_offset: int) -> None:
        self.cuts += 1
        self.log_end_offset = end_offset
        self.synced_offset = min(self.synced_offset, end_offset)
        self._forget_durable_place()
        self.size_bytes = sum(segment.size for segment in self.segments)
        self.epochs.truncate_end(end_offset)
        self._snapshot_at = 0
        self._rungs = [offset for offset in self._rungs if offset <= end_offset]
        self._next_rung = self._active.size + RUNG_BYTES
        self._reader.cut(end_offset)

    def _cut_at(self, segment: Segment, offset: int) -> tuple[int, int]:
        """Return (byte position of the first batch to remove, the log's new end offset) for a truncation at `offset`."""
        position = self._reader.locate_in(segment, offset, self.log_end_offset) if segment.size else 0
        return position, self._reader.offset_at(segment, position, self.log_end_offset)

    def restart_at(self, offset: int) -> None:
        """Drop the whole log and begin it again at `offset`, as a follower does whose leader's log begins later.

        First make a recovery point at or below the first segment's base offset durable, as for `truncate_to`. Raises
        `StorageFailed` after the change in memory: `finish_pending` then changes the remaining files.
        """
        self.finish_pending()
        self.finish_swap()
        old = list(self._leave(self.segments[:]))
        self._aborted.mark_removed(old)
        last, fresh = old[0], None
        if last.base_offset == offset:
            last.forget_end(0)
            self._aborted.mark_changed(last)
        else:
            fresh = Segment(self._disk, self.path, offset, 0, new=True)
        self._active = self.unnamed = fresh or last
        self.segments.append(self._active)
        none = Producers()
        none.replace_in_count(self.producers)
        self.producers = none
        self.epochs.entries.clear()
        self.log_start_offset = self.synced_offset = offset
        self._was_cut(offset)
        give_up = partial(self.sidecars.invalidate, offset)
        interval = self.config.index_interval_bytes
        self._pending = PendingCut(old[1:], last, offset, NONE_AT_ALL, interval, self._write_epochs, give_up, fresh)
        self.finish_pending()

    def write_out(self) -> list[Syncable]:
        """Write most of the data that `close` would write, so that `close` is short. Return the files to sync before.

        Raises `StorageFailed`.
        """
        self.finish_pending()
        return [*self.dirty_files(), *self._active.save_indexes(final=True), *self.flush()]

    def close(self) -> None:
        """Write and sync everything, and close the files. Raises `StorageFailed`; the shutdown then does not count as clean."""
        self.finish_pending()
        self.finish_swap()
        files = self._active.save_indexes(final=True)
        if self._active.release_reserved():
            files.append(self._active.file)
        for file in [*self.dirty_files(), *files]:
            file.sync()
        self.mark_synced(self.log_end_offset)
        if self.log_end_offset > max(self._snapshots, default=0):
            self._save_producers()
        self.checkpoint()
        self._removed = retention.remove_expired(self._disk, self._removed, None, self.noted_start)
        for segment in self.segments:
            segment.close()
        self.sidecars.close()

    def delete(self) -> None:
        """Remove the partition's directory. Slices of the log stay readable as long as their files are open."""
        gone = set_aside_name(self.path, self.topic_id.hex(), DELETING)
        self._disk.rename(self.path, gone, sync=False)  # a power cut may bring the name back, but nothing refers to it then
        self._disk.remove_tree_soon(gone)
        self._removed.clear()
        self._unsynced.clear()
        self._reader.places.clear()

    # Private

    def _store(self, gaps: AssumedGaps) -> None:
        """Store what the start has assumed of gaps. On a full disk the log can be read, and the next write stores it first."""
        self._pending = gaps
        try:
            self.finish_pending()
        except StorageFailed as failure:
            log.warning("%s: where its offsets have gaps could not be stored: %s; nothing is written before", self.path, failure)

    def _check_producer(
        self, view: bytearray | memoryview, headers: Sequence[BatchHeader], origin_client: bool
    ) -> tuple[Appended | None, Marker | None]:
        """Check the producer epochs and sequences of batches before an append.

        Return (the refusal or None, the transaction marker in a control batch or None).
        """
        if headers[0].is_control:
            marker = read_marker(view)
            error_code = self.producers.check_marker(headers[0], marker.coordinator_epoch) if marker else NONE
            return (refusal(error_code) if error_code else None), marker
        known = self.producers.check(headers) if origin_client else self.producers.check_epoch(headers[0])
        return (refusal(known) if known else None), None

    def _note_producers(self, headers: Sequence[BatchHeader], base_offset: int, now: Now, marker: Marker | None) -> None:
        if marker is not None:
            self._end_transaction(headers[0], base_offset, marker, now)
            return
        self.producers.most = self.config.ottla_max_producer_ids
        for header in headers:
            self.producers.note(header, base_offset, now.wall_ms)
            base_offset += header.last_offset_delta + 1
        if self.producers.forgotten:
            self._report_forgotten()

    def _report_forgotten(self) -> None:
        """Write to the log file how many producer ids were removed because the log had too many."""
        forgotten, self.producers.forgotten = self.producers.forgotten, 0
        sentence = (
            "%s: %d producer ids were expired, oldest first, because there are more than ottla.max.producer.ids=%d: a batch that "
            "one of them sends again is appended again. Raise the setting if so many producers are real."
        )
        log.warning(sentence, self.path, forgotten, self.producers.most, extra={"cause": "producer ids"})

    def _end_transaction(self, header: BatchHeader, base_offset: int, marker: Marker, now: Now) -> None:
        aborted = self.producers.end_transaction(header, base_offset, marker, now.wall_ms)
        if aborted is not None:
            self._aborted.mark_changed(self._active)
            try:
                self._active.transactions.add(aborted)
            except StorageFailed as failure:
                log.error("%s: an aborted transaction could not be stored: %s", self.path, failure)
