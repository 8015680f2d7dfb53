"""The upkeep of a log: segments are sealed, synced, replaced by compacted ones, and deleted when they are old.

It uses segments, the settings and the files beside segments, and appends nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Sequence
from functools import partial

from ottla.log.config import LogConfig
from ottla.log.errors import Unfinished, Vanished
from ottla.log.names import LEADER_EPOCHS, LOG, TRANSACTION_INDEX
from ottla.log.producer_state.producers import Producers
from ottla.log.producer_state.snapshots import forget_snapshot, remove_snapshots, write_snapshot
from ottla.log.producer_state.transaction_index_notes import AbortedNotes
from ottla.log.reads import ReadableLog
from ottla.log.recovery.gaps import AssumedGaps, note_gaps
from ottla.log.recovery.truncation import PendingCut
from ottla.log.segments import retention, swap
from ottla.log.segments.compacted_note import NEW_COPIED, begin_copied, drop_note, finish_note, note_none
from ottla.log.segments.segment import Segment, begin_segment
from ottla.log.sidecars import NO_SIDECARS, Sidecars
from ottla.log.unsynced_batches import DurablePlace, UnsyncedBatches, batches_since
from ottla.ports import Disk, File, Now, StorageFailed, Syncable
from ottla.records.batches.header import BatchHeader

log = logging.getLogger("ottla.log")

SNAPSHOT_BYTES = 1 << 20
"""The bytes written to a segment after which a checkpoint saves the producers' state again."""

RUNG_BYTES = 64 << 20
"""The bytes appended to a segment between two lasting snapshots of the producers' state, which bounds a cut's replay."""


Pending = PendingCut | AssumedGaps


