"""The reads of a log, which change no records: slices, offsets by timestamp and by epoch, and the log's damage.

Each call checks unread bytes and rebuilds indexes for less than a millisecond. If more work is left, the call raises `Unfinished`,
and the caller repeats it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.log.epochs import LeaderEpochs
from ottla.log.errors import Damaged, Unfinished
from ottla.log.segments import timestamps
from ottla.log.segments.segment import Segment
from ottla.log.segments.timestamps import Answer, Further
from ottla.log.segments.transaction_index import Aborted
from ottla.log.slice_reader import FirstPart, LogReader
from ottla.ports import FileSlice


class ReadableLog:
    """A log for its readers: `log_start_offset` is the first readable offset, `log_end_offset` the next one to be written."""

    __slots__ = ("_reader", "epochs", "log_end_offset", "log_start_offset", "path", "segments")

    path: str
    segments: list[Segment]
    epochs: LeaderEpochs
    log_start_offset: int
    log_end_offset: int
    _reader: LogReader

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        until_offset: int,
        min_one_batch: bool = False,
        may_check: bool = True,
        deleted_too: bool = False,
    ) -> FileSlice | None:
        """Return whole batches from the one with `offset` on, up to `max_bytes` and below `until_offset`; None if there are none.

        With `min_one_batch`, the first batch is returned whatever its size (KIP-74). Batches not read since the start are checked:
        for about a millisecond in each call, or not at all without `may_check`. If checks remain, the result is a `FirstPart` with
        the batches checked so far. With `deleted_too`, batches before the log's start are readable in the first segment. Raises
        `StorageFailed`.
        """
        if offset >= until_offset or offset < (self.segments[0].base_offset if deleted_too else self.log_start_offset):
            return None
        end = self.log_end_offset
        try:
            return self._reader.read(offset, max_bytes, until_offset, end, min_one_batch=min_one_batch, may_check=may_check)
        except Unfinished:
            if not may_check:
                return FirstPart(self.segments[-1].file, 0, 0)
        look = partial(self._reader.read, offset, max_bytes, until_offset, end, min_one_batch=min_one_batch, may_check=may_check)
        try:
            return self._reader.in_parts(look)
        except Unfinished:
            return FirstPart(self.segments[-1].file, 0, 0)

    def expect(self, offset: int, found: FileSlice, position: int) -> None:
        """Cache the position of an offset that follows a part of the slice `found`, because a reader is likely to go on there."""
        for segment in reversed(self.segments):
            if segment.file is found.file:
                self._reader.remember(offset, segment, position)
                return

    @property
    def check_cost(self) -> int:
        """Return the cost of all CRC checks that reads have made so far: 1000 is half a millisecond."""
        return self._reader.check_cost

    def is_proven(self, segment: Segment, start: int, end: int) -> bool:
        """Check the bytes of a segment from `start` to `end`, unless they were read since the broker's start. Raises `Damaged`.

        Return False if the check is not complete and needs another call.
        """
        return segment.unproven is None or self._reader.is_proven(segment, start, end, self.log_end_offset)

    def locate(self, segment: Segment, offset: int) -> int:
        """Return the position in a segment of the first batch with `offset` or a later one. Raises `Damaged` and `Unfinished`."""
        return self._reader.in_parts(lambda: segment.locate(offset))

    def max_timestamp(self, segment: Segment) -> int:
        """Return the largest timestamp in a segment, in ms, or -1. Raises `Damaged` and `Unfinished`."""
        return self._reader.in_parts(lambda: segment.max_timestamp)

    def offset_for_timestamp(self, timestamp: int, from_offset: int = 0) -> Answer:
        """Return (timestamp, offset) of the first record at or after `timestamp` (ms), or None without one (ListOffsets, KIP-79).

        Raises `Damaged` and `Unfinished`.
        """
        start = max(from_offset, self.log_start_offset)
        return self._looked_up(lambda: timestamps.first_at_or_after(self.segments, timestamp, start))

    def max_timestamp_offset(self, so_far: Further | None = None) -> Answer:
        """Return (timestamp, offset) of the first record with the largest timestamp, or None (KIP-734).

        Raises `Damaged` and `Unfinished`.
        """
        return self._looked_up(lambda: timestamps.largest(self.segments, self.log_start_offset, so_far))

    def continue_search(self, so_far: Further) -> Answer:
        """Continue the search `so_far`, which paused, and return its result. Raises `Damaged` and `Unfinished`."""
        if so_far.is_largest:
            return self.max_timestamp_offset(so_far)
        return self.offset_for_timestamp(so_far.timestamp, so_far.next_offset)

    def behind_damage(self, offset: int) -> int:
        """Return the offset at which a reader can continue after `read` has raised `Damaged` at `offset`."""
        return self._reader.behind_damage(offset, self.log_end_offset)

    def check_whole(self) -> None:
        """Raise `Damaged` if segments, or batches within a segment, are missing after the log's start."""
        self._reader.check_whole(self.log_start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Return (largest epoch not above `leader_epoch`, its end offset) for OffsetForLeaderEpoch; (-1, -1) if unknown.

        See KIP-101 and KIP-279.
        """
        return self.epochs.end_offset(leader_epoch, self.log_end_offset)

    def aborted_transactions(self, offset: int, until_offset: int) -> list[Aborted]:
        """Return the aborted transactions with records from `offset` on and below `until_offset`, for Fetch (KIP-98).

        Raises `StorageFailed`.
        """
        return self._reader.aborted_transactions(offset, until_offset)

    def _looked_up(self, look_up: Callable[[], Answer]) -> Answer:
        """Return the result of the search `look_up`. If an index is wrong, rebuild the index, and repeat the search.

        Raises `Damaged` and `Unfinished`.
        """

        def search() -> Answer:
            try:
                return look_up()
            except Damaged as damaged:
                self._reader.diagnose(damaged, self.log_end_offset)
                return look_up()

        return self._reader.in_parts(search)
