"""The end of a log that is not yet durable: its batches as slices of files, for the journal. It uses segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.log.segments.segment import Segment
from ottla.ports import FileSlice, StorageFailed


class DurablePlace(NamedTuple):
    """A place in a log below which everything is durable: an offset, and the position of its batch in a segment."""

    offset: int
    segment: Segment
    position: int


class UnsyncedBatches(NamedTuple):
    """The batches from `base_offset` to the log's end at some time, `size` bytes in `parts`. `end` is the place behind them."""

    base_offset: int
    parts: Sequence[FileSlice]
    size: int
    end: DurablePlace

    def has_names(self) -> bool:
        """Return whether all files of the batches have names, so that the next start finds what precedes the batches."""
        try:
            for part in self.parts:
                if not part.file.has_name:
                    return False
        except StorageFailed:
            return False
        return True


def batches_since(place: DurablePlace, segments: Sequence[Segment], end_offset: int, most_bytes: int) -> UnsyncedBatches | None:
    """Return the batches from `place` to the end of a log with these segments.

    Return None if they have more than `most_bytes`, or the log no longer has the place's segment.
    """
    offset, segment, position = place
    last = segments[-1]
    if segment is last:
        size = last.size - position
        parts: Sequence[FileSlice] = (FileSlice(last.file, position, size),) if size else ()
    else:
        if segment not in segments[-3:]:  # sealed long ago, or replaced: the log's own files are synced instead
            return None
        starts = {segment: position}
        spans = [(one, starts.get(one, 0)) for one in segments[segments.index(segment) :]]
        size = sum(one.size - start for one, start in spans)
        parts = [FileSlice(one.file, start, one.size - start) for one, start in spans if one.size > start]
    if size > most_bytes:
        return None
    return UnsyncedBatches(offset, parts, size, DurablePlace(end_offset, last, last.size))
