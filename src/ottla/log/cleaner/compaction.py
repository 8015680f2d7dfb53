"""One compaction pass over one log: the newest record of each key stays, at its offset (KIP-58, KIP-534).

It uses segments, batches and the map of newest offsets, and no clock. A pass is a generator that yields every few milliseconds:
either None, or files (or a directory) that the caller must sync before it resumes the pass. The caller can drop a pass at any
point. A crash leaves either the old segments or the new one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ottla.log.cleaner.batches import MOST_BYTES, Filter, is_large, opening_costs, stays_as_it_is
from ottla.log.cleaner.dirty_range import Dirtiness
from ottla.log.cleaner.offset_map import OffsetMap
from ottla.log.errors import Damaged, Unfinished
from ottla.log.names import CLEANED
from ottla.log.segments.compacted_note import begin_note, drop_note, finish_note
from ottla.log.segments.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.log.segments.scan import damaged_at
from ottla.log.segments.segment import LARGEST_RELATIVE, Segment
from ottla.log.segments.swap import remove_cleaned
from ottla.log.segments.transaction_index import TransactionsInOrder
from ottla.ports import Buffer, Disk, Now, Pauses, StorageFailed, Syncable
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import HEADER_BYTES, BadBatch, BatchHeader, batches, read_header
from ottla.records.compression.codecs import CodecFailed
from ottla.records.compression.limits import PAUSE_BYTES

if TYPE_CHECKING:
    from ottla.log.log import Log

log = logging.getLogger("ottla.log")

T = TypeVar("T")

CHUNK_BYTES = 32_768
"""Bytes read at once, unless a batch is larger: well below a millisecond's work with the compiled kernel."""

SYNC_BYTES = 8 << 20
"""The most bytes written before a sync: one large sync at the end would delay the syncs of other logs."""

DEDUPE_BUFFER_BYTES = 32 << 20

CompactionSteps = Generator[Sequence[Syncable] | None, None, None]


@dataclass(slots=True)
class Compacted:
    """The result of one compaction so far.

    The log is compacted up to `cleaned_offset`, which is valid when the compaction is complete.
    """

    cleaned_offset: int = 0
    records_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    is_done: bool = False


class LargeWork(Generic[T]):
    """Work on one large batch during compaction. Any thread can run it, because it uses only the batch and the compaction."""

    def __init__(self, do: Callable[[], T]) -> None:
        self._do = do
        self._result: T | None = None
        self._failure: Damaged | None = None
        self._is_done = False

    def steps(self) -> Generator[int, None, None]:
        """Yield the bytes of memory that the work needs, then do the work."""
        yield MOST_BYTES
        self._work()

    def result(self) -> T:
        """Return the result of the work. If `steps` was not run before, do the work now. Raises `Damaged`."""
        if not self._is_done:
            self._work()
        if self._failure is not None:
            raise self._failure
        return cast("T", self._result)

    def _work(self) -> None:
        try:
            self._result = self._do()
        except Damaged as damaged:
            self._failure = damaged
        self._is_done = True


