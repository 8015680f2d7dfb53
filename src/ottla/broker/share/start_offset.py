"""The start offset of a share partition that its group has never read: by `share.auto.offset.reset` (KIP-932, KIP-1106)."""

from __future__ import annotations

from ottla.broker.long_checks import LongChecks
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.timestamp_search import find_timestamp
from ottla.broker.share.group_configs import EARLIEST, ShareGroupConfig
from ottla.cluster.replicas.leader import LeaderState
from ottla.ports import Now, Steps
from ottla.wire.errors import NONE, OFFSET_NOT_AVAILABLE


def find_start_offset(partition: Partition, config: ShareGroupConfig, checks: LongChecks, now: Now) -> Steps[tuple[int, int]]:
    """Return (error code, offset) of the first record that the group reads. Raises `StorageFailed`.

    If no record is as new as by_duration demands, the group reads from the high watermark on.
    """
    if config.auto_offset_reset == EARLIEST:
        return NONE, partition.log.log_start_offset
    leader = partition.replicas
    if isinstance(leader, LeaderState) and partition.high_watermark < leader.start_offset:
        return OFFSET_NOT_AVAILABLE, -1  # a new leader does not know the high watermark yet (KIP-207)
    duration_ms = config.reset_before_ms
    if duration_ms is not None:
        found = yield from find_timestamp(partition, max(0, now.wall_ms - duration_ms), checks)
        if found is not None and found[1] < partition.high_watermark:
            return NONE, found[1]
    return NONE, partition.high_watermark
