"""The truncation of a follower's log to agree with its leader's (KIP-101, KIP-279). It uses epochs and offsets only."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = -1


class EpochEnd(NamedTuple):
    """A leader epoch and its end offset in a log; -1 if unknown."""

    epoch: int
    end_offset: int


class Cut(NamedTuple):
    """The offset at which a log is truncated. Unless it `is_final`, logs may differ below it, and the leader is queried again."""

    offset: int
    is_final: bool


def cut(leaders: EpochEnd, own: EpochEnd, log_end_offset: int, high_watermark: int) -> Cut:
    """Return the truncation, from the leader's end of the largest epoch up to the follower's last one.

    `own` is the end of the largest epoch up to the leader's in the follower's log. If the leader has no epochs at all, the high
    watermark is used. If its answer has no epoch (OffsetForLeaderEpoch 0), its end offset is that of the follower's last epoch.
    """
    if leaders.end_offset == UNKNOWN:
        return Cut(high_watermark, is_final=True)
    if leaders.epoch == UNKNOWN or own.epoch == UNKNOWN:
        return Cut(min(leaders.end_offset, log_end_offset), is_final=True)
    if own.epoch != leaders.epoch:
        return Cut(min(own.end_offset, log_end_offset), is_final=False)
    return Cut(min(own.end_offset, leaders.end_offset, log_end_offset), is_final=True)
