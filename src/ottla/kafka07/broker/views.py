"""The views of partitions for clients of Kafka 0.7: reads of messages by position, and appends."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.broker.long_checks import LARGE_BYTES, Claim, LongChecks, Memory
from ottla.broker.partitions.partition import LEADER, Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Scheduler
from ottla.cluster.replicas.leader import LeaderState
from ottla.kafka07.log.positions import Positions07, Progress07, positions_of
from ottla.kafka07.log.reader import OpenedBatches07, Reader07
from ottla.kafka07.log.sidecar import Damaged07
from ottla.kafka07.records.produced_messages import Run07
from ottla.kafka07.records.renderer import Kind07
from ottla.kafka07.wire import NONE, OFFSET_OUT_OF_RANGE, UNKNOWN
from ottla.ports import Buffer, Disk, Done, Now, Steps, StorageFailed
from ottla.records.batches.header import BadBatch, read_header
from ottla.records.compression.codecs import DEFAULT_LIMIT_BYTES, CodecFailed
from ottla.wire import errors

log = logging.getLogger("ottla.broker")

OPENED_BYTES: Final = 64 << 20
"""The most bytes of batches that stay open between fetches that continue within them."""

SYNCS: Final = 3
"""The number of syncs without a new shown position after which syncing has failed. The first can predate the request."""

LOOKED_OVER: Final = 64
"""The number of views created between two searches for views of removed partitions."""


class Fetched07(NamedTuple):
    """The result of a fetch: the bytes of messages, and 0.7's error code 0, 1 (offset out of range) or -1 (unknown)."""

    error_code: int
    data: Buffer


class View07:
    """One partition as clients of 0.7 see it, with byte positions for offsets. Only positions on stable storage are shown.

    `plain` is the form in which clients get batches of newer producers. `failure` is the reason why the view is unusable, or "".
    """

    def __init__(self, partition: Partition, context: Views07) -> None:
        self.partition = partition
        self.log = partition.log
        self.plain = Kind07.PLAIN1
        self.failure = ""
        self._context = context
        self._positions: Positions07 = positions_of(partition.log, context.disk)
        self._reader = Reader07(self._positions, partition.log, context.disk, context.opened)

    def fetch(self, position: int, max_bytes: int) -> Steps[Fetched07]:
        """Read up to `max_bytes` from a position on, within one segment.

        Before the read, compute and sync the positions that it needs.
        """
        try:
            yield from self._show(position + max_bytes)
            found = yield from self._read(position, max_bytes)
        except (StorageFailed, CodecFailed, BadBatch) as failure:
            if self._is_deleted(position):
                return Fetched07(OFFSET_OUT_OF_RANGE, b"")
            self._note_failure(failure)
            return Fetched07(UNKNOWN, b"")
        return Fetched07(OFFSET_OUT_OF_RANGE, b"") if found is None else Fetched07(NONE, found)

    def _is_deleted(self, position: int) -> bool:
        """Return whether a position is before the first one that exists, which a deletion can have removed during the read."""
        sidecars = self._positions.sidecars
        try:
            return self.failure == "" and bool(sidecars) and position < sidecars[0].begin.position
        except StorageFailed:
            return False

    def offsets(self, time_ms: int, most: int) -> Steps[list[int]]:
        """Return the first positions of segments last written at `time_ms` or before, the newest first, at most `most`.

        With time -1 the list is of all segments and begins with the log's end; with -2 it is only the log's start. The list is
        empty if the disk fails.
        """
        try:
            yield from self._show(None)
            return (yield from self._reader.elements(time_ms, most, self._context.now().wall_ms))
        except (StorageFailed, CodecFailed, BadBatch) as failure:
            self._note_failure(failure)
            return []

    def append(self, runs: Sequence[Run07], now: Now) -> int:
        """Append runs of messages from a client of 0.7, up to the first that fails. Return 0, or today's error code for it."""
        positions, traffic = self._positions, self.partition.traffic
        for run in runs:
            appended = self.partition.append(run.batch, (run.header,), now)
            if appended.error_code:
                traffic.failed_produces += 1
                return appended.error_code
            traffic.produces += 1
            traffic.messages_in += appended.last_offset + 1 - appended.base_offset
            traffic.bytes_in += len(run.batch)
            positions.note(read_header(run.batch), run.kind, run.size, run.kept)
        if positions.wants_sync:
            self.partition.want_sync()
        if positions.is_behind:
            self._context.scheduler.begin(("positions", self.partition), self._catch_up())
        return errors.NONE

    def _read(self, position: int, max_bytes: int) -> Steps[Buffer | None]:
        try:
            return (yield from self._read_within(position, max_bytes, LARGE_BYTES))
        except CodecFailed as failure:
            if not failure.over_limit:
                raise
        large = self._read_within(position, max_bytes, DEFAULT_LIMIT_BYTES)
        return (yield from self._context.memory.hold_during(DEFAULT_LIMIT_BYTES, large))

    def _read_within(self, position: int, max_bytes: int, limit_bytes: int) -> Steps[Buffer | None]:
        return (yield from self._reader.read(position, max_bytes, limit_bytes))

    # Showing

    def _show(self, position: int | None) -> Steps[None]:
        """Make positions below the high watermark visible to clients: at least up to `position`, or all of them if it is None."""
        positions, partition = self._positions, self.partition
        positions.resume()
        until_offset = partition.high_watermark
        while positions.shown.offset < until_offset:
            is_enough = position is not None and position <= positions.shown.position
            if is_enough and positions.shown.offset >= partition.log.log_start_offset:
                return
            yield from self._advance(until_offset)

    def _advance(self, until_offset: int) -> Steps[None]:
        """Compute the positions of the next batches of the log.

        If enough are computed, sync them instead, which makes them visible.
        """
        positions = self._positions
        progress = Progress07.SYNC
        if positions.end.offset < until_offset:
            progress = positions.advance(until_offset, self.plain, LARGE_BYTES)
        if progress is Progress07.ROOM:
            yield from self._context.memory.hold_during(DEFAULT_LIMIT_BYTES, self._pass_large(until_offset))
        elif progress is Progress07.MORE:
            yield None
        else:
            yield from self._sync()
        self._must_be_online()

    def _pass_large(self, until_offset: int) -> Steps[None]:
        """Compute the positions after one batch that takes much memory to decompress."""
        begin = self._positions.end
        while (
            self._positions.end == begin
            and self._positions.advance(until_offset, self.plain, DEFAULT_LIMIT_BYTES) is Progress07.MORE
        ):
            yield None
            self._must_be_online()

    def _sync(self) -> Steps[None]:
        """Sync the computed positions, which makes them visible to clients. Raises `StorageFailed`."""
        before = self._positions.shown
        for _ in range(SYNCS):
            yield self._when_synced
            self._must_be_online()
            if self._positions.shown != before or self._positions.shown == self._positions.end:
                return
        raise StorageFailed(str(self.partition), "positions for clients of Kafka 0.7 could not be written.")

    def _when_synced(self, done: Done) -> None:
        self._must_be_online()
        self.partition.after_sync(lambda error_code: done(None))

    def _must_be_online(self) -> None:
        """Raise `StorageFailed` unless the partition is online with the same log as this view."""
        if self.partition.offline is not None or self.partition.log is not self.log:
            raise StorageFailed(str(self.partition), self.partition.offline or "it was opened anew.")

    def _catch_up(self) -> Steps[None]:
        """Compute and show the positions of all batches. Call this after appends to a log that has batches without positions."""
        try:
            yield from self._show(None)
        except (StorageFailed, CodecFailed, BadBatch) as failure:
            self._note_failure(failure)

    def _note_failure(self, failure: Exception) -> None:
        if isinstance(failure, Damaged07):
            self.failure = str(failure)
        elif self.partition.offline is None:
            log.error("%s cannot be read for clients of Kafka 0.7: %s", self.partition, failure, extra={"cause": "positions"})


