"""The truncation of a follower's log to agree with its leader's (KIP-101, KIP-279). It uses epochs and offsets only."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = -1


class EpochEnd(NamedTuple):
    """A leader epoch and its end offset in a log. Either is -1 if unknown."""

    epoch: int
    end_offset: int


class Cut(NamedTuple):
    """The offset at which a log is truncated. Unless `is_final`, the logs can still differ, and the leader is queried again."""

    offset: int
    is_final: bool


def cut(leaders: EpochEnd, own: EpochEnd, log_end_offset: int, high_watermark: int) -> Cut:
    """Return where to truncate the follower's log, from the leader's answer `leaders` about the follower's last epoch.

    `leaders` is the leader's largest epoch up to the follower's last one. `own` is the follower's largest epoch up to
    `leaders.epoch`. If the leader has no epochs, the log is truncated to the high watermark. OffsetForLeaderEpoch 0 answers without
    an epoch, and its end offset then belongs to the follower's last epoch.
    """
    if leaders.end_offset == UNKNOWN:
        return Cut(high_watermark, is_final=True)
    if leaders.epoch == UNKNOWN or own.epoch == UNKNOWN:
        return Cut(min(leaders.end_offset, log_end_offset), is_final=True)
    if own.epoch != leaders.epoch:
        return Cut(min(own.end_offset, log_end_offset), is_final=False)
    return Cut(min(own.end_offset, leaders.end_offset, log_end_offset), is_final=True)
