"""Which segments may be deleted, and how. Knows segments and settings; the log decides when."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.names import DELETED, INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX
from ottla.log.segment import NO_TIMESTAMP, Segment
from ottla.ports import Disk, File, Now, StorageFailed

log = logging.getLogger("ottla.log")


REPLACED = 0
"""The offset until which a segment reached that another one took the place of."""


class RemovedSegment(NamedTuple):
    """A segment that was deleted, and stays on disk for readers that hold slices of it.

    The index of aborted transactions at `aborted_path` stays with it: until then a power cut may bring the segment back. It stays,
    too, until it is noted that the log begins at `until_offset` or later: to the next start a missing segment is damage, otherwise.
    """

    deadline_mono_ms: int
    path: str
    file: File | None
    aborted_path: str = ""
    until_offset: int = REPLACED


def expired(
    segments: Sequence[Segment],
    config: LogConfig,
    now: Now,
    disk: Disk,
    log_start_offset: int,
    until_offset: int,
    log_end_offset: int,
) -> int:
    """Count the segments, oldest first, that are wholly before the log's start, too old or too much. An empty newest one stays."""
    surplus = sum(segment.size for segment in segments) - config.retention_bytes if config.retention_bytes >= 0 else 0
    count = 0
    for number, segment in enumerate(segments):
        end = segments[number + 1].base_offset if number + 1 < len(segments) else log_end_offset
        if (not segment.size and number + 1 == len(segments)) or end > until_offset:
            break
        before_start = end <= log_start_offset
        too_much = config.deletes and surplus > 0 and surplus >= segment.size
        if not before_start and not too_much and not (config.deletes and _is_too_old(segment, config, now, disk)):
            break
        surplus -= segment.size
        count += 1
    return count


def _is_too_old(segment: Segment, config: LogConfig, now: Now, disk: Disk) -> bool:
    if config.retention_ms < 0:
        return False
    newest = segment.max_timestamp if segment.size else NO_TIMESTAMP
    if newest < 0 or (segment.unproven is not None and segment.unproven.damage):  # what batches say may be a part of the damage
        newest = disk.modified_ms(segment.path(LOG))
    return now.wall_ms - newest > config.retention_ms


def mark_removed(disk: Disk, segment: Segment, deadline_mono_ms: int, until_offset: int = REPLACED) -> RemovedSegment:
    """Take a segment out of the log at once, durably once its directory is synced; it stays readable until the deadline.

    `until_offset` is where the log goes on, or `REPLACED` if another segment gets its name. Raises `StorageFailed`, and nothing has
    changed then. The next start removes an index that stays behind.
    """
    path, is_replaced = segment.path(LOG), until_offset == REPLACED
    if not disk.exists(path):
        return RemovedSegment(deadline_mono_ms, "", None)
    file = segment.file
    target, number = path + DELETED, 0
    while disk.exists(target):  # compacted twice within the delay
        number += 1
        target = f"{path}.{number}{DELETED}"
    try:
        disk.rename(path, target, sync=False)
    except StorageFailed:
        if disk.exists(path):
            raise
    segment.index.retire()
    segment.times.retire()
    segment.transactions.close()
    remove = disk.remove if is_replaced else disk.remove_soon
    for suffix in (INDEX, TIME_INDEX, TRANSACTION_INDEX) if is_replaced else (INDEX, TIME_INDEX):
        if disk.exists(segment.path(suffix)):
            with suppress(StorageFailed):
                remove(segment.path(suffix))
    return RemovedSegment(deadline_mono_ms, target, file, "" if is_replaced else segment.path(TRANSACTION_INDEX), until_offset)


def remove_expired(disk: Disk, removed: list[RemovedSegment], now: Now | None, noted_start: int) -> list[RemovedSegment]:
    """Remove those past their deadline (all, if `now` is None) and before the noted start of the log; returns the others."""
    kept = []
    for one in removed:
        if one.until_offset > noted_start or (now is not None and one.deadline_mono_ms > now.mono_ms):
            kept.append(one)
            continue
        try:
            if one.file is not None:
                one.file.close()
            if one.path:
                disk.remove_soon(one.path)
            if one.aborted_path and disk.exists(one.aborted_path):
                disk.remove_soon(one.aborted_path)
        except StorageFailed as failure:
            log.warning("a deleted segment could not be removed: %s; the next start removes it", failure)
    return kept
