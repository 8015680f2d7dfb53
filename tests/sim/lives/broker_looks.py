"""Looks into a simulated broker: what must be true of its housekeeping, and of its memory, at any time. Reads, and changes nothing.

retention applies    no segment stays that retention has wanted gone for longer than two looks for old segments take
compaction applies   no log waits for its compaction for hours
checkpoints are new  what was on stable storage, and where partitions began and ended, an interval ago is noted by now
flush.ms is kept     what was written longer ago is on stable storage
memory is bounded    a broker that lived for weeks holds no more than one that was just started on the same disk
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any, NamedTuple

from ottla.broker.broker import BrokerMachine
from ottla.broker.partitions.partition import Partition
from ottla.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from ottla.log.cleaner.dirty_range import dirtiness, is_due
from ottla.log.config import FOREVER
from ottla.log.errors import finish
from ottla.ports import Now
from ottla.sim.disk import SimDisk
from tests.sim.seeds import Violation

SLOW_MS = 10_000
"""How long syncs and background work may take beyond the intervals."""

COMPACTION_MS = 3 * 3_600_000


class PartitionSample(NamedTuple):
    """A partition at one time: how far its own files were synced, its start and end, and up to where it waited for compaction."""

    synced: int
    start: int
    end: int
    due_for_compaction: int


class PartitionSamples(NamedTuple):
    """All partitions at one time."""

    mono_ms: int
    partitions: dict[Partition, PartitionSample]


class HousekeepingWatch:
    """Compares present and past states. Call `disturb` when something happens that housekeeping must recover from."""

    def __init__(self, broker: BrokerMachine, disk: SimDisk) -> None:
        self._broker = broker
        self._disk = disk
        self._past: deque[PartitionSamples] = deque(maxlen=64)
        self._calm_since_ms = 0

    def disturb(self, now: Now) -> None:
        """Start all time limits anew."""
        self._past.clear()
        self._calm_since_ms = now.mono_ms

    def is_calm(self, now: Now, ms: int) -> bool:
        return now.mono_ms - self._calm_since_ms > ms

    def look(self, now: Now) -> None:
        """Check everything. Raises `Violation`."""
        for partition in self._broker.partitions:
            if self._was_as_long(partition, now):
                self._check_retention(partition, now)
            self._check_times(partition, now)
        self._check_checkpoints(now)
        partitions = {partition: self._sample(partition, now) for partition in self._broker.partitions}
        self._past.append(PartitionSamples(now.mono_ms, partitions))

    @property
    def _retention_ms(self) -> int:
        interval: int = self._broker.settings.log_retention_check_interval_ms
        return 2 * interval + SLOW_MS

    def _sample(self, partition: Partition, now: Now) -> PartitionSample:
        log = partition.log
        found = finish(lambda: dirtiness(log, self._broker.cleaner.cleaned_offset(partition), now))
        return PartitionSample(
            log.synced_offset, log.log_start_offset, log.log_end_offset, found.end_offset if is_due(log, found) else 0
        )

    def _check_retention(self, partition: Partition, now: Now) -> None:
        """Check that the oldest segment may stay."""
        log, config = partition.log, partition.config
        oldest = log.segments[0]
        if not config.deletes or not oldest.size:
            return
        newest = finish(lambda: oldest.max_timestamp)
        age_ms = now.wall_ms - newest
        if newest >= 0 and 0 <= config.retention_ms < age_ms - self._retention_ms:
            raise Violation(f"retention applies: {partition} has a segment of {age_ms} ms, beyond {config.retention_ms}")
        size = log.size_bytes - oldest.size
        if 0 <= config.retention_bytes <= size:
            raise Violation(f"retention applies: {partition} has {log.size_bytes} bytes, beyond {config.retention_bytes}")

    def _was_as_long(self, partition: Partition, now: Now) -> bool:
        """Whether nothing was written for so long that retention must have seen everything."""
        before = self._before(now, self._retention_ms, partition)
        return before is not None and before.end == partition.log.log_end_offset

    def _check_times(self, partition: Partition, now: Now) -> None:
        log, config = partition.log, partition.config
        if config.flush_ms < FOREVER:
            written = self._before(now, config.flush_ms + SLOW_MS, partition)
            if written is not None and log.durable_offset < written.end:
                raise Violation(
                    f"flush.ms is kept: {partition} is durable up to {log.durable_offset}, and ended at {written.end} before"
                )
        waiting = self._before(now, COMPACTION_MS, partition)
        if waiting is not None and waiting.due_for_compaction:
            cleaned = self._broker.cleaner.cleaned_offset(partition)
            if cleaned < waiting.due_for_compaction and self._sample(partition, now).due_for_compaction:
                raise Violation(
                    f"compaction applies: {partition} is compacted up to {cleaned}, and waited up to {waiting.due_for_compaction}"
                )

    def _check_checkpoints(self, now: Now) -> None:
        interval: int = self._broker.settings.log_flush_offset_checkpoint_interval_ms
        noted = [read_offsets(self._disk, name) for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)]
        for partition in self._broker.partitions:
            then = self._before(now, 2 * interval + SLOW_MS, partition)
            if then is None:
                continue
            key = partition.topic, partition.index
            point, start, end = (each.get(key, 0) for each in noted)
            begins_inside = then.start > partition.log.segments[0].base_offset
            if point < then.synced or end < then.end or (begins_inside and start < then.start):
                raise Violation(
                    f"checkpoints are new: of {partition} is noted {(point, start, end)}, and it had {then[:3]} an interval ago"
                )

    def _before(self, now: Now, ms: int, partition: Partition) -> PartitionSample | None:
        """Return a partition's state of that long ago, or earlier."""
        for look in reversed(self._past):
            if now.mono_ms - look.mono_ms > ms:
                return look.partitions.get(partition)
        return None


def weight(broker: BrokerMachine) -> int:
    """Count the items in a broker's own tables: all it can reach except its disk, its registry and anything that is not data."""
    seen: set[int] = set()
    left: list[Any] = [broker]
    count = 0
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            count += 1
            left += _parts(one, broker)
    return count


def _parts(one: Any, broker: BrokerMachine) -> Iterator[Any]:
    if one in (broker.disk, broker.shared, broker.clock, broker.random_bytes, broker.settings):
        return
    if isinstance(one, dict):
        yield from one.keys()
        yield from one.values()
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from one
    elif isinstance(one, FunctionType):
        yield from one.__closure__ or ()
    elif isinstance(one, CellType):
        yield one.cell_contents
    elif isinstance(one, MethodType):
        yield one.__self__
    elif isinstance(one, partial):
        yield from one.args
    elif not isinstance(one, type) and type(one).__module__.startswith("ottla.") and not isinstance(one, SimDisk):
        yield from getattr(one, "__dict__", {}).values()
        yield from (
            getattr(one, name) for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(one, name)
        )
