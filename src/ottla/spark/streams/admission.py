"""The size of a micro-batch, and the condition to begin one. Pure.

Offsets count as records, even those without a record after compaction or transactions.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.types import TopicPartition
from ottla.spark.options import ReadOptions
from ottla.spark.read_plan import PartitionOffsets

Offsets = Mapping[TopicPartition, int]


def is_limited(options: ReadOptions) -> bool:
    """Return whether a micro-batch has a limit."""
    limits = (options.max_offsets_per_trigger, options.max_bytes_per_trigger, options.max_offsets_per_trigger_per_partition)
    return any(limit is not None for limit in limits)


def count_offsets(start: Offsets, end: Offsets) -> dict[TopicPartition, int]:
    """Return the number of offsets to read in each partition, without partitions that have none."""
    return {where: end[where] - start[where] for where in end if end[where] > start[where]}


def enough(count: int, waited_ms: float, options: ReadOptions) -> bool:
    """Return whether `count` records are enough for a micro-batch, `waited_ms` after the last one began."""
    least = options.min_offsets_per_trigger
    return least is None or count >= least or count == 0 or waited_ms >= options.max_trigger_delay_ms


def admit(start: Offsets, end: Offsets, options: ReadOptions, record_bytes: Mapping[TopicPartition, float]) -> PartitionOffsets:
    """Return the end of a micro-batch within all limits. `record_bytes` is the mean size of a record in each partition.

    Every partition with records contributes at least one, so that none starves.
    """
    ends = dict(end)
    if (most := options.max_offsets_per_trigger_per_partition) is not None:
        ends = {where: min(offset, start[where] + most) for where, offset in ends.items()}
    if (most := options.max_bytes_per_trigger) is not None:
        ends = within_bytes(start, ends, most, record_bytes)
    if (most := options.max_offsets_per_trigger) is not None:
        ends = limit_rows(start, ends, most)
    return ends


def within_bytes(start: Offsets, end: Offsets, max_bytes: int, record_bytes: Mapping[TopicPartition, float]) -> PartitionOffsets:
    """Return the end of a micro-batch of about `max_bytes`. Each partition contributes in proportion to its records.

    If the record size of a partition is unknown, the mean of the other partitions is used.
    """
    sizes = count_offsets(start, end)
    known = [record_bytes[where] for where in sizes if where in record_bytes]
    mean = sum(known) / len(known) if known else 0.0
    total = sum(count * record_bytes.get(where, mean) for where, count in sizes.items())
    if total <= max_bytes:
        return dict(end)
    share = max_bytes / total
    return {where: start[where] + max(1, int(sizes[where] * share)) if where in sizes else offset for where, offset in end.items()}


def limit_rows(start: Offsets, end: Offsets, max_rows: int) -> PartitionOffsets:
    """Return the end of a micro-batch of `max_rows` records. Each partition contributes in proportion to its records.

    Each partition with records contributes at least one. Only for this reason can the sum exceed `max_rows`.
    """
    sizes = count_offsets(start, end)
    total = sum(sizes.values())
    if total <= max_rows:
        return dict(end)
    rest = max(0, max_rows - len(sizes))
    shares = {where: 1 + (size - 1) * rest // max(1, total - len(sizes)) for where, size in sizes.items()}
    spare = max(max_rows, len(sizes)) - sum(shares.values())
    for where in sorted(sizes, key=lambda where: shares[where] - sizes[where])[:spare]:
        shares[where] += 1
    return {where: start[where] + shares[where] if where in sizes else offset for where, offset in end.items()}
