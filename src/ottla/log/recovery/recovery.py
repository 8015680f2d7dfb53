"""The opening of a partition's directory: which files it has, how far they are valid, and which must be rebuilt.

Batches that were never synced can be torn: they are cut off, counted and logged. Invalid batches that had been synced raise
`Damaged`, and nothing is changed. Derived files (indexes, snapshots, epochs) are rebuilt.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ottla.log.config import LogConfig
from ottla.log.epochs import LeaderEpochs
from ottla.log.errors import Damaged
from ottla.log.names import (
    COMPACTED_SEGMENTS,
    DELETED,
    HOLED_SEGMENTS,
    INDEX,
    LEADER_EPOCHS,
    LOG,
    OF_A_SEGMENT,
    PARTITION_METADATA,
    SNAPSHOT,
    TIME_INDEX,
    file_name,
    parse_file_name,
)
from ottla.log.partition_metadata import check_topic_id
from ottla.log.producer_state.producers import Producers
from ottla.log.producer_state.snapshots import drop_outlived, load_producers, rebuild_aborted
from ottla.log.producer_state.transaction_index_notes import AbortedNotes
from ottla.log.recovery.gaps import AssumedGaps, are_known, read_gaps, read_holed
from ottla.log.recovery.truncation import replace_only_segment
from ottla.log.segments.compacted_note import Compact, is_compact, read_compacted
from ottla.log.segments.retention import RemovedSegment
from ottla.log.segments.scan import LENGTH_FROM, headers
from ottla.log.segments.segment import Segment, begin_segment
from ottla.log.segments.soundness import ANY_EPOCH, ENDLESS, Bounds, find_sound
from ottla.log.segments.swap import recover_swaps
from ottla.log.sidecars import SidecarFormat
from ottla.ports import Disk, File, StorageFailed
from ottla.records.batches.header import CRC_FROM, HEADER_BYTES, MAGIC, BatchHeader, read_header
from ottla.records.checksum import crc32c

log = logging.getLogger("ottla.log")

CHUNK_BYTES = 1 << 20


@dataclass(slots=True)
class RecoveredLog:
    """The result of a recovery: the log's files, its bounds and its state in memory.

    `snapshots` are the offsets of producer snapshots, `sidecars` the base offsets of sidecars. `epochs_saved` is False if a full
    disk prevented the epochs from being written.
    """

    aborted: AbortedNotes
    segments: list[Segment] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    epochs_saved: bool = True
    producers: Producers = field(default_factory=Producers)
    snapshots: list[int] = field(default_factory=list)
    sidecars: list[int] = field(default_factory=list)
    holed: set[int] = field(default_factory=set)
    gaps: AssumedGaps = field(default_factory=AssumedGaps)
    is_clean: bool = False
    is_new: bool = False
    log_start_offset: int = 0
    log_end_offset: int = 0
    removed: list[RemovedSegment] = field(default_factory=list)


class LogRecovery:
    """The recovery of one partition's directory at startup. Everything below `recovery_point` was synced by an earlier process.

    `was_killed`: the process ended, but the machine did not fail, so that everything before the last append is complete.
    `_epochs_on_disk` is None if the epoch checkpoint is damaged. `_is_strange`: another program may have compacted the log.
    `_changed` is a message about a leader epoch that was changed on disk, and `_first_gap` the offset of the first gap.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int,
        was_killed: bool = False,
        sidecars: SidecarFormat | None = None,
    ) -> None:
        self.disk = disk
        self.path = path
        self.config = config
        self.clean = clean
        self.recovery_point = recovery_point
        self.was_killed = was_killed and not clean
        self.sidecars = sidecars
        self.found = RecoveredLog(AbortedNotes(disk, path), is_clean=clean)
        self._epochs_on_disk: list[tuple[int, int]] | None = []
        self._names: set[str] = set()
        self._ended_transactions = False
        self._is_strange = False
        self._changed = ""
        self._first_gap = ENDLESS
        self._compacted: set[Compact] | None = None

    def run(
        self,
        topic_id: bytes,
        log_start_offset: int,
        *,
        is_noted: bool = False,
        is_start_known: bool = True,
        is_journaled: bool = False,
    ) -> RecoveredLog:
        """Open the directory. `is_noted`: the checkpoints contain this log, so that the first segment must begin at its start.

        `is_journaled`: the journal has batches of this log, so that no other program has compacted it. Without `is_start_known`,
        the checkpoint of log start offsets is lost, and the leader epochs give the start. Raises `Damaged` and `StorageFailed`.
        """
        names: Sequence[str] = self.disk.list(self.path)
        if not names and not self.disk.exists(self.path):
            self.disk.make_dir(self.path)
            return self._begin(names, topic_id, log_start_offset)
        if not self.recovery_point and not log_start_offset and all(name == PARTITION_METADATA for name in names):
            return self._begin(names, topic_id, log_start_offset)
        check_topic_id(self.disk, self.path, names, topic_id)
        names = recover_swaps(self.disk, self.path, names)
        noted_start = self._load(names, log_start_offset, is_noted=is_noted, is_journaled=is_journaled)
        start_by_epochs = 0 if is_start_known else self._start_by_epochs()
        self.found.log_end_offset = self._open_last() if self.clean else self._recover()
        self._check_end(log_start_offset, is_noted=is_noted)
        if start_by_epochs <= self.found.log_end_offset:
            log_start_offset = max(log_start_offset, start_by_epochs)
        self._begin_at(log_start_offset, noted_start)
        self._align_with_segments()
        return self.found

    def _load(self, names: Sequence[str], log_start_offset: int, *, is_noted: bool, is_journaled: bool) -> int | None:
        """Load what the files of the directory say. Return the start of a noted log, before which no segment is expected."""
        found = self.found
        self._compacted = read_compacted(self.disk, self.path) if COMPACTED_SEGMENTS in names else None
        found.holed = read_holed(self.disk, self.path) if HOLED_SEGMENTS in names else set()
        self._is_strange = self._compacted is None and not is_noted and not is_journaled
        found.gaps = AssumedGaps(self._compacted or set(), self._is_strange)
        self._load_epochs(names)
        epochs = found.epochs.entries
        noted_start = max(log_start_offset, epochs[0][1]) if is_noted and epochs else None
        self._load_segments(names, log_start_offset, noted_start)
        self._load_compacted()
        return noted_start

    def _begin_at(self, log_start_offset: int, noted_start: int | None) -> None:
        """Let the log start at an offset, or as near to it as its segments allow. A log that ends before it starts anew there."""
        found = self.found
        if found.log_end_offset < log_start_offset:
            start_anew(self.disk, self.path, found.segments, log_start_offset)
            found.log_end_offset = log_start_offset
        begins = found.segments[0].base_offset
        if noted_start is not None and not found.removed:
            begins = min(begins, noted_start)
        found.log_start_offset = min(max(log_start_offset, begins), found.log_end_offset)

    def _align_with_segments(self) -> None:
        """Make the other files agree with the segments: epochs, snapshots, sidecars, and indexes of aborted transactions."""
        found = self.found
        self._align_epochs()
        drop_outlived(self.disk, self.path, found.snapshots, found.segments[0].base_offset)
        if self.sidecars is not None and found.sidecars and not self.clean:
            found.sidecars = self.sidecars.recover(self.disk, self.path, found.sidecars, found.log_end_offset)
        most = self.config.ottla_max_producer_ids
        found.aborted.check(found.segments, self._names, found.snapshots, most, clean=self.clean)
        self._rebuild_aborted()
        # A power cut may have made the gap: a snapshot behind it may have producers' batches that are lost, and are sent again.
        end = min(found.log_end_offset, self._first_gap)
        found.producers = load_producers(self.disk, self.path, found.snapshots, found.segments, end, most, self._names)

    def _rebuild_aborted(self) -> None:
        """Rebuild the indexes of aborted transactions from the recovery point on, if transactions have ended there.

        Producer snapshots can be newer than these indexes: the batches that the indexes may lack are replayed from an older one.
        The newer ones stay, because they are all that is known of producers whose batches are deleted.
        """
        if self._ended_transactions:
            found = self.found
            begin = max(self.recovery_point, found.segments[0].base_offset)
            older = [offset for offset in found.snapshots if offset <= begin]
            rebuild_aborted(self.disk, self.path, older, found.segments, self.config.ottla_max_producer_ids)

    def _begin(self, names: Sequence[str], topic_id: bytes, log_start_offset: int) -> RecoveredLog:
        """Begin an empty log in a directory without records, which has nothing to recover."""
        check_topic_id(self.disk, self.path, names, topic_id)
        found = self.found
        found.is_new = True
        found.segments.append(begin_segment(self.disk, self.path, log_start_offset))
        found.log_start_offset = found.log_end_offset = log_start_offset
        self._check_end(log_start_offset, is_noted=False)
        found.producers = Producers(self.config.ottla_max_producer_ids)
        return found

    def _load_compacted(self) -> None:
        """Set `may_have_gaps` of the segments in the stored list of compacted segments.

        Without a list, set it for all sealed segments that compaction has possibly written.
        """
        segments = self.found.segments
        for segment in segments:
            if self._compacted is not None:
                segment.may_have_gaps = is_compact(self._compacted, segment)
            elif segment is not segments[-1]:
                segment.may_have_gaps = self.config.compacts or (self.clean and self._is_strange)

    def _check_end(self, log_start_offset: int, *, is_noted: bool) -> None:
        """Raise `Damaged` if the log ends before the recovery point, or after a clean shutdown anywhere else than at this point.

        No CRC covers base offsets. A log whose records are all deleted can end earlier, because a start can have removed files.
        """
        last, end = self.found.segments[-1], self.found.log_end_offset
        name = file_name(last.base_offset, LOG)
        if end < self.recovery_point > log_start_offset:
            sentence = f"the log ends with offset {end}, although everything below {self.recovery_point} had been synced."
            raise Damaged(self.path, name, last.size, sentence)
        if self.clean and is_noted and end > self.recovery_point:
            sentence = f"its last batch ends at offset {end}, although the log ended with {self.recovery_point} at a clean stop."
            raise Damaged(self.path, name, last.size, sentence)

    def _load_segments(self, names: Sequence[str], log_start_offset: int, noted_start: int | None) -> None:
        self._names.update(names)
        parsed = {name: parse_file_name(name) for name in names}
        bases = sorted(known[0] for known in parsed.values() if known and known[1] == LOG)
        if noted_start is not None and bases:
            self._keep_deleted(parsed, noted_start, bases[0])
        kept = {one.path for one in self.found.removed}
        leftovers: list[str] = []
        if self.sidecars is not None:
            self.found.sidecars, leftovers = self.sidecars.bases(names), self.sidecars.leftovers(names)
        for name, known in parsed.items():
            if f"{self.path}/{name}" in kept:
                continue
            is_index = known is not None and known[1] in OF_A_SEGMENT and known[0] not in bases
            if name.endswith((DELETED, ".tmp")) or is_index or name in leftovers:
                if self.disk.exists(f"{self.path}/{name}"):  # a new file may have taken the temporary name meanwhile
                    self.disk.remove(f"{self.path}/{name}")
                log.info("%s/%s: a leftover was removed", self.path, name)
        self.found.snapshots = sorted(known[0] for known in parsed.values() if known and known[1] == SNAPSHOT)
        for base in bases:
            self.found.segments.append(Segment(self.disk, self.path, base, self.disk.size(f"{self.path}/{file_name(base, LOG)}")))
        if not bases:
            self.found.segments.append(begin_segment(self.disk, self.path, log_start_offset))

    def _keep_deleted(self, parsed: Mapping[str, tuple[int, str] | None], noted_start: int, first: int) -> None:
        """Keep deleted segments if the epoch checkpoint has a start before `first`, because they prove where the log begins.

        If the checkpoint has the new start, sync it before the deleted segments are removed.
        """
        deleted = [(known[0], name) for name, known in parsed.items() if known and known[1] == LOG + DELETED and known[0] < first]
        if noted_start < first and deleted and min(deleted)[0] <= noted_start:
            self.found.removed = [RemovedSegment(0, f"{self.path}/{name}", None, "", first) for _, name in deleted]
        elif deleted:
            self.disk.open(f"{self.path}/{LEADER_EPOCHS}").sync()
            self.disk.sync_dir(self.path)

    def _load_epochs(self, names: Sequence[str]) -> None:
        if LEADER_EPOCHS not in names:
            return
        epochs = LeaderEpochs.decode(self.disk.read_file(f"{self.path}/{LEADER_EPOCHS}"))
        if epochs is None:
            log.warning("%s/%s cannot be parsed and is rebuilt", self.path, LEADER_EPOCHS)
            self._epochs_on_disk = None
        else:
            self.found.epochs = epochs
            self._epochs_on_disk = list(epochs.entries)

    def _start_by_epochs(self) -> int:
        """Return the start of the log according to its leader epochs, if it is within the first segment; otherwise 0.

        Epochs begin where the log begins, unless brokers without epochs wrote its oldest batches.
        """
        entries, first = self.found.epochs.entries, self.found.segments[0]
        return entries[0][1] if entries and entries[0][1] > first.base_offset and self._begins_with_an_epoch() else 0

    def _begins_with_an_epoch(self) -> bool:
        """Return whether the log's oldest batch has a leader epoch. Batches of brokers before leader epochs have none."""
        first = self.found.segments[0]
        oldest = next(headers(first.file, 0, first.size), None)
        return oldest is not None and oldest[1].leader_epoch >= 0

    def _align_epochs(self) -> None:
        """Adjust the epochs to the log's start and end. Read them from the batches if the checkpoint lacks the first ones."""
        found, entries = self.found, self.found.epochs.entries
        found.epochs.truncate_end(found.log_end_offset)
        if found.log_end_offset > found.log_start_offset and (not entries or entries[0][1] > found.log_start_offset):
            entries.clear()
            for segment in found.segments:
                for _, header in headers(segment.file, 0, segment.size):
                    found.epochs.assign(header.leader_epoch, header.base_offset)
            if entries and entries[0][1] > found.log_start_offset and self._begins_with_an_epoch():
                # Batches that compaction removed before the first one cannot have had a later epoch.
                entries[0] = entries[0][0], found.log_start_offset
        found.epochs.truncate_start(found.log_start_offset)
        if entries == self._epochs_on_disk:
            return
        found.epochs_saved = False
        with self._ignore_failures():
            self.disk.write_file(f"{self.path}/{LEADER_EPOCHS}", found.epochs.encode())
            found.epochs_saved = True

    def _open_last(self) -> int:
        """Find the log's end after a clean shutdown, without computing CRCs."""
        last = self.found.segments[-1]
        self._mend_indexes(self.found.segments[:-1])
        end, next_offset = last.load_end(self.config.index_interval_bytes)
        if end != last.size:
            if newer := newer_format(last.file, end):
                raise newer_batches(self.path, last, end, newer)
            sentence = "the last batch is incomplete, although the broker was stopped cleanly."
            raise Damaged(self.path, file_name(last.base_offset, LOG), end, sentence)
        return next_offset

    def _mend_indexes(self, segments: Sequence[Segment]) -> None:
        """Rebuild missing indexes. After a crash, rebuild invalid indexes, too."""
        for segment in segments:
            exist = all(file_name(segment.base_offset, suffix) in self._names for suffix in (INDEX, TIME_INDEX))
            are_complete = exist and not segment.lacks_entries(self.config.index_interval_bytes)
            if segment.size and not (are_complete and (self.clean or segment.has_sound_indexes())):
                log.warning("%s: the index of a segment is missing or incomplete, and is rebuilt", segment.path(LOG))
                segment.rebuild(self.config.index_interval_bytes)

    @contextmanager
    def _ignore_failures(self) -> Iterator[None]:
        """Log and ignore failures of the disk inside this context manager.

        It is for writing files that can be rebuilt from the batches, so that the batches stay readable.
        """
        try:
            yield
        except StorageFailed as failure:
            log.warning("%s: indexes and snapshots could not be written: %s", self.path, failure)

    def _recover(self) -> int:
        """Find the log's end after a kill or a power cut: check the batches from the recovery point on, and cut off a torn tail."""
        segments = self.found.segments
        first = max(0, bisect_left(segments, self.recovery_point, key=lambda segment: segment.base_offset) - 1)
        self._mend_indexes(segments[:first])
        if not self._has_all_epochs():
            self.found.epochs.truncate_end(self.recovery_point)  # the batches contain the epochs that follow
        next_offset = segments[first].base_offset
        for number in range(first, len(segments)):
            segment = segments[number]
            end, next_offset = self._recover_segment(segment, next_offset)
            if self.config.preallocate and end < segment.size and _is_room(segment.file, end):
                segment.cut(end)  # synced with everything else that was recovered
            if end < segment.size or self._is_interrupted(number, next_offset):
                self._cut(number, end, next_offset)
                break
        for segment in segments[first:]:
            if segment.size:
                self._keep_indexes(segment, sealed=segment is not segments[-1])
        self._sync(segments[first:], next_offset > self.recovery_point)
        return next_offset

    def _keep_indexes(self, segment: Segment, *, sealed: bool) -> None:
        """Flush the indexes of a recovered segment. Sync a sealed segment's indexes, because no later start checks them."""
        flushed: list[File] = []
        with self._ignore_failures():
            flushed = segment.flush_indexes(final=sealed)
        for file in flushed if sealed else ():
            file.sync()

    def _sync(self, segments: Sequence[Segment], grew: bool) -> None:
        """Sync the batches past the recovery point, which can be only in the page cache after a kill.

        Sync even if there are none (`grew` is False). A previous start that was killed can have cut off a torn tail, which must not
        come back.
        """
        for segment in segments:
            if segment.size:
                segment.file.sync()
                if grew:
                    segment.transactions.sync()
        if grew:
            self.disk.sync_dir(self.path)

    def _is_interrupted(self, number: int, next_offset: int) -> bool:
        """Return whether a power cut removed batches between segment `number`, which ends with `next_offset`, and the next one.

        Known gaps do not count. Ottla's compaction leaves no gap between segments, but Apache Kafka's can, before the directory was
        moved here.
        """
        if number + 1 == len(self.found.segments):
            return False
        follows = self.found.segments[number + 1].base_offset
        if follows <= next_offset or next_offset < self.recovery_point:
            return follows < next_offset
        if self.config.compacts and self._is_strange:
            self._first_gap = min(self._first_gap, next_offset if follows > next_offset else ENDLESS)
            return False
        return not are_known(read_gaps(self.disk, self.path), next_offset, follows)

    def _recover_segment(self, segment: Segment, next_offset: int) -> tuple[int, int]:
        """Check a segment's batches, and cut its indexes at the first bad batch.

        Return (end of the valid part, the offset after it).
        """
        interval = self.config.index_interval_bytes
        next_offset = max(next_offset, segment.base_offset)
        if not segment.size and not self._names.intersection(
            file_name(segment.base_offset, suffix) for suffix in (INDEX, TIME_INDEX)
        ):
            return 0, next_offset
        from_offset = max(self.recovery_point, segment.base_offset)
        begun = position = segment.reset_indexes(from_offset, after_power_cut=not self.was_killed)
        for at, header in good_batches(segment.file, position, segment.size, segment.base_offset):
            is_first = 0 < at == begun  # found by the index, whose entry contains the batch's last offset only
            if header.base_offset != next_offset and not (is_first or self._may_be_gap(segment, at, header, next_offset)):
                break
            if self._has_all_epochs():
                noted = self.found.epochs.at(header.base_offset, header.leader_epoch)
                if header.leader_epoch != noted:
                    self._changed = changed_epoch(header.leader_epoch, noted)
                    break
            segment.note(header, at, interval)
            self._ended_transactions |= header.is_control
            next_offset = header.next_offset
            self.found.epochs.assign(header.leader_epoch, header.base_offset)
            position = at + header.size
        return position, next_offset

    def _has_all_epochs(self) -> bool:
        """Return whether the checkpoint has every epoch.

        After a kill it has, because it is written before an epoch's first batch. After a power cut an epoch can be missing, because
        the checkpoint is not synced.
        """
        return self.was_killed and bool(self._epochs_on_disk)

    def _may_be_gap(self, segment: Segment, position: int, header: BatchHeader, next_offset: int) -> bool:
        """Return whether the offsets from `next_offset` to the batch are an allowed gap, not damage to the base offset.

        No CRC covers base offsets.
        """
        if not segment.fits(header) or segment.may_have_gaps:
            return segment.may_have_gaps and segment.fits(header)
        if (next_offset, header.base_offset) in read_gaps(self.disk, self.path):
            return True
        is_old = next_offset < header.next_offset <= self.recovery_point and segment is not self.found.segments[-1]
        segment.may_have_gaps = self._is_strange and (is_old or self._was_compacted(segment, position))
        return segment.may_have_gaps

    def _was_compacted(self, segment: Segment, position: int) -> bool:
        """Return whether compaction, before the topic's settings changed, possibly left a gap before `position` of a segment.

        Only sealed segments are compacted, and their offsets lead up to the next segment. After a damaged base offset they do not.
        """
        segments = self.found.segments
        number = segments.index(segment)
        if number + 1 == len(segments):
            return False
        next_offset = end = 0
        for at, header in headers(segment.file, position, segment.size):
            if not segment.fits(header) or header.base_offset < next_offset:
                return False
            end, next_offset = at + header.size, header.next_offset
        return end == segment.size and next_offset == segments[number + 1].base_offset

    def _cut(self, number: int, end: int, next_offset: int) -> None:
        """Cut off a torn tail: the end of segment `number`, and every later segment.

        Raises `Damaged` if the bytes cannot be a torn tail, and `StorageFailed`.
        """
        segments = self.found.segments
        segment = segments[number]
        if newer := newer_format(segment.file, end):
            raise newer_batches(self.path, segment, end, newer)
        if self._changed or next_offset < self.recovery_point:
            sentence = self._changed or "no whole batch with the right CRC-32C begins here."
            raise Damaged(self.path, file_name(segment.base_offset, LOG), end, sentence)
        if self.was_killed and (segment is not segments[-1] or not self._is_cut_short(segment.file, end, next_offset)):
            sentence = "the file lacks bytes that were written here, although only the broker was killed and not the machine."
            raise Damaged(self.path, file_name(segment.base_offset, LOG), end, sentence)
        later = segments[number + 1 :]
        cut = segment.size - end + sum(other.size for other in later)
        log.warning("%s: a torn tail of %d bytes that was never synced is cut off at offset %d", self.path, cut, next_offset)
        # The newest segments first: a start that ends meanwhile leaves the torn tail, so that the next one cuts off the same.
        for other in reversed(later):
            other.remove()
        self.disk.sync_dir(self.path)
        if end < segment.size:
            segment.cut(end)
            segment.file.sync()  # or a later power cut could bring the torn tail back in front of new batches
        del segments[number + 1 :]

    def _is_cut_short(self, file: File, position: int, next_offset: int) -> bool:
        """Return whether the bytes at `position` can be an incomplete append: the first part of a batch, with nothing behind it."""
        room = file.size - position
        if find_sound(file, position, file.size, next_offset, Bounds(ENDLESS, ANY_EPOCH)) is not None:
            return False
        if room < HEADER_BYTES or self.config.preallocate:
            return True
        header = read_header(file.read(position, HEADER_BYTES))
        return header.magic == MAGIC and header.base_offset == next_offset and header.size > room