class Views07:
    """The views of all partitions, created at the first request for each."""

    def __init__(self, partitions: Partitions, scheduler: Scheduler, checks: LongChecks, disk: Disk) -> None:
        self.disk = disk
        self.scheduler = scheduler
        self.now = scheduler.now
        self.opened = OpenedBatches07(OPENED_BYTES)
        self.memory = Memory(DEFAULT_LIMIT_BYTES, self._soon)
        """The memory for one large batch at a time. Requests that claim it can already use other memory."""
        self._partitions = partitions
        self._views: dict[Partition, View07] = {}
        self._looked_over = 0

    def view(self, partition: Partition, plain: Kind07) -> View07 | str:
        """Return a partition's view, or the reason why there is none. `plain` is the form of today's batches for the client."""
        refusal = _refusal(partition)
        if refusal:
            return refusal
        found = self._views.get(partition)
        if found is None or found.log is not partition.log:
            self._forget_removed()
            found = self._views[partition] = View07(partition, self)
        if found.failure:
            return found.failure
        found.plain = plain
        return found

    def _forget_removed(self) -> None:
        if len(self._views) - self._looked_over >= LOOKED_OVER:
            self._views = {each: view for each, view in self._views.items() if self._partitions.get(each.topic, each.index) is each}
            self._looked_over = len(self._views)

    def _soon(self, claim: Claim) -> None:
        self.scheduler.at(claim, self.now().mono_ms, lambda _: claim.notify())


def _refusal(partition: Partition) -> str:
    """Return the reason why a partition has no stable positions; "" if it has."""
    if partition.offline is not None:
        return f"it is offline: {partition.offline}"
    if partition.role is not LEADER:
        return "another broker leads it"
    if partition.config.compacts:
        return "compaction would change the positions of its messages: set cleanup.policy=delete, or use newer clients"
    if isinstance(partition.replicas, LeaderState) and len(partition.replicas.replicas) > 1:
        return "it has more than one replica, and positions differ by broker: reduce it to one, or use newer clients"
    return ""
