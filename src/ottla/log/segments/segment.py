"""One segment: a `.log` file with its two indexes. It uses batch headers and positions.

Files are created and opened when first needed. An unused segment is a few numbers in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice

from ottla.log.config import LogConfig
from ottla.log.errors import Damaged, Unfinished
from ottla.log.names import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX, file_name
from ottla.log.segments.index import OFFSET_ENTRY, TIME_ENTRY, offset_index, time_index
from ottla.log.segments.scan import (
    ANY,
    LENGTH_FROM,
    batch_size,
    check_entry,
    damaged_at,
    find_offset,
    find_timestamp,
    headers,
    last_boundary,
)
from ottla.log.segments.soundness import Place, Unproven
from ottla.log.segments.transaction_index import TransactionIndex
from ottla.ports import Buffer, Disk, File, StorageFailed
from ottla.records.batches.header import HEADER_BYTES, MAGIC, BatchHeader, read_header
from ottla.records.checksum import crc32c

log = logging.getLogger("ottla.log")

NO_TIMESTAMP = -1
UNKNOWN = -2
INDEX_INTERVAL_BYTES = 4096
"""The distance in bytes between entries of an index that is rebuilt while the segment is in use."""

REINDEXED_AT_ONCE, REINDEXING_COST = 250, 1000
"""The most batches read in one step of a rebuild, and the cost of a step: half a millisecond's work."""

LARGEST_RELATIVE = 2**31 - 1


