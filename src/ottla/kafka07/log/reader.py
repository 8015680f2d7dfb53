"""The reader of a log for clients of Kafka 0.7: bytes from a position on, and the positions at which segments begin.

It uses shown positions and the rendering of batches; clients are unknown here. Long work is done in steps with pauses.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator
from typing import Final, NamedTuple

from ottla.kafka07.log.positions import MAGICS, READ_BYTES, Positions07
from ottla.kafka07.log.sidecar import END, PAGE_RECORDS, Entry07, Sidecar07, misfit
from ottla.kafka07.records.renderer import Kind07, Rendering07, open_batch
from ottla.log.names import LOG
from ottla.log.reads import ReadableLog
from ottla.ports import Disk, Pauses
from ottla.records import kernel_07
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import BatchHeader, batches
from ottla.records.compression.limits import room_slowly

PIECE_BYTES: Final = 256 * 1024
PIECE_BATCHES: Final = 64
"""The most bytes and batches rendered between two pauses."""

LEAST_READ_BYTES: Final = 16 * 1024
"""The least bytes of the log read at once, even for a small request."""

FIRST_PAGE: Final = 8
"""The number of entries in the first read of a sidecar. Each further read of the same walk has twice as many."""

CURSORS: Final = 16
NEAR_BYTES: Final = 4 << 20
"""The most cached places where reads ended, and the greatest distance in bytes between a read and the place it uses."""

LATEST, EARLIEST = -1, -2


class Cursor07(NamedTuple):
    """The beginning of a batch: its offset and byte position, and the `number` of the next entry in its sidecar."""

    sidecar: Sidecar07
    number: int
    offset: int
    position: int


class OpenedBatches07:
    """A cache of decompressed batches that readers have read in part: the most recently used ones, up to `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._opened: dict[tuple[object, int], Rendering07] = {}

    def pop(self, reader: object, position: int) -> Rendering07 | None:
        """Remove from the cache, and return, the batch that `reader` left at `position`; None if there is none."""
        found = self._opened.pop((reader, position), None)
        if found is not None:
            self._bytes -= found.size
        return found

    def leave(self, reader: object, position: int, rendering: Rendering07) -> None:
        """Cache a batch that `reader` has read up to `position`, at which its next read will probably begin."""
        self.pop(reader, position)
        if rendering.size > self._most_bytes:
            return
        self._opened[reader, position] = rendering
        self._bytes += rendering.size
        while self._bytes > self._most_bytes:
            first = next(iter(self._opened))
            self._bytes -= self._opened.pop(first).size


class Reader07:
    """The reader of one log by position. It uses only the shown part of `positions`, which never changes."""

    def __init__(self, positions: Positions07, readable: ReadableLog, disk: Disk, opened: OpenedBatches07) -> None:
        self._positions = positions
        self._log = readable
        self._disk = disk
        self._opened = opened
        self._cursors: list[Cursor07] = []
        self._start: tuple[int, int] | None = None

    def start(self) -> Pauses[int]:
        """Return the position of the first readable message, which can be within a batch that contains the log's start.

        Everything up to the log's start must be shown. Raises `StorageFailed`.
        """
        offset = self._log.log_start_offset
        if self._start is None or self._start[0] != offset:
            self._start = offset, (yield from self._position_of(offset))
        return max(self._start[1], self._positions.sidecars[0].begin.position)

    def read(self, position: int, max_bytes: int, limit_bytes: int) -> Pauses[bytearray | None]:
        """Return up to `max_bytes` from a position on, not beyond its segment; None if no byte has this position.

        An opened batch may take `limit_bytes` of memory. Raises `StorageFailed`, `CodecFailed` and `BadBatch`.
        """
        positions = self._positions
        if position > positions.shown.position or position < (yield from self.start()):
            return None
        if position == positions.shown.position:
            return bytearray()
        sidecar, end, until_offset = self._part(position)
        if position >= end:
            return None
        out = yield from room_slowly(min(max_bytes, end - position))
        if out:
            cursor = self._cursor(sidecar, position)
            written = yield from self._fill(cursor, position, memoryview(out), until_offset, limit_bytes)
            if not written:
                return None
            if written < len(out):
                return out[:written]
        return out

    def elements(self, time_ms: int, most: int, now_ms: int) -> Pauses[list[int]]:
        """Return at most `most` first positions of segments last written at `time_ms` or before, the newest first (OFFSETS)."""
        lowest = yield from self.start()
        marks: list[tuple[int, int]] = []  # (position, offset)
        for number, sidecar in enumerate(self._positions.sidecars):
            position = max(sidecar.begin.position, lowest)
            if marks and marks[-1][0] == position:
                marks.pop()
            marks.append((position, sidecar.base_offset))
            if number % PIECE_BATCHES == PIECE_BATCHES - 1:
                yield
        end = self._positions.shown.position
        found = [position for position, _ in marks]
        if end > found[-1]:
            found.append(end)
        if time_ms == EARLIEST:
            del found[1:]
        elif time_ms != LATEST:
            if len(found) > len(marks) and now_ms > time_ms:
                found.pop()
            yield from self._drop_newer(found, marks, time_ms)
        return found[::-1][:most]

    def _drop_newer(self, found: list[int], marks: list[tuple[int, int]], time_ms: int) -> Pauses[None]:
        """Remove the positions of segments that were written after `time_ms` from the end of `found`."""
        while found and len(found) <= len(marks):
            segment = self._log.segments[self._number(max(marks[len(found) - 1][1], self._log.log_start_offset))]
            if not self._disk.exists(segment.path(LOG)) or self._disk.modified_ms(segment.path(LOG)) <= time_ms:
                return
            found.pop()
            yield

    def _number(self, offset: int) -> int:
        return max(0, bisect_right(self._log.segments, offset, key=lambda segment: segment.base_offset) - 1)

    # Positions

    def _part(self, position: int) -> tuple[Sidecar07, int, int]:
        """Return the sidecar that contains a position, the sidecar's end position, and the next sidecar's base offset."""
        sidecars, shown = self._positions.sidecars, self._positions.shown
        number = bisect_right(sidecars, position, key=lambda sidecar: sidecar.begin.position) - 1
        following = self._positions.next_sidecar(number)
        if following is not None:
            return sidecars[number], following.begin.end_before, following.base_offset
        return sidecars[number], shown.position, shown.offset

    def _cursor(self, sidecar: Sidecar07, position: int) -> Cursor07:
        """Return the nearest known place, at a position or before it, where a batch begins."""
        best = None
        for cursor in self._cursors:
            is_near = cursor.sidecar is sidecar and 0 <= position - cursor.position <= NEAR_BYTES
            if is_near and (best is None or cursor.position > best.position):
                best = cursor
        return best or self._entry_cursor(sidecar, sidecar.before_position(position) - 1)

    def _entry_cursor(self, sidecar: Sidecar07, index: int) -> Cursor07:
        if index < 0:
            return Cursor07(sidecar, 0, sidecar.base_offset, sidecar.begin.position)
        entry = sidecar.entry(index)
        return Cursor07(sidecar, index, entry.offset, entry.position)

    def _remember(self, cursor: Cursor07) -> None:
        if cursor in self._cursors:
            return
        if len(self._cursors) >= CURSORS:
            del self._cursors[0]
        self._cursors.append(cursor)

    def _position_of(self, offset: int) -> Pauses[int]:
        """Return the position of the first message from `offset` on. Messages compressed together have their batch's position."""
        sidecars, shown = self._positions.sidecars, self._positions.shown
        number = bisect_right(sidecars, offset, key=lambda sidecar: sidecar.base_offset) - 1
        if offset >= shown.offset:
            return shown.position
        if number < 0:
            return sidecars[0].begin.position
        sidecar = sidecars[number]
        following = self._positions.next_sidecar(number)
        until_offset = shown.offset if following is None else following.base_offset
        cursor = self._entry_cursor(sidecar, sidecar.before_offset(offset) - 1)
        if cursor.offset < self._log.segments[0].base_offset:  # the entry's segment is deleted
            cursor = self._entry_cursor(sidecar, min(cursor.number + 1, sidecar.count - 1))
        walk = Walk07(self._log, cursor, until_offset)
        for view, header in walk.batches():
            if header is None:
                yield
                continue
            if header.base_offset >= offset:
                return walk.position
            size = walk.kept_size
            if walk.kind in MAGICS:
                rendering = yield from open_batch(view, header, MAGICS[walk.kind])
                size = rendering.size
                if header.next_offset > offset:
                    return walk.position + rendering.position_of(_records_before(offset, view, header))
            walk.advance(header, size)
        return shown.position if following is None else following.begin.position

    # Rendering

    def _fill(self, cursor: Cursor07, position: int, out: memoryview, until_offset: int, limit_bytes: int) -> Pauses[int]:
        """Fill `out` with bytes from `position` on, and return their number: fewer than fit if the segment is deleted meanwhile."""
        walk = Walk07(self._log, cursor, until_offset)
        written = paused_at = batch_count = 0
        walk.wanted_bytes = len(out)
        for view, header in walk.batches():
            if header is None:
                yield
                continue
            begin, skipped = walk.cursor, position + written - walk.position
            if walk.kind in MAGICS:
                size, added = yield from self._render(walk, view, header, skipped, out[written:], limit_bytes)
            else:
                size, added = walk.kept_size, _copy_kept(walk, skipped, out[written:])
            written += added
            if written == len(out):
                self._remember(begin)
                return written
            walk.advance(header, size)
            if walk.position == position + written:
                written += walk.render_plain(out[written : written + PIECE_BYTES])
            if written == len(out):
                self._remember(walk.here)
                return written
            batch_count, walk.wanted_bytes = batch_count + 1, len(out) - written
            if batch_count % PIECE_BATCHES == 0 or written - paused_at >= PIECE_BYTES:
                paused_at = written
                yield
        if walk.offset >= self._log.segments[0].base_offset:
            raise misfit(cursor.sidecar.path)
        return written

    def _render(
        self, walk: Walk07, view: memoryview, header: BatchHeader, skipped: int, out: memoryview, limit_bytes: int
    ) -> Pauses[tuple[int, int]]:
        """Write a batch to `out` without its first `skipped` bytes, as far as it fits. Return (whole size, bytes written)."""
        rendering = self._opened.pop(self, walk.position)
        if rendering is None:
            rendering = yield from open_batch(view, header, MAGICS[walk.kind], limit_bytes)
        at, written = max(skipped, 0), 0
        while at < rendering.size and written < len(out):
            size = rendering.into(at, out[written : written + PIECE_BYTES])
            at, written = at + size, written + size
            if size == PIECE_BYTES:
                yield
        if at < rendering.size and header.codec:
            self._opened.leave(self, walk.position, rendering)
        return rendering.size, written


def _records_before(offset: int, view: memoryview, header: BatchHeader) -> int:
    """Return the number of a batch's records before `offset`. Compaction may have removed some records."""
    if header.record_count == header.next_offset - header.base_offset:
        return offset - header.base_offset
    return header.record_count - open_batches(view, from_offset=offset).record_count


def _copy_kept(walk: Walk07, skipped: int, out: memoryview) -> int:
    """Write a kept message to `out` without its first `skipped` bytes, as far as it fits. Return the bytes written."""
    if skipped >= walk.kept_size:
        return 0
    part = walk.kept_message()[skipped : skipped + len(out)]
    out[: len(part)] = part
    return len(part)


class Walk07:
    """An iteration over successive batches of a log, each with its form and byte position.

    Raises `Damaged07` if the batches contradict the sidecar's entries.
    """

    def __init__(self, readable: ReadableLog, cursor: Cursor07, until_offset: int) -> None:
        self._log = readable
        self._sidecar = cursor.sidecar
        self._index = cursor.number
        self._until_offset = until_offset
        self._data = memoryview(b"")
        self._next_at = 0
        self._entries: list[Entry07] = []
        self._page = FIRST_PAGE
        self._at = 0
        self._entry: Entry07 | None = None
        self.offset = cursor.offset
        self.position = cursor.position
        self.kind = Kind07.PLAIN1
        self.cursor = cursor
        self.wanted_bytes = 0
        """The bytes of messages still wanted by the caller, which determine how much of the log is read at once."""

    @property
    def kept_size(self) -> int:
        """Return the size of the message kept for the present batch; 0 if none is kept."""
        return self._entry.kept_size if self._entry is not None and self.kind == Kind07.KEPT else 0

    def kept_message(self) -> bytes:
        """Return the compressed message from which the present batch was produced."""
        assert self._entry is not None, "what is kept has an entry"
        return self._sidecar.kept_message(self._entry)

    def batches(self) -> Generator[tuple[memoryview, BatchHeader | None], None, None]:
        """Yield (view, header) of each batch, and (empty, None) for a pause. Call `advance` before the next batch.

        The iteration ends early if the segment is deleted meanwhile.
        """
        nothing = memoryview(b"")
        while self.offset < self._until_offset:
            most, until = min(READ_BYTES, max(LEAST_READ_BYTES, self.wanted_bytes * 9 // 8)), self._until_offset
            found = self._log.read(self.offset, most, until_offset=until, min_one_batch=True, deleted_too=True)
            if found is None:
                return
            if not len(found):
                yield nothing, None
                continue
            self._data, self._next_at = memoryview(found.read()), 0
            while (batch := next(batches(self._data, self._next_at), None)) is not None:
                at, header = batch
                if header.base_offset != self.offset:
                    raise misfit(self._sidecar.path)
                self._find_entry(header)
                self._next_at = at + header.size
                yield self._data[at : self._next_at], header

    def advance(self, header: BatchHeader, size: int) -> None:
        """Advance over a batch that takes `size` bytes."""
        self.offset, self.position = header.next_offset, self.position + size

    def render_plain(self, out: memoryview) -> int:
        """Write whole batches in memory that have no entry to `out` while they fit, and advance past them.

        Return the bytes written.

        One call for many batches saves time if batches are small.
        """
        entry = self._next_entry()
        until_offset = self._until_offset if entry is None else min(entry.offset, self._until_offset)
        data, magic = self._data, MAGICS[Kind07.PLAIN1]
        self._next_at, self.offset, written = kernel_07.render_batches(
            data, self._next_at, len(data), self.offset, until_offset, magic, out, 0
        )
        self.position += written
        return written

    @property
    def here(self) -> Cursor07:
        """Return the offset and byte position of the next batch."""
        return Cursor07(self._sidecar, self._index, self.offset, self.position)

    def _find_entry(self, header: BatchHeader) -> None:
        """Set `kind` and the entry of a batch. A batch without an entry is plain."""
        self.cursor = self.here
        self.kind, self._entry = Kind07.NOTHING if header.is_control else Kind07.PLAIN1, None
        while (entry := self._next_entry()) is not None and entry.offset <= self.offset:
            if entry.offset != self.offset or entry.position != self.position:
                raise misfit(self._sidecar.path)
            if entry.kind != END:
                if entry.batch_crc != header.crc:
                    raise misfit(self._sidecar.path)
                self.kind, self._entry = Kind07(entry.kind), entry
            self._at += 1
            self._index += 1

    def _next_entry(self) -> Entry07 | None:
        if self._at >= len(self._entries):
            if self._index >= self._sidecar.count:
                return None
            self._entries, self._at = self._sidecar.entries(self._index, self._page), 0
            self._page = min(2 * self._page, PAGE_RECORDS)
        return self._entries[self._at]
