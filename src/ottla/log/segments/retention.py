"""The retention of segments: which may be deleted, and their removal. The log decides when."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.names import DELETED, INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX
from ottla.log.segments.segment import NO_TIMESTAMP, Segment
from ottla.ports import Disk, File, Now, StorageFailed

log = logging.getLogger("ottla.log")


REPLACED = 0
"""The `until_offset` of a segment that another one replaced."""


class RemovedSegment(NamedTuple):
    """A segment that was removed from the log, but stays on disk for readers with slices of it.

    The index of aborted transactions at `aborted_path` stays as long, because a power cut can bring the segment back. Both stay
    until the checkpointed start of the log reaches `until_offset`, because the next start would treat the missing segment as
    damage.
    """

    deadline_mono_ms: int
    path: str
    file: File | None
    aborted_path: str = ""
    until_offset: int = REPLACED


def count_expired(
    segments: Sequence[Segment],
    config: LogConfig,
    now: Now,
    disk: Disk,
    log_start_offset: int,
    until_offset: int,
    log_end_offset: int,
) -> int:
    """Return how many of the oldest segments are before the log's start, or exceed the settings' limits of age or size.

    An empty newest segment does not count, nor do segments that end after `until_offset`.
    """
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
    if newest < 0 or (segment.unproven is not None and segment.unproven.damage):  # its timestamps may be damaged
        newest = disk.modified_ms(segment.path(LOG))
    return now.wall_ms - newest > config.retention_ms


def mark_removed(disk: Disk, segment: Segment, deadline_mono_ms: int, until_offset: int = REPLACED) -> RemovedSegment:
    """Rename a segment's file to mark it as deleted, durable after a sync of its directory. It is readable until the deadline.

    `until_offset` is the next segment's base offset, or `REPLACED` if another segment gets the name. If an index cannot be removed,
    the next start removes it. Raises `StorageFailed` with nothing changed.
    """
    path, is_replaced = segment.path(LOG), until_offset == REPLACED
    if not disk.exists(path):
        return RemovedSegment(deadline_mono_ms, "", None)
    file = segment.file
    target, number = path + DELETED, 0
    while disk.exists(target):  # a segment of this name was already replaced within the delay
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
        with suppress(StorageFailed):
            if disk.exists(segment.path(suffix)):
                remove(segment.path(suffix))
    return RemovedSegment(deadline_mono_ms, target, file, "" if is_replaced else segment.path(TRANSACTION_INDEX), until_offset)


def remove_expired(disk: Disk, removed: list[RemovedSegment], now: Now | None, noted_start: int) -> list[RemovedSegment]:
    """Remove the files of segments past their deadline (of all if `now` is None) and before `noted_start`. Return the rest."""
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
