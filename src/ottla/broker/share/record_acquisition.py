"""The acquisition of records of one share partition for a member: batches are found in the log, acquired, and cut to size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.broker.partitions.partition import Partition
from ottla.broker.share.batch_bounds import BatchBounds, Span
from ottla.broker.share.group_configs import ShareGroupConfig
from ottla.broker.share.led_share_partition import LedSharePartition
from ottla.broker.share.share_partitions import SharePartitions
from ottla.log.errors import Damaged
from ottla.ports import FileSlice, Now, StorageFailed
from ottla.share.outcome import AcquiredRange, AcquireRecords
from ottla.wire.errors import CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR

MOST_TRIES: Final = 4
"""The most reads for one acquisition. A further read follows one whose records were all archived, as of aborted transactions."""


class AcquireLimits(NamedTuple):
    """The limits of one acquisition. With `min_one_batch`, the first batch is read whatever its size."""

    max_bytes: int
    max_records: int
    batch_size: int
    is_record_limited: bool
    min_one_batch: bool


class Acquired(NamedTuple):
    """The batches that contain acquired records, and the ranges of these records."""

    records: FileSlice
    ranges: Sequence[AcquiredRange]


UNCHECKED: Final = Acquired(None, ())  # type: ignore[arg-type]  # it is never sent
"""The result while the broker has not checked these records since its start. Another read continues the check."""


def available_bytes(shares: SharePartitions, led: LedSharePartition, most: int, now: Now) -> int:
    """Return up to how many of `most` bytes a member can fetch from a share partition; 0 also if they cannot be read."""
    config = shares.prepare(led, now)
    try:
        found = _find(led, led.machine.next_fetch_offset, _readable_end(led, config), most, min_one_batch=True)
    except StorageFailed:
        return most  # the fetch then returns the error
    return 0 if found is None else found.size


def acquire(
    shares: SharePartitions, led: LedSharePartition, member_id: str, limits: AcquireLimits, now: Now
) -> Acquired | int | None:
    """Acquire records for a member. Return an error code if the log cannot be read, and None if nothing can be acquired."""
    config = shares.prepare(led, now)
    machine = led.machine
    end = _readable_end(led, config)
    for _ in range(MOST_TRIES):
        offset = machine.next_fetch_offset
        try:
            found = _find(led, offset, end, limits.max_bytes, min_one_batch=limits.min_one_batch)
            if found is None:
                return None
            if not found.size:
                return UNCHECKED
            bounds = BatchBounds(found)
            bounds.read(max(offset, machine.end_offset + 1 if offset <= machine.end_offset else offset) + limits.max_records)
            has_aborted = bounds.transactional and config.reads_committed
            aborted = _find_aborted(led.partition, bounds, offset) if has_aborted else ()
        except StorageFailed as failure:
            led.partition.traffic.failed_fetches += 1
            return CORRUPT_MESSAGE if isinstance(failure, Damaged) else KAFKA_STORAGE_ERROR
        asked = AcquireRecords(
            member_id, offset, bounds.spans, limits.max_records, limits.batch_size, limits.is_record_limited, aborted
        )
        ranges = shares.acquire(led, asked, now)
        if ranges:
            following = bounds.after(ranges[-1].last_offset)
            if following is not None:
                led.partition.log.expect(following[0], found, following[1])
            return Acquired(bounds.cut(ranges[0].first_offset, ranges[-1].last_offset), ranges)
        if machine.next_fetch_offset <= offset:
            return None
    return None


def _readable_end(led: LedSharePartition, config: ShareGroupConfig) -> int:
    """Return the offset after the last record that the group may read."""
    partition = led.partition
    return partition.last_stable_offset if config.reads_committed else partition.high_watermark


def _find(led: LedSharePartition, offset: int, end: int, max_bytes: int, *, min_one_batch: bool) -> FileSlice | None:
    """Return the batches from the next fetch offset, `offset`, to `end`. Raises `StorageFailed`."""
    if offset >= end or not led.machine.can_acquire:
        return None
    return led.partition.log.read(offset, max_bytes, until_offset=end, min_one_batch=min_one_batch)


def _find_aborted(partition: Partition, bounds: BatchBounds, offset: int) -> list[Span]:
    """Return the batches of aborted transactions. Raises `StorageFailed`."""
    found = dict[int, list[Span]]()
    for entry in partition.log.aborted_transactions(offset, bounds.spans[-1][1] + 1):
        found.setdefault(entry.producer_id, []).append((entry.first_offset, entry.last_offset))
    return [
        span
        for producer_id, span in bounds.transactional
        if any(first <= span[0] <= last for first, last in found.get(producer_id, ()))
    ]
