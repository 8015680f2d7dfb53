"""The bounds of the batches in a slice of a log: offsets and positions from headers, without opening a batch.

Share partitions acquire records by these bounds, and the response contains the batches between the first and the last of them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.log.errors import Damaged
from ottla.ports import FileSlice
from ottla.records.batches.header import CONTROL_BIT, HEADER_BYTES, LOG_OVERHEAD_BYTES, TRANSACTIONAL_BIT

_SPAN: Final = Struct(">qi9xhi16xq")
"""base_offset, batch_length, attributes, last_offset_delta, producer_id"""
FIRST_CHUNK_BYTES: Final = 4096
LARGEST_CHUNK_BYTES: Final = 64 * 1024
SHORTEST: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES
"""The smallest `batch_length`, that of a batch without records."""
_TRANSACTIONAL_DATA: Final = TRANSACTIONAL_BIT | CONTROL_BIT
"""The bits of which a transaction's batch of records has only the first, and a transaction marker both."""

Span = tuple[int, int]
"""(first offset, last offset)"""


class BatchBounds:
    """The bounds of the first batches in a slice, in order, and the position in the file at which each ends.

    `transactional` are batches of records of transactions, as (producer id, bounds).
    """

    __slots__ = ("_slice", "ends", "spans", "transactional")

    def __init__(self, found: FileSlice) -> None:
        self._slice = found
        self.spans: list[Span] = []
        self.ends: list[int] = []
        self.transactional: list[tuple[int, Span]] = []

    def read(self, until_offset: int) -> None:
        """Read batches up to the one with the offset before `until_offset`, or up to the slice's end. Raises `Damaged`."""
        found, spans, ends, unpack = self._slice, self.spans, self.ends, _SPAN.unpack_from
        file, position, end, chunk_bytes = found.file, found.position, found.position + found.size, FIRST_CHUNK_BYTES
        while end - position >= HEADER_BYTES:
            chunk = file.read(position, min(chunk_bytes, end - position))
            at, last = 0, len(chunk) - HEADER_BYTES
            while at <= last:
                base_offset, batch_length, attributes, last_offset_delta, producer_id = unpack(chunk, at)
                if batch_length < SHORTEST:
                    raise _damage_at(found, position + at)
                at += batch_length + LOG_OVERHEAD_BYTES
                span = base_offset, base_offset + last_offset_delta
                spans.append(span)
                ends.append(position + at)
                if attributes & _TRANSACTIONAL_DATA == TRANSACTIONAL_BIT:
                    self.transactional.append((producer_id, span))
                if span[1] + 1 >= until_offset:
                    return
            if not at:
                raise _damage_at(found, position)
            # A larger chunk has more batches if they are small; of large ones only the headers are read.
            chunk_bytes = min(LARGEST_CHUNK_BYTES, 4 * chunk_bytes) if at <= chunk_bytes else HEADER_BYTES
            position += at

    def after(self, last_offset: int) -> tuple[int, int] | None:
        """Return (offset, position) after the batch that ends with an offset; None if no batch ends with it."""
        for number in range(len(self.spans) - 1, -1, -1):
            if self.spans[number][1] <= last_offset:
                return (last_offset + 1, self.ends[number]) if self.spans[number][1] == last_offset else None
        return None

    def cut(self, first_offset: int, last_offset: int) -> FileSlice:
        """Return the slice from the batch with `first_offset` to the batch with `last_offset`, both within the bounds."""
        spans, ends = self.spans, self.ends
        first, last = 0, len(spans) - 1
        while first < last and spans[first][1] < first_offset:
            first += 1
        while last > first and spans[last][0] > last_offset:
            last -= 1
        start = ends[first - 1] if first else self._slice.position
        return FileSlice(self._slice.file, start, ends[last] - start)


def _damage_at(found: FileSlice, position: int) -> Damaged:
    directory, _, name = found.file.path.rpartition("/")
    return Damaged(directory, name, position, "no batch of records begins here.")
