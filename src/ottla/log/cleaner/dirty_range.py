"""The part of a log that waits for compaction, and whether it is due (KIP-58, KIP-354)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ottla.ports import Now

if TYPE_CHECKING:
    from ottla.log.config import LogConfig
    from ottla.log.log import Log
    from ottla.log.segments.segment import Segment


class Dirtiness(NamedTuple):
    """The range of a log that can be compacted. `is_overdue`: compaction is due at any ratio, because the range is too old."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """Return dirty bytes, divided by all bytes that a compaction would read."""
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)


def dirtiness(log: Log, cleaned_offset: int, now: Now, stable_offset: int | None = None) -> Dirtiness:
    """Return the range that a compaction of `log` would read, if the last one ended at `cleaned_offset`.

    The range excludes the newest segment, segments beyond `stable_offset` (by default the last stable offset), and segments
    younger than `min.compaction.lag.ms`. Raises `Unfinished` if the computation takes more calls.
    """
    stable_offset = log.last_stable_offset if stable_offset is None else stable_offset
    config, segments = log.config, log.segments
    start = cleaned_offset if log.log_start_offset <= cleaned_offset <= log.log_end_offset else log.log_start_offset
    clean_bytes = dirty_bytes = 0
    end, overdue = start, False
    for segment, after in pairwise(segments):
        if after.base_offset <= start:
            clean_bytes += segment.size
            continue
        if after.base_offset > stable_offset or log.max_timestamp(segment) > now.wall_ms - config.min_compaction_lag_ms:
            break
        dirty_bytes += segment.size
        end = after.base_offset
        overdue = overdue or _is_overdue(segment, now, config)
    return Dirtiness(start, end, clean_bytes, dirty_bytes, overdue)


def _is_overdue(segment: Segment, now: Now, config: LogConfig) -> bool:
    """Return whether a segment's first batch is older than `max.compaction.lag.ms` (KIP-354); False without timestamps."""
    return segment.size > 0 and 0 <= segment.first_timestamp < now.wall_ms - config.max_compaction_lag_ms


def is_due(log: Log, found: Dirtiness) -> bool:
    """Return whether the topic's settings require a compaction of the range `found` now."""
    if not log.config.compacts or not found.dirty_bytes:
        return False
    return found.is_overdue or found.ratio > log.config.min_cleanable_dirty_ratio


def roll_if_overdue(log: Log, now: Now) -> None:
    """Seal the newest segment if its first record is older than `max.compaction.lag.ms`. Raises `StorageFailed`."""
    newest = log.segments[-1]
    if log.config.compacts and newest.size and newest.age_ms(now.wall_ms, now.wall_ms) > log.config.max_compaction_lag_ms:
        log.roll()
