"""One partition's log: appends to the newest segment, reads slices of any, deletes old ones.

Knows its directory, batch headers and the settings; knows no client, no leader and no other partition. An append is short on
purpose: headers are checked once, batches are stamped in place and handed to the disk as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from ottla.log import copies, retention, swap
from ottla.log.appended import NO_TIMESTAMP, Appended, refused
from ottla.log.compacted import note_copied, note_none
from ottla.log.config import LOG_APPEND_TIME, LogConfig
from ottla.log.damaged import Damaged, Vanished
from ottla.log.gaps import note_gaps
from ottla.log.joints import check_joints
from ottla.log.names import DELETING, LEADER_EPOCHS, LOG, TRANSACTION_INDEX, set_aside_name
from ottla.log.positions07 import NO_POSITIONS, Positions07
from ottla.log.producers import Producers
from ottla.log.readable import ReadableLog
from ottla.log.reading import PLACES, LogReader
from ottla.log.recovery import NO_TOPIC_ID, Opened, Opening, start_anew
from ottla.log.segment import LARGEST_RELATIVE, Segment, begin_segment
from ottla.log.snapshots import forget_snapshot, load_producers, remove_snapshots, write_snapshot
from ottla.log.soundness import ENDLESS
from ottla.log.stamping import set_times, stamp_all
from ottla.log.transactions import Marker, read_marker
from ottla.log.unfinished import Unfinished
from ottla.ports import Disk, File, Now, StorageFailed, Syncable
from ottla.records.batch import BatchHeader
from ottla.wire.errors import NONE, RECORD_LIST_TOO_LARGE

__all__ = ["Appended", "Damaged", "Log", "LogConfig"]

log = logging.getLogger("ottla.log")

SNAPSHOT_BYTES = 1 << 20
"""How much may be written to a segment before a checkpoint saves the producers' state again."""