class LogUpkeep(ReadableLog):
    """A log whose segments are sealed, synced, replaced and deleted.

    Everything below `synced_offset` is durable in the log's own files, and everything below `durable_offset` there or in the
    journal. `_durable_at` is a place below which everything is durable, or None after a cut; `_asked` becomes that place when the
    files of `dirty_files` are synced. `size_bytes` is the size of the segments' batches, and `cuts` counts cuts of the log.
    `_unsynced` has, for each sealed segment, pairs of a file and the log's end offset at which the file's sync is needed. Producer
    snapshots at the offsets `_rungs` are kept while these are in the two newest segments, where cuts are made. The next one is due
    when the newest segment has more than `_next_rung` bytes. `unnamed` is the newest segment while its name is possibly not on
    stable storage: call `is_named` after a sync of the `directory`.
    """

    __slots__ = (
        "_aborted",
        "_active",
        "_asked",
        "_disk",
        "_durable_at",
        "_epochs_saved",
        "_names_synced",
        "_next_rung",
        "_pending",
        "_removed",
        "_rungs",
        "_snapshot_at",
        "_snapshots",
        "_swap",
        "_swap_step",
        "_unsynced",
        "config",
        "cuts",
        "durable_offset",
        "noted_start",
        "producers",
        "sidecars",
        "size_bytes",
        "synced_offset",
        "unnamed",
    )

    config: LogConfig
    cuts: int
    durable_offset: int
    noted_start: int
    producers: Producers
    sidecars: Sidecars
    size_bytes: int
    synced_offset: int
    unnamed: Segment | None
    _aborted: AbortedNotes
    _asked: DurablePlace | None
    _active: Segment
    _disk: Disk
    _durable_at: DurablePlace | None
    _epochs_saved: bool
    _names_synced: bool
    _next_rung: int
    _pending: Pending | None
    _removed: list[retention.RemovedSegment]
    _rungs: list[int]
    _snapshot_at: int
    _snapshots: list[int]
    _swap: swap.Swap | None
    _swap_step: int
    _unsynced: dict[Segment, list[tuple[int, File]]]

    def roll(self, offset: int | None = None) -> None:
        """Seal the newest segment and begin another at the log's end. Raises `StorageFailed` with nothing changed.

        With an `offset` beyond the end, the new segment begins at `offset`, because the leader's compaction left a gap that is too
        large for one segment.
        """
        self.finish_pending()
        sealed = self._active
        if offset is None and not sealed.size:
            return
        self.check_place()
        end = self.log_end_offset
        if offset is not None and offset > end:
            note_gaps(self._disk, self.path, [(end, offset)])
            end = offset
        files = sealed.flush_indexes(final=True)
        if sealed.release_reserved():
            files.append(sealed.file)
        self._save_producers(end)
        if self.config.compacts and len(self.segments) == 1:
            note_none(self._disk, self.path)
        if self.unnamed is not None:  # after a crash that kept only the new file, the log would seem to start there
            self._disk.sync_dir(self.path)
        fresh = begin_segment(self._disk, self.path, end)
        self._reserve(fresh)
        self._active = self.unnamed = fresh
        self._snapshot_at, self._next_rung = 0, RUNG_BYTES
        self.segments.append(self._active)
        before, self.log_end_offset = self.log_end_offset, end
        unsynced = [(end + 1, file) for file in files]  # a sync up to `end` may have been requested before they were written
        if self.synced_offset < before:
            unsynced.append((end, sealed.file))
        if unsynced:
            self._unsynced[sealed] = unsynced

    def is_named(self, segment: Segment) -> None:
        """Record that the `directory` was synced after this segment was `unnamed` and had batches."""
        if self.unnamed is segment:
            self.unnamed = None

    def lacks_note(self, headers: Iterable[BatchHeader]) -> bool:
        """Return whether offsets are missing before these batches, and the newest segment is not recorded as compacted.

        Return False for a topic that is not compacted now, because the append itself detects and records its missing offsets.
        """
        if self._active.may_have_gaps or not self.config.compacts:
            return False
        end_offset, has_gap = self.log_end_offset, False
        for header in headers:
            has_gap |= header.base_offset > end_offset
            end_offset = header.next_offset
        return has_gap

    def note_gaps_soon(self) -> Generator[Syncable]:
        """Add the newest segment to the list of segments that may lack offsets.

        The caller syncs each yielded file before it resumes the generator. Nothing is added if the segment is sealed or the log is
        truncated meanwhile. Raises `StorageFailed`.
        """
        self.finish_pending()
        segment, cuts = self._active, self.cuts
        try:
            while segment is self._active and cuts == self.cuts and not segment.may_have_gaps:
                note = begin_copied(self._disk, self.path, self.segments)
                yield note.file
                finished = finish_note(self._disk, self.path, note) if segment is self._active and cuts == self.cuts else None
                if finished is not None:
                    yield finished
                    segment.may_have_gaps = True
        finally:
            drop_note(self._disk, self.path, NEW_COPIED)

    # Durability

    def dirty_files(self) -> list[Syncable]:
        """Return the files whose sync makes everything below `log_end_offset` durable in them.

        The directory is one of them after a deletion: if a power cut undid that, an unsynced segment would end the log.
        """
        files: list[Syncable] = [file for unsynced in self._unsynced.values() for _, file in unsynced]
        if not self._names_synced:
            files.append(self.directory)
        if self.synced_offset < self.log_end_offset and self._active.size:
            files.append(self._active.file)
        self._asked = DurablePlace(self.log_end_offset, self._active, self._active.size)
        if self._active.size:
            self._reader.remember(self.log_end_offset, self._active, self._active.size)
        if self.sidecars is not NO_SIDECARS:
            files += self.sidecars.dirty_files()
        return files

    @property
    def has_unsynced_segments(self) -> bool:
        """Return whether sealed segments wait for a sync."""
        return bool(self._unsynced)

    def mark_synced(self, offset: int) -> None:
        """Record that the files of `dirty_files` are synced. `offset` is the log's end at the time of that call."""
        assert offset <= self.log_end_offset, "a sync from before a truncation says nothing of what is written now"
        if offset > self.synced_offset:
            self.synced_offset = offset
            if offset > self._active.base_offset:
                self.unnamed = None  # a file is synced with its name
        for segment, unsynced in list(self._unsynced.items()):
            left = self._unsynced[segment] = [(end, file) for end, file in unsynced if end > offset]
            if not left:
                del self._unsynced[segment]
        if self.sidecars is not NO_SIDECARS:
            self.sidecars.mark_synced()
        asked = self._asked
        if offset >= self.durable_offset and asked is not None and asked.offset == offset:
            self._durable_at = asked
        self.durable_offset = max(self.durable_offset, offset)

    def unsynced_batches(self, most_bytes: int) -> UnsyncedBatches | None:
        """Return the batches that are possibly not durable, for the journal.

        Return None if the log's own files must be synced instead: for more than `most_bytes`, after a truncation, after a deletion
        whose names are not synced yet, or with files beside the segments that are synced together with them.
        """
        place = self._durable_at
        if place is None or self._pending is not None or not self._names_synced or self.sidecars is not NO_SIDECARS:
            return None
        self._reader.remember(self.log_end_offset, self._active, self._active.size)
        return batches_since(place, self.segments, self.log_end_offset, most_bytes)

    def mark_journaled(self, batches: UnsyncedBatches) -> None:
        """Record that these batches are durable in the journal. The log was not cut since `unsynced_batches` returned them."""
        place = batches.end
        if place.offset >= self.durable_offset:
            self.durable_offset, self._durable_at = place.offset, place

    def _forget_durable_place(self) -> None:
        """Let the next sync be one of the log's own files, which makes a truncation durable, too."""
        self._durable_at = self._asked = None
        self.durable_offset = max(self.synced_offset, min(self.durable_offset, self.log_end_offset))

    def check_place(self) -> None:
        """Raise `Vanished` if the log's directory or its newest file was removed, because appends would be lost."""
        active = self._active
        name = active.path(LOG) if active.size else self.path
        if not self._disk.exists(name):
            sentence = "it was removed while the broker ran"
            raise Vanished(name, f"{sentence}: restore it and restart the broker, or delete the topic and its records.")

    # Cuts, swaps and retention

    def finish_pending(self) -> None:
        """Change the files that the disk refused to change: of a truncation, or of the gaps that the start assumed.

        Nothing is written before. Do nothing if there are none. Raises `StorageFailed`.
        """
        if self._pending is not None:
            self._pending.finish(self._disk, self.path, self.segments, self._snapshots)
            self._pending = None

    def replace_segments(self, old: Sequence[Segment], new: Segment, now: Now, cuts: int) -> bool:
        """Replace the segments `old` by the compacted segment `new`, which is complete and synced.

        `cuts` is the log's number of cuts at the beginning of the compaction. Return False, with nothing changed, if the log was
        cut since, or old segments are gone. While `is_swapping`, the caller syncs the `directory` and calls `run_swap_step`.
        Raises `StorageFailed` with nothing changed.
        """
        self.finish_pending()
        self.finish_swap()
        if cuts != self.cuts:
            return False
        first = next((number for number, segment in enumerate(self.segments) if segment is old[0]), -1)
        if first < 0 or self.segments[first : first + len(old)] != list(old) or old[-1] is self._active:
            return False
        self.sidecars.on_compaction(self._reader.end_offset(old[-1], self.log_end_offset))
        swap.decide(self._disk, new)
        new.may_have_gaps = True
        self._leave(old)
        self._aborted.mark_removed(old)
        self.segments[first:first] = [new]
        self.size_bytes += new.size - sum(segment.size for segment in old)
        self._reader.places.clear()
        self._swap = swap.Swap(new, list(old), now.mono_ms + self.config.file_delete_delay_ms)
        return True

    @property
    def is_swapping(self) -> bool:
        """Return whether files of compacted segments still have temporary names."""
        return self._swap is not None

    @property
    def swap_step(self) -> int:
        """Return the number of the next step in which compacted files get their final names.

        Sync the directory, then pass the number to the method that runs the step.
        """
        return self._swap_step

    def run_swap_step(self, step: int | None = None) -> None:
        """Do the next step of renaming compacted files, after a sync of the directory. Raises `StorageFailed`.

        Do nothing if `step` is given and is not the number of the next step.
        """
        going_on = self._swap
        if going_on is None or step not in (None, self._swap_step):
            return
        self._swap_step += 1
        try:
            if going_on.step(self._disk):
                self._swap = None
        finally:
            self._removed += going_on.removed
            going_on.removed.clear()

    def finish_swap(self) -> None:
        """Do all remaining steps of renaming compacted files, and sync the directory before each. Raises `StorageFailed`."""
        while self._swap is not None:
            self._disk.sync_dir(self.path)
            self.run_swap_step()

    @property
    def directory(self) -> Syncable:
        """Return the log's directory as an object that the caller can sync."""
        return self._disk.directory(self.path)

    def retain(self, now: Now, *, until_offset: int | None = None, most: int | None = None) -> int:
        """Delete at most `most` segments that the settings expire, up to `until_offset`. Return the number of deleted segments.

        The last deletion is durable after a sync of the `directory`, after which the caller calls `names_are_synced`. Other
        deletions are durable at once. Failures of the disk are logged, and the next call repeats the work. Raises `Unfinished` for
        another call.
        """
        if self._names_synced:
            self.sidecars.drop_before(self.segments[0].base_offset)
        self._removed = retention.remove_expired(self._disk, self._removed, now, self.noted_start)
        self.producers.expire(now.wall_ms - self.config.producer_id_expiration_ms)
        limit = self.log_end_offset if until_offset is None else until_offset
        before = len(self._removed)
        try:
            self.finish_pending()
            self.finish_swap()
            before = len(self._removed)
            expired = self._count_expired(now, limit)
            self._remove_oldest(expired if most is None else min(expired, most), now)
        except Unfinished:
            raise
        except StorageFailed as failure:
            log.error("%s: old segments could not be deleted: %s", self.path, failure, extra={"cause": "retention"})
        return len(self._removed) - before

    def names_are_synced(self) -> None:
        """Record that the `directory` was synced since the last segment was deleted."""
        self._names_synced = True

    # Checkpoints

    def checkpoint(self) -> int:
        """Write and sync the indexes and the epochs, and write the producers' state. Return the recovery point for the checkpoint.

        A start after a crash then reads little. Raises `StorageFailed`.
        """
        files = self.flush()
        try:
            for file in files:
                file.sync()
        except StorageFailed:
            self.was_not_flushed()
            raise
        self.noted_start = self.log_start_offset
        return self.synced_offset

    def flush(self) -> list[Syncable]:
        """Write what `checkpoint` writes, without waiting for a sync. Return the files that the caller has to sync.

        After these syncs the present `synced_offset` is the recovery point. No start checks indexes below it. Raises
        `StorageFailed`.
        """
        self.finish_pending()
        files: list[Syncable] = [*self._active.save_indexes()]
        # No start searches for aborted transactions below the recovery point, nor in segments sealed after this call.
        sealed = [one for unsynced in self._unsynced.values() for one in unsynced]
        files += [file for end, file in sealed if end <= self.synced_offset + 1 or file.path.endswith(TRANSACTION_INDEX)]
        files += self._aborted.write(self.segments)
        if self._active.size - self._snapshot_at > SNAPSHOT_BYTES:
            self._save_producers()
        if not self._epochs_saved:
            self._write_epochs()  # the last write may have failed on a full disk
            files += [self._disk.open(f"{self.path}/{LEADER_EPOCHS}"), self.directory]
            self._epochs_saved = True
        return files

    def was_not_flushed(self) -> None:
        """Record that the files returned by `flush` or `write_out` were not synced."""
        self._epochs_saved = False

    # Private

    def _reserve(self, segment: Segment) -> None:
        """Preallocate a new segment's file at its full size, if the settings require it (preallocate). Raises `StorageFailed`."""
        if self.config.preallocate and not segment.size:
            segment.reserve(self.config.segment_bytes)

    def _save_producers(self, end: int | None = None) -> None:
        """Write a snapshot of the producers' state as of offset `end`, by default the end of the log. Raises `StorageFailed`."""
        end = self.log_end_offset if end is None else end
        write_snapshot(self._disk, self.path, end, self.producers)
        if end not in self._snapshots:
            self._snapshots.append(end)
        self._snapshot_at = self._active.size
        first = self.segments[-2:][0].base_offset
        self._rungs = [known for known in self._rungs if first <= known <= end]
        bases = {segment.base_offset for segment in self.segments}.union(self._rungs)
        remove_snapshots(
            self._disk,
            self.path,
            self._snapshots,
            unwanted=[known for known in self._snapshots if known not in bases and known != end],
        )

    def _add_rung(self) -> None:
        """Write a producer snapshot at the log's end, which is kept while the offset is in the two newest segments.

        The next such snapshot is due after `RUNG_BYTES`, even if this one fails.
        """
        self._next_rung = self._active.size + RUNG_BYTES
        self._rungs.append(self.log_end_offset)
        try:
            self._save_producers()
        except StorageFailed as failure:
            sentence = "%s: the producers' state could not be saved (%s): a cut would replay more of the log"
            log.warning(sentence, self.path, failure, extra={"cause": "rung"})

    def _write_epochs(self, sync: bool = False) -> None:
        """Write the epochs. Without `sync` the next checkpoint syncs them: recovery restores lost epochs from the batches."""
        self._disk.write_file(f"{self.path}/{LEADER_EPOCHS}", self.epochs.encode(), sync=sync)
        self._epochs_saved = False

    def _count_expired(self, now: Now, until_offset: int) -> int:
        start, end = self.log_start_offset, self.log_end_offset
        look = partial(retention.count_expired, self.segments, self.config, now, self._disk, start, until_offset, end)
        return self._reader.in_parts(look)

    def _remove_oldest(self, count: int, now: Now) -> None:
        """Delete the first `count` segments, and begin a new one if none is left."""
        if not count:
            return
        if count == len(self.segments):
            self.roll()
        try:
            for _ in range(count):
                self._remove_first(now)
        finally:  # also after a failure: deleted segments stay deleted
            self._move_start(max(self.log_start_offset, self.segments[0].base_offset))

    def _remove_first(self, now: Now) -> None:
        segment = self.segments[0]
        if not self._names_synced or self.segments[1] is self.unnamed:
            # Otherwise a power cut could undo the older deletion alone, which leaves a gap, or leave no segment at all.
            self._disk.sync_dir(self.path)
        deadline_mono_ms, until = now.mono_ms + self.config.file_delete_delay_ms, self.segments[1].base_offset
        self._removed.append(retention.mark_removed(self._disk, segment, deadline_mono_ms, until))
        self._names_synced = False
        self._leave([segment])
        self.size_bytes -= segment.size
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        log.info("%s: the segment of offset %d (%d bytes) is deleted", self.path, segment.base_offset, segment.size)
        self._reader.places.clear()
        if segment.base_offset in self._snapshots:
            forget_snapshot(self._disk, self.path, self._snapshots, segment.base_offset)

    def _leave(self, segments: Sequence[Segment]) -> Sequence[Segment]:
        """Remove these segments from the log in memory, and return them. All removals use this, so no deleted file is synced."""
        first = self.segments.index(segments[0])
        del self.segments[first : first + len(segments)]
        for segment in segments:
            self._unsynced.pop(segment, None)
        return segments

    def _move_start(self, offset: int) -> None:
        self.log_start_offset = offset
        if self.epochs.truncate_start(offset):
            self._epochs_saved = False  # the next checkpoint writes them