class Segment:
    """Batches from `base_offset` on, `size` bytes. Timestamps are in ms.

    `unproven` has the results of checks of bytes that this process did not write; None if all bytes are valid. `may_have_gaps`:
    compaction wrote the segment, or a part of it. `is_complete`: the segment has the size that compaction wrote, and must not grow.
    `has_jumps`: `load_end` found missing offsets between batches.
    """

    __slots__ = (
        "_bytes_since_entry",
        "_disk",
        "_file",
        "_first_look_ms",
        "_first_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_records_end",
        "_reindexed",
        "_reserved",
        "_times_are_checked",
        "_transactions",
        "_was_reindexed",
        "base_offset",
        "directory",
        "ending",
        "has_jumps",
        "index",
        "index_bytes",
        "is_complete",
        "may_have_gaps",
        "size",
        "times",
        "unproven",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, size: int, *, new: bool = False, ending: str = "") -> None:
        self._disk = disk
        self.directory = directory
        self.ending = ending
        self.base_offset = base_offset
        self.size = size
        self.index = offset_index(disk, self.path(INDEX), new=new)
        self.times = time_index(disk, self.path(TIME_INDEX), new=new)
        self._transactions: TransactionIndex | None = None
        self._file: File | None = None
        self.index_bytes = 0
        self.may_have_gaps = self.has_jumps = self.is_complete = False
        self._bytes_since_entry = 0
        self._first_timestamp = UNKNOWN
        self._first_look_ms = UNKNOWN
        self._max_timestamp = NO_TIMESTAMP if new else UNKNOWN
        self._max_timestamp_offset = base_offset
        self._records_end = UNKNOWN
        self._reindexed: Place | None = None
        self._reserved = False
        self._times_are_checked = new
        self._was_reindexed = False
        self.unproven = None if new or not size else Unproven(size)

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{file_name(self.base_offset, suffix)}{self.ending}"

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path(LOG), create=True)
        return self._file

    @property
    def transactions(self) -> TransactionIndex:
        """Return the index of the aborted transactions that ended in this segment."""
        if self._transactions is None:
            self._transactions = TransactionIndex(self._disk, self.path(TRANSACTION_INDEX), new=False)
        return self._transactions

    def forget_transactions(self, names: Collection[str] | None = None) -> None:
        """Remove the index of aborted transactions from an empty segment. A crash or a truncation can have left the index.

        `names` are the files that the directory had when the segment was opened, if they are known.
        """
        name = file_name(self.base_offset, TRANSACTION_INDEX) + self.ending
        is_there = self._disk.exists(self.path(TRANSACTION_INDEX)) if names is None else name in names
        if self._transactions is not None or is_there:
            self.transactions.remove()

    @property
    def max_timestamp(self) -> int:
        """Return the largest timestamp of all batches, or -1. Raises `Unfinished`."""
        if self._max_timestamp == UNKNOWN:
            self._load_max_timestamp()
            self.check_times()
        self.need_indexes()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """Return the last offset of the batch with the largest timestamp. Read `max_timestamp` first."""
        return self._max_timestamp_offset

    def check_times(self) -> None:
        """Rebuild the indexes if the time index on disk has a wrong newest entry, or lacks its last entries."""
        if self._times_are_checked:
            return
        self._times_are_checked = True
        last = self.times.last()
        if not self.times.is_whole() or (last is not None and not self._is_true(last)) or self._ends_newer():
            self.reindex()

    def _ends_newer(self) -> bool:
        """Return whether a batch behind the last index entry is newer than the time index, which then lacks entries."""
        if self._max_timestamp == UNKNOWN:
            self._load_max_timestamp()
        entry = self.index.last()
        tail = headers(self.file, entry[1] if entry else 0, self.size)
        return any(header.max_timestamp > self._max_timestamp for _, header in islice(tail, REINDEXED_AT_ONCE))

    def _is_true(self, entry: tuple[int, int]) -> bool:
        """Return whether an entry of the time index has the timestamp and the offset of an existing batch."""
        offset = self.base_offset + entry[1]
        try:
            position = self.locate(offset)
        except Damaged:  # readers find the damage and log it
            return True
        if position >= self.size:
            return False
        header = read_header(self.file.read(position, HEADER_BYTES))
        return header.max_timestamp == entry[0] and header.base_offset <= offset <= header.last_offset

    def reserve(self, size: int) -> None:
        """Preallocate `size` bytes for the segment's new file. Raises `StorageFailed`."""
        self.file.reserve(size)
        self._reserved = True

    def release_reserved(self) -> bool:
        """Truncate the preallocated space after the last batch. Return whether there was any. Raises `StorageFailed`."""
        if not self._reserved:
            return False
        self.file.truncate(self.size)
        self._reserved = False
        return True

    def append(self, view: Buffer, headers: Sequence[BatchHeader], base_offset: int, interval: int) -> None:
        """Write stamped batches at the end. Raises `StorageFailed` with nothing changed."""
        max_timestamp = self._max_timestamp
        if max_timestamp == UNKNOWN:
            max_timestamp = self.max_timestamp
        file = self._file or self.file
        position = file.append((view,))
        if self._reindexed is not None:  # the rebuild in progress will read these batches, too
            self.size = position + len(view)
            return
        for header in headers:
            last_offset = base_offset + header.last_offset_delta
            if header.max_timestamp > max_timestamp:
                self._max_timestamp = max_timestamp = header.max_timestamp
                self._max_timestamp_offset = last_offset
            if self._bytes_since_entry > interval:
                self._add_entries(last_offset, position)
            size = header.batch_length + LENGTH_FROM
            self._bytes_since_entry += size
            position += size
            base_offset = last_offset + 1
        self.size = position

    def extend(self, parts: Sequence[Buffer], headers: Sequence[BatchHeader], interval: int) -> None:
        """Write batches that already have offsets, perhaps with gaps (compaction). Raises `StorageFailed`."""
        position = self.file.append(parts)
        for header in headers:
            self.note(header, position, interval)
            position += header.batch_length + LENGTH_FROM
        self.size = position

    def note(self, header: BatchHeader, position: int, interval: int) -> None:
        """Add the timestamps and index entries of a batch that recovery has read from the file at `position`."""
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp = header.max_timestamp
            self._max_timestamp_offset = header.last_offset
        if self._bytes_since_entry > interval:
            self._add_entries(header.last_offset, position)
        self._bytes_since_entry += header.batch_length + LENGTH_FROM

    def must_roll(self, size: int, last_offset: int, newest_timestamp: int, config: LogConfig, now_ms: int) -> bool:
        """Return whether `size` more bytes, up to `last_offset`, need a new segment because of size, age or full indexes."""
        if not self.size:
            self._first_look_ms = now_ms
            return size > config.segment_bytes or last_offset - self.base_offset > LARGEST_RELATIVE
        return (
            self.size + size > config.segment_bytes
            or last_offset - self.base_offset > LARGEST_RELATIVE
            or self.index_bytes + TIME_ENTRY.size > config.segment_index_bytes
            or self.is_complete
            or (
                (
                    self._first_timestamp < 0
                    or newest_timestamp - self._first_timestamp > config.segment_ms - config.segment_jitter_ms
                )
                and self._is_old(newest_timestamp, config, now_ms)
            )
        )

    def age_ms(self, newest_timestamp: int, now_ms: int) -> int:
        """Return how much newer `newest_timestamp` is than the first batch, in ms.

        If the first batch has no timestamp (clients before 0.10), return the time since the first call, as Kafka does.
        """
        if self.first_timestamp >= 0:
            return newest_timestamp - self.first_timestamp
        if self._first_look_ms == UNKNOWN:
            self._first_look_ms = now_ms
        return now_ms - self._first_look_ms

    def _is_old(self, newest_timestamp: int, config: LogConfig, now_ms: int) -> bool:
        jitter_ms = config.segment_jitter_ms and self._jitter_ms(config)
        return self.age_ms(newest_timestamp, now_ms) > config.segment_ms - jitter_ms

    def _jitter_ms(self, config: LogConfig) -> int:
        """Return how much earlier this segment rolls, in ms. It depends on the name, so that logs roll at different times."""
        most = min(config.segment_jitter_ms, config.segment_ms)
        return crc32c(self.path(LOG).encode()) % most if most > 0 else 0

    @property
    def first_timestamp(self) -> int:
        """Return the largest timestamp of the first batch, from which `segment.ms` counts. Undefined for an empty segment."""
        if self._first_timestamp == UNKNOWN:
            self._first_timestamp = int.from_bytes(self.file.read(35, 8), "big", signed=True)
        return self._first_timestamp

    def locate(self, offset: int) -> int:
        """Return the position of the first batch that contains `offset` or a later one; `size` if there is none.

        Raises `Damaged` where no batch can be, `Astray` if an entry of the index is wrong, and `Unfinished` while the index is
        rebuilt.
        """
        if self._reindexed is not None:
            self.need_indexes()
        start, last_offset = 0, ANY
        entry = self.index.floor(offset - self.base_offset)
        if entry is not None:
            start, last_offset = entry[1], self.base_offset + entry[0]
        if self.unproven is not None and self.unproven.damage:
            sound = self.unproven.resume_for(offset)
            if sound > start:
                start, last_offset = sound, ANY
        return find_offset(self.file, start, self.size, offset, last_offset=last_offset)

    def boundary(self, start: int, limit: int) -> tuple[int, int]:
        """Return the end of the last whole batch between the byte positions `start` and `limit`, and the offset after that batch.

        A batch begins at `start`. If no batch ends by `limit`, return `start` and the base offset of the batch there, or -1 if it
        is unknown. Raises `Damaged` where no batch can be, `Astray` if an index entry is wrong, and `Unfinished` while the index is
        rebuilt.
        """
        if self._reindexed is not None:
            self.need_indexes()
        entry = self.index.floor_second(limit)
        limit = min(limit, self.size)
        if entry is None or entry[1] <= start:
            return last_boundary(self.file, start, limit)
        position, last_offset = entry[1], self.base_offset + entry[0]
        if limit - position < HEADER_BYTES:
            check_entry(self.file, position, self.size, last_offset)
        return last_boundary(self.file, position, limit, last_offset=last_offset)

    @property
    def records_end(self) -> int:
        """Return the position after a sealed segment's last batch with records. Compaction can leave empty batches behind it.

        Raises `Unfinished` while the indexes are rebuilt.
        """
        if self._records_end == UNKNOWN:
            self.need_indexes()
            self._records_end = self._find_records_end()
        return self._records_end

    def _find_records_end(self) -> int:
        """Search for `records_end` from the end backwards. Return `size` at a batch that is not whole, so that readers find it."""
        end = self.size
        while end:
            entry = self.index.floor_second(end - 1)
            start = entry[1] if entry else 0
            found = [(at + header.size, header.record_count) for at, header in headers(self.file, start, end)]
            if not found or found[-1][0] != end:
                return self.size
            for batch_end, record_count in reversed(found):
                if record_count:
                    return batch_end
            end = start
        return 0

    def batch_size(self, position: int) -> int:
        return batch_size(self.file, position)

    def locate_timestamp(self, timestamp: int, start_offset: int) -> int:
        """Return a byte position from which to search for the first batch with a timestamp of at least `timestamp`.

        Batches before `start_offset` do not count. Raises `Damaged` where no batch can be, `Astray` if an index entry is wrong, and
        `Unfinished` while the index is rebuilt.
        """
        self.need_indexes()
        entry = self.times.floor(timestamp - 1)  # an entry with `timestamp` may lead behind other batches with the same timestamp
        if entry is not None and self.unproven is not None and not self._was_reindexed and not self._is_true(entry):
            self.reindex()
            self.need_indexes()
        return self.locate(max(start_offset, self.base_offset + (entry[1] if entry else 0)))

    def flush_indexes(self, *, final: bool = False) -> list[File]:
        """Flush the indexes, and return the open files for a sync. A `final` flush adds the largest timestamp.

        The time index is flushed first, because it must cover every batch up to the last entry of the offset index. During a
        rebuild nothing is flushed, because the next start detects an empty index, but not half of one.
        """
        aborted = self._transactions.dirty_file() if self._transactions is not None else None
        if self._reindexed is not None:
            return [] if aborted is None else [aborted]
        final = final and self.size > 0
        if final:
            self._add_time()
        return [file for file in (self.times.flush(create=final), self.index.flush(create=final), aborted) if file is not None]

    def save_indexes(self, *, final: bool = False) -> list[File]:
        """Flush the indexes of the newest segment, unless few entries are in memory. Return the open files, for a sync.

        A start reads the last batches anyway, and adds their entries again.
        """
        if not self.index.is_nearly_flushed:
            return self.flush_indexes(final=final)
        aborted = self._transactions.dirty_file() if self._transactions is not None else None
        return [file for file in (self.times.file, self.index.file, aborted) if file is not None]

    def load_end(self, interval: int) -> tuple[int, int]:
        """Return (end, next_offset) of the last whole batch, from the last index entry on. Prepare the segment for appends."""
        if not self.size:
            return 0, self.base_offset
        self._check_indexes()
        entry = self.index.last()
        end, next_offset = entry[1] if entry else 0, self.base_offset
        self._load_max_timestamp()
        self._bytes_since_entry = 0
        for position, header in headers(self.file, end, self.size):
            if header.base_offset < next_offset or not self.fits(header) or header.magic != MAGIC:
                break
            self.has_jumps |= header.base_offset > next_offset and (entry is None or position > entry[1])
            self.note(header, position, interval)
            end, next_offset = position + header.batch_length + LENGTH_FROM, header.next_offset
        self._count_index_bytes()
        return end, next_offset

    def reset_indexes(self, offset: int, *, after_power_cut: bool = False) -> int:
        """Keep only index entries for batches below `offset`; return the position from which batches must be indexed again.

        `after_power_cut`: clear both indexes if the time index has lost entries that the offset index has kept.
        """
        relative = offset - self.base_offset
        self._bytes_since_entry = 0
        if self.size and relative > 0:
            self.index.keep_below(relative, 0)
            self.times.keep_below(relative, 1)
            self._check_indexes()
        holed = self.index.floor_second(0) is not None  # the first batch never has an entry
        is_sound = not holed and self.index.is_growing() and self.times.is_growing()
        if not self.size or relative <= 0 or not is_sound or (after_power_cut and self._lost_times()):
            self._clear_indexes()
        self._load_max_timestamp()
        entry = self.index.last()
        return entry[1] if entry else 0

    def _lost_times(self) -> bool:
        """Return whether a batch before the last offset index entry is newer than the time index, which then lacks entries."""
        entry, time = self.index.last(), self.times.last()
        if entry is None:
            return False
        newest, relative = time or (NO_TIMESTAMP, -1)
        known = self.index.floor(relative)
        try:
            return find_timestamp(self.file, known[1] if known else 0, entry[1], newest + 1) < entry[1]
        except Damaged:  # readers find the damage and log it
            return False

    def reindex(self) -> None:
        """Begin to rebuild both indexes, because an entry is wrong. Searches raise `Unfinished` until the rebuild ends."""
        if self._reindexed is None:
            log.warning("%s: an entry of its indexes is wrong; they are rebuilt", self.path(LOG))
            self._clear_indexes()
            self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
            self._bytes_since_entry = 0
            self._reindexed = Place(0, self.base_offset)
            self._was_reindexed = True  # a later contradiction means a damaged batch, which readers find

    def continue_reindexing(self) -> None:
        """Do the next half millisecond of the rebuild of the indexes. It ends at the segment's end, or where no batch can be."""
        if self._reindexed is None:
            return
        position, next_offset, _ = self._reindexed
        left = REINDEXED_AT_ONCE
        for at, header in islice(headers(self.file, position, self.size), left):
            if header.base_offset < next_offset or not self.fits(header) or header.magic != MAGIC:
                break
            self.note(header, at, INDEX_INTERVAL_BYTES)
            position, next_offset, left = at + header.size, header.next_offset, left - 1
        behind = [each for each in self.unproven.damage if each.resume > position] if self.unproven is not None else []
        if left and behind and behind[0].position <= position:
            position, next_offset, left = behind[0].resume, behind[0].end_offset, 0
        self._reindexed = Place(position, next_offset)
        if left or position >= self.size:
            self._reindexed = None
            self._count_index_bytes()
            with suppress(StorageFailed):  # they stay in memory, and are flushed when there is space
                self.flush_indexes(final=True)

    def need_indexes(self) -> None:
        """Raise `Unfinished` while the segment's indexes are being rebuilt."""
        if self._reindexed is not None:
            raise Unfinished(self.path(INDEX), self.continue_reindexing, REINDEXING_COST)

    def _clear_indexes(self) -> None:
        self._reindexed = None
        self.index.clear()
        self.times.clear()

    def rebuild(self, interval: int) -> None:
        """Rebuild and sync both indexes, from the batch headers. Raises `Damaged` if the headers do not lead to the end."""
        self._clear_indexes()
        end, _ = self.load_end(interval)
        if end != self.size:
            raise damaged_at(self.file, end)
        for file in self.flush_indexes(final=True):
            file.sync()

    def fits(self, header: BatchHeader) -> bool:
        """Return whether the offsets of a batch can be in this segment: its index has 31 bits for relative offsets."""
        return 0 <= header.base_offset - self.base_offset <= header.last_offset - self.base_offset <= LARGEST_RELATIVE

    def forget_end(self, size: int) -> None:
        """Shorten the segment to `size`, but only in memory. Call `truncate` before the next append, to change the files."""
        self.size, self._records_end, self.is_complete = size, UNKNOWN, False
        if not size:
            self._first_timestamp = self._first_look_ms = UNKNOWN
        if self.unproven is not None:
            self.unproven.cut(size)

    def truncate(self, end_offset: int, interval: int) -> None:
        """Truncate the files durably to the segment's `size`, at which the next offset is `end_offset`. Raises `StorageFailed`."""
        if not self._disk.exists(self.path(LOG)):
            self._clear_indexes()
            return
        while self._reindexed is not None:
            self.continue_reindexing()
        self.reset_indexes(end_offset)
        if self.file.size != self.size:
            self.file.truncate(self.size)
        self.file.sync()  # otherwise a crash could bring back removed bytes behind new ones
        self.transactions.replace_from(end_offset, ())
        if self.load_end(interval) != (self.size, end_offset):
            self.rebuild(interval)

    def offset_at(self, position: int) -> int:
        """Return the offset that follows the batch which ends at byte `position`. Raises `Damaged`, `Astray` and `Unfinished`."""
        if not position:
            return self.base_offset
        self.need_indexes()
        entry = self.index.floor_second(position - 1)
        if entry is not None:
            check_entry(self.file, entry[1], self.size, self.base_offset + entry[0])
        end = next_offset = -1
        for at, header in headers(self.file, entry[1] if entry is not None else 0, position):
            end, next_offset = at + header.size, header.next_offset
        if end != position:
            raise damaged_at(self.file, max(0, end))
        return next_offset

    def cut(self, size: int) -> None:
        """Truncate the `.log` file to `size`. The caller has removed index entries beyond `size`."""
        if size < self.size:
            self.file.truncate(size)
            self.size = size
            self._records_end = UNKNOWN
            if self.unproven is not None:
                self.unproven.cut(size)

    def remove(self, suffixes: Sequence[str] = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)) -> None:
        """Remove the files with these suffixes. Raises `StorageFailed`, after which another call continues."""
        self.close()
        for suffix in suffixes:
            if self._disk.exists(self.path(suffix)):
                self._disk.remove(self.path(suffix))

    def use_final_names(self) -> None:
        """Use the final names of the segment's files from now on."""
        self.ending = ""
        self.close()
        self.index.path, self.times.path = self.path(INDEX), self.path(TIME_INDEX)

    def close(self) -> None:
        self.index.close()
        self.times.close()
        if self._transactions is not None:
            self._transactions.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def has_sound_indexes(self) -> bool:
        """Return whether the indexes have only whole entries, and the last entry leads to its batch."""
        if not (self.index.is_whole() and self.times.is_whole()):
            return False
        entry, time = self.index.last(), self.times.last()
        if time is not None and (time[1] < 0 or (time == (0, 0) and len(self.times) > 1)):
            return False
        return entry is None or self._points_at_batch(*entry)

    def lacks_entries(self, interval: int) -> bool:
        """Return whether an index is empty although the batches require entries, because the file was emptied."""
        if not len(self.times) and self.size and self.first_timestamp >= 0:
            return True
        if len(self.index) or self.size <= interval:
            return False
        return any(position > interval for position, _ in headers(self.file, 0, self.size, chunk_bytes=interval + HEADER_BYTES))

    def _check_indexes(self) -> None:
        if not self.has_sound_indexes():
            self._clear_indexes()

    def _points_at_batch(self, relative: int, position: int) -> bool:
        if not 0 <= position < self.size or relative < 0:
            return False
        found = next(headers(self.file, position, self.size, chunk_bytes=HEADER_BYTES), None)
        return found is not None and found[1].last_offset == self.base_offset + relative

    def _add_entries(self, last_offset: int, position: int) -> None:
        self.index.add(last_offset - self.base_offset, position)
        self._add_time()
        self._bytes_since_entry = 0
        self._count_index_bytes()
        if self.index.is_long and self._reindexed is None:
            with suppress(StorageFailed):  # they stay in memory, and are flushed when there is space
                self.flush_indexes()

    def _add_time(self) -> None:
        if self._max_timestamp == UNKNOWN:
            self._load_max_timestamp()
        last = self.times.last()
        if self._max_timestamp > (last[0] if last else NO_TIMESTAMP):
            self.times.add(self._max_timestamp, self._max_timestamp_offset - self.base_offset)

    def _count_index_bytes(self) -> None:
        self.index_bytes = max(len(self.index) * OFFSET_ENTRY.size, len(self.times) * TIME_ENTRY.size)

    def _load_max_timestamp(self) -> None:
        last = self.times.last()
        self._max_timestamp = last[0] if last else NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset + (last[1] if last else 0)


def begin_segment(disk: Disk, directory: str, base_offset: int) -> Segment:
    """Create a new, empty segment, and its file unless `base_offset` is 0: the file's name records where the log continues."""
    segment = Segment(disk, directory, base_offset, 0, new=True)
    if base_offset and segment.file.size:
        segment.file.truncate(0)
    return segment
