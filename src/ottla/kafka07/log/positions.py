"""The positions of one partition's messages for clients of Kafka 0.7: bytes of a log that is not stored in their format.

A batch takes as many bytes as its records take in 0.7's format, or as the compressed message from which it was produced. To measure
a batch is to compute these bytes. Positions follow from the log and from a few facts in the sidecars (`sidecar07`): where a segment
begins, and which batches are not plain messages of format 1. Clients are shown messages once log and sidecars are on stable
storage. After that their view never changes, even if the process or the machine fails. Discarded positions are never used again. A
log without clients of 0.7 has no sidecars.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import suppress
from enum import Enum
from typing import Final, NamedTuple

from ottla.kafka07.log.recovery import invalidate
from ottla.kafka07.log.sidecar import END, Begin07, Damaged07, Sidecar07, misfit
from ottla.kafka07.records.renderer import Kind07, size_of
from ottla.log.errors import Damaged
from ottla.log.log import Log
from ottla.log.reads import ReadableLog
from ottla.ports import Buffer, Disk, File, StorageFailed
from ottla.records import kernel_07
from ottla.records.batches.header import BadBatch, BatchHeader, batches
from ottla.records.compression.codecs import DEFAULT_LIMIT_BYTES, CodecFailed
from ottla.records.pauses import replace_pauses

log = logging.getLogger("ottla.log")

MAGICS: Final = {Kind07.PLAIN0: 0, Kind07.PLAIN1: 1}
READ_BYTES: Final = 96 * 1024
"""The bytes of the log read at once. malloc reuses memory of this size for the next read, but maps larger blocks each time."""

PAUSE_BYTES: Final = 256 * 1024
PAUSE_BATCHES: Final = 64
"""The most bytes and batches measured in one step: about a millisecond's work."""

INTERVAL_BYTES: Final = 4096
"""The bytes of the log between two entries, unless its batches are larger."""

MOST_UNSYNCED: Final = 4096
"""The most unsynced records of a sidecar. A start after a crash checks all of them."""

MOST_PENDING: Final = 10_000
MOST_PENDING_BYTES: Final = 16 << 20
"""The most remembered batches with unknown positions, and their bytes in memory. Further batches become plain messages."""


class Progress07(Enum):
    """The outcome of one step of computing byte positions: done, more batches left, a sync needed, or a larger `limit_bytes`."""

    DONE = "done"
    MORE = "more"
    SYNC = "sync"
    ROOM = "room"


class Place07(NamedTuple):
    """The beginning of a batch: its offset in the log, and its byte position for clients of 0.7."""

    offset: int
    position: int


class Noted07(NamedTuple):
    """A batch that a 0.7 client produced, and whose byte position is unknown because batches before it have no positions yet."""

    offset: int
    kind: Kind07
    kept: bytes | None