class Log(ReadableLog):
    """A partition's log, opened by `Log.open`. Synchronous, and for one thread.

    Everything below `synced_offset` is durable; `size_bytes` is the size of the segments' batches. What was deleted stays beside
    it until the caller has raised `noted_start`: the epochs on stable storage tell then that the log begins there.
    """

    __slots__ = (
        "_aborted",
        "_active",
        "_disk",
        "_epochs_saved",
        "_names_synced",
        "_removed",
        "_snapshot_at",
        "_snapshots",
        "_swap",
        "_swap_step",
        "_unsynced",
        "config",
        "noted_start",
        "positions_07",
        "producers",
        "size_bytes",
        "synced_offset",
        "topic_id",
    )

    def __init__(self, disk: Disk, path: str, config: LogConfig, opened: Opened, topic_id: bytes) -> None:
        self.path = path
        self.config = config
        self.topic_id = topic_id
        self.segments: list[Segment] = opened.segments
        self.epochs = opened.epochs
        self.producers: Producers = opened.producers
        self.log_start_offset = opened.log_start_offset
        self.log_end_offset = opened.log_end_offset
        self.synced_offset = opened.log_end_offset
        self.size_bytes = sum(segment.size for segment in opened.segments)
        self._active = opened.segments[-1]
        self._aborted = opened.aborted
        self._disk = disk
        self._snapshots = opened.snapshots
        self._snapshot_at = 0
        self._reader = LogReader(path, opened.segments, opened.epochs)
        self._unsynced: dict[Segment, list[tuple[int, File]]] = {}  # sealed ones; (what the log must be synced up to, file)
        self._epochs_saved = opened.epochs_saved
        self._names_synced = True
        self._removed: list[retention.RemovedSegment] = opened.removed
        self.noted_start = ENDLESS
        self._swap: swap.Swap | None = None
        self._swap_step = 0
        self.positions_07 = NO_POSITIONS
        if opened.positions_07:
            self.positions_07 = Positions07(disk, path, self, opened.positions_07, is_whole=opened.is_clean)

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
    ) -> Log:
        """Open the directory `path`, creating it if needed.

        After an orderly stop (`clean`) nothing is scanned. Otherwise batches from `recovery_point` on are read and checked, and a
        torn tail is cut off; that and `log_start_offset` come from the checkpoints (`ottla.log.checkpoints`). `is_noted`: they name
        this log, so that what is missing in front or between segments is damage. Without `is_start_known` the log begins where
        its leader epochs do. `was_killed`: only the process ended, so that nothing which it wrote can be missing but the end of the
        last append. Raises `Damaged` if synced data is bad, and `StorageFailed`.
        """
        opening = Opening(disk, path, config, clean=clean, recovery_point=recovery_point, was_killed=was_killed)
        opened = opening.run(topic_id, log_start_offset, is_noted=is_noted, is_start_known=is_start_known)
        opened.producers.expire(now.wall_ms - config.producer_id_expiration_ms)
        log = cls(disk, path, config, opened, topic_id)
        if is_noted:
            log.noted_start = log.log_start_offset if opened.epochs_saved else log_start_offset
        may_have_gaps = config.compacts and not is_noted
        check_joints(disk, path, log._reader, log.log_start_offset, log.log_end_offset, may_have_gaps=may_have_gaps)
        log._reserve(log._active)
        return log

    @property
    def leader_epoch(self) -> int:
        """The newest epoch in the log, or -1."""
        return self.epochs.latest

    @property
    def last_stable_offset(self) -> int:
        """Where records readable by read_committed consumers end: at the oldest open transaction, or at the log's end.

        Never below the log's start, where nobody could read.
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
        """Append the checked batches that fill `view`; they are stamped in place with offsets and `leader_epoch`.

        `headers` are theirs, in order. Sequences are checked for clients' batches only, epochs for all. Raises `StorageFailed`, and
        nothing has changed then.
        """
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
                return refused(RECORD_LIST_TOO_LARGE)
            self.roll()
            segment = self._active
        if leader_epoch > self.epochs.latest:
            self.assign_leader_epoch(leader_epoch)
        segment.append(view, headers, base_offset, config.index_interval_bytes)
        self.log_end_offset = next_offset
        self.size_bytes += position
        if idempotent:
            self._note_producers(headers, base_offset, now, marker)
        return Appended(NONE, base_offset, next_offset - 1, append_time, False)

    def append_as_follower(self, view: memoryview, headers: Sequence[BatchHeader], now: Now) -> None:
        """Append whole batches as their leader wrote them, with its epochs and offsets: gaps come from its compaction.

        They begin at the end of the log or later. Raises `StorageFailed`: those before the one that failed are appended then.
        """
        position = 0
        for run in copies.runs(headers):
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
            for start, header in copies.of_producers(run):
                marker = read_marker(part[start : start + header.size]) if header.is_control else None
                self._note_producers((header,), header.base_offset, now, marker)
            position += size

    def assign_leader_epoch(self, leader_epoch: int, start_offset: int | None = None) -> None:
        """Record that `leader_epoch` begins at `start_offset`, or else at the end of the log. Raises `StorageFailed`."""
        before = list(self.epochs.entries)
        if self.epochs.assign(leader_epoch, self.log_end_offset if start_offset is None else start_offset):
            try:
                self._write_epochs()
            except StorageFailed:
                self.epochs.entries = before
                raise

    def roll(self, offset: int | None = None) -> None:
        """Seal the newest segment and begin another at the log's end. Raises `StorageFailed`, and nothing has changed then.

        At an `offset` beyond the end, the log goes on there: the leader's compaction removed what no segment could span.
        """
        sealed = self._active
        if offset is None and not sealed.size:
            return
        self.check_place()
        end = self.log_end_offset
        if offset is not None and offset > end:
            note_gaps(self._disk, self.path, [(end, offset)])
            end = offset
        files = sealed.flush_indexes(final=True)
        if sealed.give_back():
            files.append(sealed.file)
        self._save_producers(end)
        if self.config.compacts and len(self.segments) == 1:
            note_none(self._disk, self.path)
        self._disk.sync_dir(self.path)  # a crash that kept only the new file would look like a log that starts there
        fresh = begin_segment(self._disk, self.path, end)
        self._reserve(fresh)
        self._active = fresh
        self._snapshot_at = 0
        self.segments.append(self._active)
        before, self.log_end_offset = self.log_end_offset, end
        unsynced = [(end + 1, file) for file in files]  # a sync up to `end` may have been asked for before they were written
        if self.synced_offset < before:
            unsynced.append((end, sealed.file))
        if unsynced:
            self._unsynced[sealed] = unsynced

    def dirty_files(self) -> list[File]:
        """Return the files to be synced to make everything below `log_end_offset` durable."""
        files = [file for unsynced in self._unsynced.values() for _, file in unsynced]
        if self.synced_offset < self.log_end_offset and self._active.size:
            files.append(self._active.file)
        if self._active.size:
            places = self._reader.places
            if len(places) >= PLACES:
                del places[next(iter(places))]
            places[self.log_end_offset] = (self._active, self._active.size)
        if self.positions_07 is not NO_POSITIONS:
            files += self.positions_07.dirty_files()
        return files

    @property
    def has_unsynced_segments(self) -> bool:
        """Whether sealed segments wait for a sync."""
        return bool(self._unsynced)

    def mark_synced(self, offset: int) -> None:
        """Note that the `dirty_files` of when the log ended at `offset` were synced."""
        assert offset <= self.log_end_offset, "a sync from before a truncation says nothing of what is written now"
        if offset > self.synced_offset:
            self.synced_offset = offset
        for segment, unsynced in list(self._unsynced.items()):
            left = self._unsynced[segment] = [(end, file) for end, file in unsynced if end > offset]
            if not left:
                del self._unsynced[segment]
        if self.positions_07 is not NO_POSITIONS:
            self.positions_07.mark_synced()

    def find_positions_07(self) -> Positions07:
        """Return the positions for clients of Kafka 0.7, which begin with the first who asks."""
        found = self.positions_07
        if not isinstance(found, Positions07):
            found = self.positions_07 = Positions07(self._disk, self.path, self)
        return found

    def check_place(self) -> None:
        """Raise `StorageFailed` if somebody removed the log's directory or its newest file: what is appended would be nowhere."""
        active = self._active
        name = active.path(LOG) if active.size else self.path
        if not self._disk.exists(name):
            sentence = "it was removed while the broker ran"
            raise Vanished(name, f"{sentence}: restore it and restart the broker, or delete the topic to give its records up.")

    # Forgetting

    def replace_segments(self, old: Sequence[Segment], new: Segment, now: Now) -> bool:
        """Put a compacted segment, complete and synced, in the place of those it was made from.

        Returns False, with nothing changed, if some of those are gone. Raises `StorageFailed` with nothing changed. While
        `is_swapping`, have the `directory` synced and call `go_on_swapping`, repeatedly.
        """
        self.finish_swap()
        first = next((number for number, segment in enumerate(self.segments) if segment is old[0]), -1)
        if first < 0 or self.segments[first : first + len(old)] != list(old) or old[-1] is self._active:
            return False
        self.positions_07.compacted(self._reader.end_offset(old[-1], self.log_end_offset))
        swap.decide(self._disk, new)
        self._leave(old)
        self._aborted.replaced(old)
        self.segments[first:first] = [new]
        self.size_bytes += new.size - sum(segment.size for segment in old)
        self._reader.places.clear()
        self._swap = swap.Swap(new, list(old), now.mono_ms + self.config.file_delete_delay_ms)
        return True

    @property
    def is_swapping(self) -> bool:
        """Whether compacted files do not have their final names yet."""
        return self._swap is not None

    @property
    def swap_step(self) -> int:
        """The number of the step that is next: whoever has the directory synced for it says so to `go_on_swapping`."""
        return self._swap_step

    def go_on_swapping(self, step: int | None = None) -> None:
        """Do the next step of a swap, if it is still `step`: the directory was synced for it. Raises `StorageFailed`."""
        going_on = self._swap
        if going_on is None or step not in (None, self._swap_step):
            return
        self._swap_step += 1
        try:
            if going_on.go_on(self._disk):
                self._swap = None
        finally:
            self._removed += going_on.removed
            going_on.removed.clear()

    def finish_swap(self) -> None:
        """Finish all swaps, and wait for it. Raises `StorageFailed` if that fails."""
        while self._swap is not None:
            self._disk.sync_dir(self.path)
            self.go_on_swapping()

    @property
    def directory(self) -> Syncable:
        """The names of its files, to be synced."""
        return self._disk.directory(self.path)

    def retain(self, now: Now, *, until_offset: int | None = None, most: int | None = None) -> int:
        """Delete old segments by the settings, none reaching beyond `until_offset`, at most `most`; returns how many.

        The last one is gone for good when `directory` is synced (call `names_are_synced` then), the others at once. What the disk
        refuses is logged, and tried again the next time. Raises `Unfinished` if it takes more calls to find out what is old.
        """
        if self._names_synced:
            self.positions_07.drop_before(self.segments[0].base_offset)
        self._removed = retention.remove_expired(self._disk, self._removed, now, self.noted_start)
        self.producers.expire(now.wall_ms - self.config.producer_id_expiration_ms)
        limit = self.log_end_offset if until_offset is None else until_offset
        before = len(self._removed)
        try:
            self.finish_swap()
            before = len(self._removed)
            expired = self._expired(now, limit)
            self._remove_oldest(expired if most is None else min(expired, most), now)
        except Unfinished:
            raise
        except StorageFailed as failure:
            log.error("%s: old segments could not be deleted: %s", self.path, failure, extra={"cause": "retention"})
        return len(self._removed) - before

    def names_are_synced(self) -> None:
        """Note that the `directory` was synced since the last segment was deleted."""
        self._names_synced = True

    def delete_records(self, offset: int) -> None:
        """Begin the log at `offset`, at most its end. The next `retain` deletes the files; the caller keeps the checkpoint."""
        if offset > self.log_start_offset:
            self._move_start(min(offset, self.log_end_offset))

    def truncate_to(self, offset: int) -> None:
        """Drop every batch that reaches `offset` or beyond (a follower that diverged). Raises `StorageFailed`.

        First make a recovery point at or below `offset` durable, or the shorter log is taken for damage after a crash. Epochs that
        begin there without a batch are forgotten, too.
        """
        if offset >= self.log_end_offset:
            if self.epochs.truncate_end(offset):
                self._write_epochs()
            return
        self.finish_swap()
        self._reader.places.clear()
        while len(self.segments) > 1 and self.segments[-1].base_offset >= offset:
            self._leave(self.segments[-1:])[0].remove()
        self._disk.sync_dir(self.path)
        segment = self._active = self.segments[-1]
        self._unsynced.pop(segment, None)  # no longer sealed
        self._aborted.changed(segment)
        self.log_end_offset = segment.truncate_to(offset, self.config.index_interval_bytes)
        if self.log_end_offset < self.log_start_offset:
            self._unsynced.clear()
            self._active = start_anew(self._disk, self.path, self.segments, self.log_start_offset)
            self.log_end_offset = self.log_start_offset
        self.synced_offset = min(self.synced_offset, self.log_end_offset)
        self.size_bytes = sum(segment.size for segment in self.segments)
        if self.epochs.truncate_end(self.log_end_offset):
            self._write_epochs()
        self.producers = load_producers(self._disk, self.path, self._snapshots, self.segments, self.log_end_offset)
        self.positions_07.truncated()

    def restart_at(self, offset: int) -> None:
        """Drop the whole log and begin it anew at `offset`, beyond its end (a follower left behind). Raises `StorageFailed`.

        First make a recovery point at or below the log's start durable, as for `truncate_to`.
        """
        self.finish_swap()
        self._reader.places.clear()
        self._unsynced.clear()
        segment = self._active = start_anew(self._disk, self.path, self.segments, offset)
        self._aborted.changed(segment)
        self.log_start_offset = self.log_end_offset = self.synced_offset = offset
        self.size_bytes = segment.size
        remove_snapshots(self._disk, self.path, self._snapshots, unwanted=list(self._snapshots))
        if self.epochs.truncate_end(0):
            self._write_epochs()
        self.producers = load_producers(self._disk, self.path, self._snapshots, self.segments, offset)
        self.positions_07.give_up(offset)

    def checkpoint(self) -> int:
        """Write indexes, epochs and producers' state to disk, so that little is read after a crash.

        Returns the recovery point to be kept. Raises `StorageFailed`.
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
        """Do the same without waiting: once the returned files are synced, the present `synced_offset` is the recovery point.

        Indexes below it are not checked again. Raises `StorageFailed`.
        """
        files: list[Syncable] = [*self._active.save_indexes()]
        # Aborted transactions below it are not looked for again either, nor in segments sealed since.
        sealed = [one for unsynced in self._unsynced.values() for one in unsynced]
        files += [file for end, file in sealed if end <= self.synced_offset + 1 or file.path.endswith(TRANSACTION_INDEX)]
        files += self._aborted.write(self.segments)
        if self._active.size - self._snapshot_at > SNAPSHOT_BYTES:
            self._save_producers()
        if not self._epochs_saved:
            self._write_epochs()  # an earlier attempt may have found no space
            files += [self._disk.open(f"{self.path}/{LEADER_EPOCHS}"), self.directory]
            self._epochs_saved = True
        return files

    def was_not_flushed(self) -> None:
        """Note that the files which `flush` or `write_out` returned were not synced."""
        self._epochs_saved = False

    def write_out(self) -> list[Syncable]:
        """Write what `close` would; with the returned files synced it has little left to wait for. Raises `StorageFailed`."""
        return [*self.dirty_files(), *self._active.save_indexes(final=True), *self.flush()]

    def close(self) -> None:
        """Write out and sync everything, and close the files. Raises `StorageFailed`: the next start is then not a clean one."""
        self.finish_swap()
        files = self._active.save_indexes(final=True)
        if self._active.give_back():
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
        self.positions_07.close()

    def delete(self) -> None:
        """Remove the partition's directory; slices handed out stay readable while their files are open."""
        gone = set_aside_name(self.path, self.topic_id.hex(), DELETING)
        self._disk.rename(self.path, gone, sync=False)  # a power cut may bring the name back, but nothing refers to it then
        self._disk.remove_tree_soon(gone)
        self._removed.clear()
        self._unsynced.clear()
        self._reader.places.clear()

    # Inside

    def _reserve(self, segment: Segment) -> None:
        """Give a new segment's file its full size at once, if the settings say so (preallocate). Raises `StorageFailed`."""
        if self.config.preallocate and not segment.size:
            segment.reserve(self.config.segment_bytes)

    def _check_producer(
        self, view: bytearray | memoryview, headers: Sequence[BatchHeader], origin_client: bool
    ) -> tuple[Appended | None, Marker | None]:
        """Return (the answer if nothing is to be written, the marker in a control batch)."""
        if headers[0].is_control:
            marker = read_marker(view)
            error_code = self.producers.check_marker(headers[0], marker.coordinator_epoch) if marker else NONE
            return (refused(error_code) if error_code else None), marker
        known = self.producers.check(headers) if origin_client else self.producers.check_epoch(headers[0])
        return (refused(known) if known else None), None

    def _note_producers(self, headers: Sequence[BatchHeader], base_offset: int, now: Now, marker: Marker | None) -> None:
        if marker is not None:
            self._end_transaction(headers[0], base_offset, marker, now)
            return
        for header in headers:
            self.producers.note(header, base_offset, now.wall_ms)
            base_offset += header.last_offset_delta + 1

    def _end_transaction(self, header: BatchHeader, base_offset: int, marker: Marker, now: Now) -> None:
        aborted = self.producers.end_transaction(header, base_offset, marker, now.wall_ms)
        if aborted is not None:
            self._aborted.changed(self._active)
            try:
                self._active.transactions.add(aborted)
            except StorageFailed as failure:
                log.error("%s: an aborted transaction is known in memory only: %s", self.path, failure)

    def _save_producers(self, end: int | None = None) -> None:
        """Write the producers' state as of `end`, by default the end of the log. Raises `StorageFailed`."""
        end = self.log_end_offset if end is None else end
        write_snapshot(self._disk, self.path, end, self.producers)
        if end not in self._snapshots:
            self._snapshots.append(end)
        self._snapshot_at = self._active.size
        bases = {segment.base_offset for segment in self.segments}
        remove_snapshots(
            self._disk,
            self.path,
            self._snapshots,
            unwanted=[known for known in self._snapshots if known not in bases and known != end],
        )

    def _write_epochs(self) -> None:
        """Not synced before the next checkpoint: recovery finds in the batches what a crash loses of it."""
        self._disk.write_file(f"{self.path}/{LEADER_EPOCHS}", self.epochs.encode(), sync=False)
        self._epochs_saved = False

    def _expired(self, now: Now, until_offset: int) -> int:
        start, end = self.log_start_offset, self.log_end_offset
        look = partial(retention.expired, self.segments, self.config, now, self._disk, start, until_offset, end)
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
        finally:  # also if the disk refused to go on: what is gone is gone
            self._move_start(max(self.log_start_offset, self.segments[0].base_offset))

    def _remove_first(self, now: Now) -> None:
        segment = self.segments[0]
        if not self._names_synced:
            self._disk.sync_dir(self.path)  # one after the other, or a power cut could bring back the first and not the second
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
        """Take these segments out of the log. There is no other way out, so that nothing deleted is ever synced."""
        first = self.segments.index(segments[0])
        del self.segments[first : first + len(segments)]
        for segment in segments:
            self._unsynced.pop(segment, None)
        return segments

    def _move_start(self, offset: int) -> None:
        self.log_start_offset = offset
        if self.epochs.truncate_start(offset):
            self._epochs_saved = False  # the next checkpoint writes them