class Compaction:
    """One compaction of a log: `run` does the work, and `result` has what is done so far.

    If `large` is set at a pause, another thread can run its steps before the compaction is resumed. `memory_bytes` limits the map
    of keys. If the map is full, the compaction stops early, and the next compaction continues there.
    """

    def __init__(
        self, log: Log, disk: Disk, found: Dirtiness, now: Now, hash_key: bytes, memory_bytes: int = DEDUPE_BUFFER_BYTES
    ) -> None:
        self.log = log
        self.result = Compacted(found.first_dirty_offset)
        self.large: LargeWork[object] | None = None
        self._disk = disk
        self._found = found
        self._now = now
        self._cuts = log.cuts
        self._map = OffsetMap(memory_bytes, hash_key, found.end_offset - found.first_dirty_offset)

    @property
    def is_outdated(self) -> bool:
        """Return whether the log was truncated during the compaction, so that batches read before can be gone."""
        return self.log.cuts != self._cuts

    def run(self) -> CompactionSteps:
        """Run the compaction until it is complete or the log is truncated.

        Raises `Damaged` for bytes that are not batches, and `StorageFailed`. Segments not yet replaced are then unchanged.
        """
        with closing(self._run()) as steps:
            for files in steps:
                yield files
                if self.is_outdated:
                    return

    def _run(self) -> CompactionSteps:
        self.log.finish_pending()
        self.log.check_whole()  # otherwise missing batches between two segments would become a gap within the new one
        if self.log.synced_offset < self._found.end_offset:
            # A record may only be replaced by a durable one.
            yield [segment.file for segment in self._dirty() if segment.size]
        yield from self._map_keys()
        end = self.result.cleaned_offset
        left = deque((segment, after.base_offset) for segment, after in pairwise(self.log.segments) if segment.base_offset < end)
        transactions = self._transactions([segment for segment, _ in left])
        filter = Filter(self._map, self._now.wall_ms, self.log.config.delete_retention_ms, transactions)
        filter.note_last_batches(self.log.producers)
        while left:
            yield from self._compact(left, filter)
        self.result.is_done = True

    def _map_keys(self) -> CompactionSteps:
        """Add the newest offset of each key to the map, until the map is full."""
        found = self._found
        dirty = self._dirty()
        transactions = self._transactions(dirty)
        for segment in dirty:
            while (position := self._first_dirty(segment)) is None:
                yield None
            for view in self._chunks(segment, position):
                if view is None:
                    yield None
                    continue
                full = yield from self._compute(view, partial(self._map_chunk, segment, view, transactions))
                if full is not None:
                    self.result.cleaned_offset = full
                    return
                yield None
        self.result.cleaned_offset = found.end_offset

    def _first_dirty(self, segment: Segment) -> int | None:
        """Return the byte position in a segment at which the range to compact begins.

        Return None if the caller must pause and call again.
        """
        try:
            return self.log.locate(segment, self._found.first_dirty_offset)
        except Unfinished:
            return None

    def _dirty(self) -> list[Segment]:
        """Return the segments that have records in the range to compact."""
        start, end = self._found.first_dirty_offset, self._found.end_offset
        pairs = pairwise(self.log.segments)
        return [segment for segment, after in pairs if after.base_offset > start and segment.base_offset < end]

    def _map_chunk(self, segment: Segment, view: memoryview, transactions: TransactionsInOrder) -> int | None:
        stays = stays_as_it_is(view)

        def counts(header: BatchHeader) -> bool:
            if header.is_control:
                transactions.ends_nothing(header)
            return not stays and header.record_count > 0 and not header.is_control and not transactions.is_aborted(header)

        try:
            columns = open_batches(view, from_offset=self._found.first_dirty_offset, control=True, check_crcs=True, wanted=counts)
        except (BadBatch, CodecFailed) as failure:
            raise _unreadable(segment, failure) from failure
        return self._map.remember(columns)

    def _compute(self, view: memoryview, do: Callable[[], T]) -> Pauses[T]:
        """Return the result of `do`, which works on the batches in `view`. Pause before work on a large batch."""
        if not is_large(view):
            return do()
        work = LargeWork(do)
        self.large = cast("LargeWork[object]", work)
        yield None
        self.large = None
        return work.result()

    def _transactions(self, segments: Sequence[Segment]) -> TransactionsInOrder:
        if not segments:
            return TransactionsInOrder(())
        return TransactionsInOrder(self.log.aborted_transactions(segments[0].base_offset, self.log.log_end_offset))

    def _compact(self, left: deque[tuple[Segment, int]], filter: Filter) -> CompactionSteps:
        """Write the remaining records of the first segment in `left`, and of as many following ones as fit, to a new segment.

        The new segment replaces them, and they are removed from `left`. Each entry of `left` is (segment, its end offset).
        """
        new = Segment(self._disk, self.log.path, left[0][0].base_offset, 0, new=True, ending=CLEANED)
        remove_cleaned(self._disk, new)
        group: list[Segment] = []
        replaced = False
        filter.has_changed = False
        try:
            while left and (not group or self._fits(*left[0], new)):
                group.append(left.popleft()[0])
                yield from self._fill(new, group[-1], filter)
            self._write(new, *filter.finish_segment())
            self.result.bytes_written += new.size
            if new.size and (len(group) > 1 or filter.has_changed):
                files = [new.file, *new.flush_indexes(final=True)]
                finished: Syncable | None = None
                while finished is None:
                    note = begin_note(self._disk, self.log.path, self.log.segments, [new])
                    yield [*files, note.file]
                    finished = finish_note(self._disk, self.log.path, note)
                yield [finished]
                replaced = self.log.replace_segments(group, new, self._now, self._cuts)
                if not replaced:
                    raise StorageFailed(new.path(""), "the segments were deleted meanwhile")
                while self.log.is_swapping:
                    step = self.log.swap_step
                    yield [self.log.directory]
                    self.log.run_swap_step(step)
        finally:
            if not replaced:
                remove_cleaned(self._disk, new)
                drop_note(self._disk, self.log.path)

    def _fits(self, segment: Segment, end_offset: int, new: Segment) -> bool:
        """Return whether the whole `segment` fits into `new`, by size, index size and relative offsets."""
        config = self.log.config
        entries = max(len(segment.index) * OFFSET_ENTRY.size, len(segment.times) * TIME_ENTRY.size)
        return (
            new.size + segment.size <= config.segment_bytes
            and new.index_bytes + entries <= config.segment_index_bytes
            and end_offset - new.base_offset <= LARGEST_RELATIVE
        )

    def _fill(self, new: Segment, segment: Segment, filter: Filter) -> CompactionSteps:
        unsynced = 0
        for view in self._chunks(segment, 0):
            if view is None:
                yield None
                continue
            parts, headers = yield from self._compute(view, partial(_filter, segment, view, filter))
            self._write(new, parts, headers)
            unsynced += sum(map(len, parts))
            self.result.bytes_read += len(view)
            self.result.records_read += filter.records_read
            filter.records_read = 0
            if unsynced > SYNC_BYTES:
                unsynced = 0
                yield [new.file]
            else:
                yield None

    def _chunks(self, segment: Segment, position: int) -> Iterator[memoryview | None]:
        """Yield groups of whole batches of a segment. Check their offsets and leader epochs before, because no CRC covers these.

        The check keeps damage from being copied as valid data. A yielded None is a pause of the check.
        """
        for view in chunks(segment, position):
            while not self.log.is_proven(segment, position, position + len(view)):
                yield None
            position += len(view)
            yield view

    def _write(self, new: Segment, parts: list[Buffer], headers: list[BatchHeader]) -> None:
        if parts:
            new.extend(parts, headers, self.log.config.index_interval_bytes)