def _is_room(file: File, position: int) -> bool:
    """Return whether all bytes after the last valid batch, at `position`, are preallocated space without data."""
    return not any(file.read(position, HEADER_BYTES))


def start_anew(disk: Disk, path: str, segments: list[Segment], offset: int) -> None:
    """Begin an empty log at `offset`. Segments are removed from the newest to the oldest, so that a crash leaves no gap."""
    while len(segments) > 1:
        segments[-1].remove()
        del segments[-1]
    disk.sync_dir(path)
    fresh = Segment(disk, path, offset, 0, new=True)
    replace_only_segment(disk, segments[0], fresh, lambda: None)
    segments[0] = fresh


def good_batches(file: File, position: int, end: int, next_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every batch from `position` on; stop at one that is torn, out of order or has a wrong CRC."""
    while end - position >= HEADER_BYTES:
        chunk = memoryview(file.read(position, min(CHUNK_BYTES, end - position)))
        at = 0
        while len(chunk) - at >= HEADER_BYTES:
            header = read_header(chunk, at)
            size = header.size
            if not _is_plausible(header, next_offset) or position + at + size > end:
                return
            if at + size > len(chunk):
                if at:
                    break
                chunk = memoryview(file.read(position, size))
            if crc32c(chunk[at + CRC_FROM : at + size]) != header.crc:
                return
            yield position + at, header
            next_offset = header.next_offset
            at += size
        position += at


def _is_plausible(header: BatchHeader, next_offset: int) -> bool:
    return (
        header.magic == MAGIC
        and header.batch_length >= HEADER_BYTES - LENGTH_FROM
        and header.base_offset >= next_offset
        and header.last_offset_delta >= 0
    )


def changed_epoch(leader_epoch: int, noted_epoch: int) -> str:
    """Return the message about a batch with a wrong leader epoch. The batch's CRC is right, because it does not cover the epoch."""
    return f"this batch has leader epoch {leader_epoch}, but {noted_epoch} in {LEADER_EPOCHS}."


def newer_format(file: File, position: int) -> int:
    """Return the magic of the batch at `position` if the batch is whole and of a newer format than this version's; otherwise 0."""
    if file.size - position < HEADER_BYTES:
        return 0
    header = read_header(file.read(position, HEADER_BYTES))
    size = header.size
    if header.magic <= MAGIC or not HEADER_BYTES <= size <= file.size - position:
        return 0
    return header.magic if crc32c(file.read(position, size)[CRC_FROM:]) == header.crc else 0


def newer_batches(path: str, segment: Segment, position: int, magic: int) -> StorageFailed:
    sentence = f"at byte {position}: batches have format {magic}, newer than {MAGIC}: use the newer version that wrote them."
    return StorageFailed(f"{path}/{file_name(segment.base_offset, LOG)}", sentence)