class Positions07:
    """The positions of one log. Everything before `end` is measured, and everything before `shown` is also on stable storage.

    `bases` are the base offsets of the sidecars that the start found. `is_whole`: the last shutdown was clean, so that no sidecar
    can be torn. Nothing is read before the first client's request.
    """

    __slots__ = (
        "_asked",
        "_disk",
        "_is_whole",
        "_limit_bytes",
        "_log",
        "_noted_offset",
        "_path",
        "_pending",
        "_pending_bytes",
        "_since_entry",
        "_work",
        "end",
        "is_resumed",
        "shown",
        "sidecars",
    )

    def __init__(self, disk: Disk, path: str, readable: ReadableLog, bases: Iterable[int] = (), *, is_whole: bool = False) -> None:
        self._disk = disk
        self._path = path
        self._log = readable
        self.sidecars = [Sidecar07(disk, path, base) for base in sorted(bases)]
        for sidecar in self.sidecars:
            sidecar.synced = 1  # sidecars found at a start, or checked after a crash, are on stable storage
        self.end = self.shown = Place07(-1, 0)
        self.is_resumed = not self.sidecars
        self._is_whole = is_whole
        self._noted_offset = -1
        self._since_entry = 0
        self._pending: deque[Noted07] = deque()
        self._pending_bytes = 0
        self._limit_bytes = DEFAULT_LIMIT_BYTES
        self._work: Generator[Progress07, None, None] | None = None
        self._asked: tuple[Sidecar07, int, Place07] | None = None

    # Measuring

    def resume(self) -> None:
        """Find the place up to which the last process showed messages, and continue there. Raises `Damaged07`."""
        if self.is_resumed:
            return
        while self.sidecars and self.sidecars[-1].is_empty:
            self.sidecars.pop().remove()
        if not self.sidecars:
            self.is_resumed = True
            return
        newest = self.sidecars[-1]
        last = newest.last()
        place = Place07(newest.base_offset, newest.begin.position) if last is None else Place07(last.offset, last.position)
        is_batch = last is not None and last.kind != END
        if self._is_whole and newest.is_torn:
            raise Damaged07(newest.path, "it ends within an entry, although the broker was stopped cleanly.")
        if place.offset + is_batch > self._log.log_end_offset:
            raise misfit(newest.path)
        if last is not None and is_batch:  # its batch was never shown: an END follows every shown entry
            kept = newest.kept_message(last) if last.kind == Kind07.KEPT else None
            newest.cut(newest.count - 1)
            self._remember(Noted07(last.offset, Kind07(last.kind), kept))
        newest.synced = newest.count + 1
        self.end = self.shown = place
        self._noted_offset = place.offset
        self.is_resumed = True

    def advance(self, until_offset: int, plain: Kind07, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Progress07:
        """Measure a part of the log before `until_offset`, for a millisecond. `plain` is the form of batches without an entry.

        An opened batch may take `limit_bytes` of memory. Raises `Damaged07` and `StorageFailed`.
        """
        self._limit_bytes = limit_bytes
        if self.end.offset >= until_offset and self._work is None:
            return Progress07.DONE
        if self._work is None:
            self._work = self._run(until_offset, plain)
        try:
            return next(self._work)
        except StopIteration:
            self._work = None
            return Progress07.DONE if self.end.offset >= until_offset else Progress07.MORE
        except BaseException:
            self._work = None
            raise

    def _run(self, until_offset: int, plain: Kind07) -> Generator[Progress07, None, None]:
        while self.end.offset < until_offset:
            start = self._log.log_start_offset
            if self.sidecars:
                start = max(self.end.offset, self._log.segments[0].base_offset)
            if start >= until_offset:
                yield from self._move_to(start)
                return
            try:
                found = self._log.read(start, READ_BYTES, until_offset=until_offset, min_one_batch=True, deleted_too=True)
            except Damaged:
                yield from self._move_to(self._log.behind_damage(start))
                continue
            if found is None:
                yield from self._move_to(until_offset)
            elif len(found):
                yield from self._measure(memoryview(found.read()), plain)
            yield Progress07.MORE

    def _measure(self, view: memoryview, plain: Kind07) -> Generator[Progress07, None, None]:
        """Compute the positions of the batches that fill `view` and belong to one segment."""
        since_bytes = since_batches = next_at = 0
        while (batch := next(batches(view, next_at), None)) is not None:
            at, header = batch
            next_at = at + header.size
            if header.base_offset < self.end.offset:
                raise misfit(self.sidecars[-1].path)
            if not at or header.base_offset != self.end.offset:
                yield from self._move_to(header.base_offset)
            kind, kept = self._kind(header, plain)
            try:
                size = len(kept) if kept is not None else (yield from self._size(view[at:next_at], header, kind))
            except (CodecFailed, BadBatch) as failure:
                log.warning("%s: clients of 0.7 do not see the batch of offset %d: %s", self._path, header.base_offset, failure)
                yield from self._move_to(header.next_offset)
                continue
            self._advance(header, kind, size, kept)
            if plain is Kind07.PLAIN1 and not self._pending:
                next_at = self._pass_plain(view, next_at)
            since_bytes, since_batches = since_bytes + size, since_batches + 1
            if since_bytes > PAUSE_BYTES or since_batches > PAUSE_BATCHES:
                since_bytes = since_batches = 0
                yield Progress07.SYNC if self.wants_sync else Progress07.MORE

    def _pass_plain(self, view: memoryview, at: int) -> int:
        """Compute the positions of the plain batches of `view` from `at` on that need no entry.

        Return where the last one ends in `view`.
        """
        until = min(len(view), at + max(0, INTERVAL_BYTES - self._since_entry))
        stop, offset, size = kernel_07.measure_batches(view, at, until, self.end.offset, MAGICS[Kind07.PLAIN1])
        self._since_entry += stop - at
        self.end = Place07(offset, self.end.position + size)
        return stop

    def _size(self, batch: memoryview, header: BatchHeader, kind: Kind07) -> Generator[Progress07, None, int]:
        if kind == Kind07.NOTHING or not header.record_count:
            return 0
        while True:
            limit_bytes = self._limit_bytes
            try:
                return (yield from replace_pauses(size_of(batch, header, MAGICS[kind], limit_bytes), Progress07.MORE))
            except CodecFailed as failure:
                if not failure.over_limit or limit_bytes >= DEFAULT_LIMIT_BYTES:
                    raise
            yield Progress07.ROOM

    def _kind(self, header: BatchHeader, plain: Kind07) -> tuple[Kind07, bytes | None]:
        """Return the form of a batch for clients, and the compressed message that is kept for it, or None."""
        while self._pending and self._pending[0].offset < header.base_offset:
            self._forget_first()
        if header.is_control:
            return Kind07.NOTHING, None
        if self._pending and self._pending[0].offset == header.base_offset:
            return self._pending[0][1:]
        return plain, None

    def _advance(self, header: BatchHeader, kind: Kind07, size: int, kept: Buffer | None) -> None:
        """Advance `end` past a batch that takes `size` bytes; add an entry if needed. Raises `StorageFailed` without a change."""
        offset, position = self.end
        if kind in (Kind07.PLAIN0, Kind07.KEPT) or self._since_entry >= INTERVAL_BYTES:
            self.sidecars[-1].add(offset, position, kind, header.crc, kept)
            self._noted_offset, self._since_entry = offset, 0
        self._since_entry += header.size
        self.end = Place07(header.next_offset, position + size)

    def _move_to(self, offset: int) -> Generator[Progress07, None, None]:
        """Begin a sidecar at the batch of `offset`, if the batch begins a segment or follows unreadable batches."""
        is_gap = bool(self.sidecars) and offset > self.end.offset
        if self.sidecars and not is_gap and self._segment_base(offset) <= self.sidecars[-1].base_offset:
            return
        while self.sidecars and self.shown != self.end:
            yield Progress07.SYNC
        self._begin(offset, self.end.position + is_gap)

    def _segment_base(self, offset: int) -> int:
        segments = self._log.segments
        return segments[max(0, bisect_right(segments, offset, key=lambda each: each.base_offset) - 1)].base_offset

    def _begin(self, offset: int, position: int) -> None:
        """Begin a sidecar. The caller has synced the previous one, so that only the last sidecar can be torn."""
        before = self.sidecars[-1] if self.sidecars else None
        if before is not None:
            before.close()
        sidecar = Sidecar07(self._disk, self._path, offset)
        sidecar.write_header(Begin07(position, self.end.position, -1 if before is None else before.base_offset))
        self.sidecars.append(sidecar)
        self.end = Place07(offset, position)
        self._noted_offset, self._since_entry = offset, 0

    # Appends by clients of 0.7

    def note(self, header: BatchHeader, kind: Kind07, size: int, kept: Buffer | None) -> None:
        """Record a batch that a client of 0.7 produced: `header` is as in the log, and the batch takes `size` bytes.

        While its position is unknown, `kind` and `kept` are remembered. If they are lost by a disk failure or a crash, clients get
        the batch as plain messages.
        """
        is_here = self.is_resumed and bool(self.sidecars) and self.end.offset == header.base_offset
        if is_here and self._work is None and self._log.segments[-1].base_offset <= self.sidecars[-1].base_offset:
            with suppress(StorageFailed):
                self._advance(header, kind, size, kept)
        elif kind != Kind07.NOTHING:
            self._remember(Noted07(header.base_offset, kind, None if kept is None else bytes(kept)))

    def _remember(self, noted: Noted07) -> None:
        size = len(noted.kept or b"")
        if len(self._pending) < MOST_PENDING and self._pending_bytes + size <= MOST_PENDING_BYTES:
            self._pending.append(noted)
            self._pending_bytes += size

    def _forget_first(self) -> None:
        self._pending_bytes -= len(self._pending.popleft().kept or b"")

    @property
    def is_behind(self) -> bool:
        """Return whether batches were appended whose byte positions are not computed yet."""
        return bool(self._pending)

    # Durability

    @property
    def wants_sync(self) -> bool:
        """Return whether more than `MOST_UNSYNCED` records wait for a sync, so that a sync is due without a client's request."""
        return bool(self.sidecars) and self.sidecars[-1].count + 1 - self.sidecars[-1].synced > MOST_UNSYNCED

    def dirty_files(self) -> list[File]:
        """Return the files that must be synced, together with the log's files, to show everything that is measured.

        Files with failed writes are left out.
        """
        self._asked = None
        if not self.is_resumed or not self.sidecars or self.shown == self.end:
            return []
        newest = self.sidecars[-1]
        try:
            if self._noted_offset != self.end.offset or not newest.count:
                newest.add(*self.end, END, 0)
                self._noted_offset = self.end.offset
            files = newest.dirty_files()
        except StorageFailed as failure:
            log.warning("%s: clients of 0.7 get no new messages until it can be written: %s", self._path, failure)
            return []
        self._asked = newest, newest.count + 1, self.end
        return files

    def mark_synced(self) -> None:
        """Record a sync of the files that the last call of `dirty_files` returned, together with the log's files."""
        if self._asked is None:
            return
        sidecar, count, place = self._asked
        self._asked = None
        if self.sidecars and sidecar is self.sidecars[-1]:
            sidecar.synced, self.shown = count, place

    # Compaction and truncation

    def invalidate(self, offset: int) -> None:
        """Discard all byte positions that 0.7 clients have of this log. Clients that fetch at one of them get OFFSET_OUT_OF_RANGE.

        The batches from `offset` on get new positions, higher than all positions ever given out. 0.7 clients cannot read the
        batches before `offset` any more. Raises `StorageFailed`.
        """
        if not self.sidecars:
            return
        self._forget_work()
        for sidecar in self.sidecars:
            sidecar.close()
        self.sidecars = [invalidate(self._disk, self._path, self.sidecars, offset)]
        self.is_resumed = False

    def on_compaction(self, until_offset: int) -> None:
        """Discard all positions if a compaction will replace batches that have positions. Raises `StorageFailed`."""
        if self.sidecars and self.sidecars[0].base_offset < until_offset:
            self.invalidate(self._log.log_end_offset)

    def on_truncation(self) -> None:
        """Adjust to a truncation. If it removed batches with positions, make all invalid. Raises `StorageFailed`."""
        self._forget_work()
        end = self._log.log_end_offset
        if not self.sidecars:
            return
        if not self.is_resumed:
            last = self.sidecars[-1].last()
            found = self.sidecars[-1].base_offset if last is None else last.offset
        if (self.end.offset if self.is_resumed else found) > end:
            self.invalidate(end)

    def next_sidecar(self, number: int) -> Sidecar07 | None:
        """Return the sidecar after `sidecars[number]`, or None. Raises `Damaged07` if a sidecar between both is missing."""
        if number + 1 >= len(self.sidecars):
            return None
        found = self.sidecars[number + 1]
        if found.begin.base_before != self.sidecars[number].base_offset:
            raise Damaged07(found.path, f"the file before it, that of offset {found.begin.base_before}, is missing.")
        return found

    def drop_before(self, offset: int) -> None:
        """Remove the sidecars of segments before `offset`, which are deleted. The caller has synced the deletion.

        The last sidecar is never removed, because it has the highest position that clients have.
        """
        while len(self.sidecars) > 1 and self.sidecars[1].base_offset <= offset and self.sidecars[1].synced:
            try:
                _ = self.sidecars[1].begin  # raises if the header is damaged: the sidecar before it is then needed
                self.sidecars[0].remove()
                self.sidecars[0].remove_kept()
            except Damaged07:
                return
            except StorageFailed as failure:
                log.warning("positions of deleted segments could not be removed: %s; it is retried", failure)
                return
            del self.sidecars[0]

    def close(self) -> None:
        self._forget_work()
        for sidecar in self.sidecars:
            sidecar.close()

    def _forget_work(self) -> None:
        self._work = self._asked = None
        self._pending.clear()
        self._pending_bytes = 0


def positions_of(log: Log, disk: Disk) -> Positions07:
    """Return the positions of a log for clients of Kafka 0.7. The first call creates them."""
    if not isinstance(log.sidecars, Positions07):
        log.sidecars = Positions07(disk, log.path, log)
    return log.sidecars
