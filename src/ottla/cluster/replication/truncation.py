"""Where a follower's log has to be cut so that it agrees with its leader's (KIP-101, KIP-279). Knows epochs and offsets only."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = -1


class EpochEnd(NamedTuple):
    """A leader epoch and where it ends in a log; -1 where that is not known."""

    epoch: int
    end_offset: int


class Cut(NamedTuple):
    """Nothing from `offset` on is kept. Unless it `is_final`, the logs may differ below it, too: the leader is asked again."""

    offset: int
    is_final: bool


def cut(leaders: EpochEnd, own: EpochEnd, log_end_offset: int, high_watermark: int) -> Cut:
    """What is kept, when the leader has told the end of the largest epoch up to the follower's last one.

    `own` is the end of the largest epoch up to the leader's in the follower's log. A leader that knows no epochs at all leaves the
    high watermark to go by; one that tells none (OffsetForLeaderEpoch 0) has the end of the follower's last.
    """
    if leaders.end_offset == UNKNOWN:
        return Cut(high_watermark, is_final=True)
    if leaders.epoch == UNKNOWN or own.epoch == UNKNOWN:
        return Cut(min(leaders.end_offset, log_end_offset), is_final=True)
    if own.epoch != leaders.epoch:
        return Cut(min(own.end_offset, log_end_offset), is_final=False)
    return Cut(min(own.end_offset, leaders.end_offset, log_end_offset), is_final=True)