def chunks(segment: Segment, position: int) -> Iterator[memoryview]:
    """Read whole batches of a segment from `position`, a few at a time. Raises `Damaged`."""
    while segment.size - position >= HEADER_BYTES:
        view = memoryview(segment.file.read(position, min(CHUNK_BYTES, segment.size - position)))
        try:
            size = _together(view)
            if not size:
                header = read_header(view)
                if header.size > segment.size - position:
                    raise damaged_at(segment.file, position)
                view = memoryview(segment.file.read(position, header.size))
                size = _together(view)
        except BadBatch as failure:
            raise _unreadable(segment, failure) from failure
        if not size:
            raise damaged_at(segment.file, position)
        yield view[:size]
        position += size
    if position != segment.size:
        raise damaged_at(segment.file, position)


def _filter(segment: Segment, view: memoryview, filter: Filter) -> tuple[list[Buffer], list[BatchHeader]]:
    """Return the result of `Filter.filter_batches`. Raises `Damaged` for batches that cannot be opened."""
    try:
        return filter.filter_batches(view)
    except (BadBatch, CodecFailed) as failure:
        raise _unreadable(segment, failure) from failure


def _together(view: memoryview) -> int:
    """Return the size in bytes of the whole batches at the start of `view` that are decoded together: at least one batch."""
    size = costs = 0
    for position, header in batches(view):
        costs += opening_costs(header, view[position : position + header.size])
        if size and costs > PAUSE_BYTES:
            break
        size += header.size
    return size


def _unreadable(segment: Segment, failure: ValueError) -> Damaged:
    position = failure.position if isinstance(failure, BadBatch) else 0
    directory, _, name = segment.file.path.rpartition("/")
    return Damaged(directory, name, position, f"its records cannot be opened for compaction: {failure}")
