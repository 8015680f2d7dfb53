"""A leader's state of one follower, derived only from the follower's fetches. It uses only offsets and times."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = -1
NEVER = -(1 << 62)
REFUSED_MS = 2_000
"""The milliseconds after a refusal by the controller in which a follower is not proposed again, though it fetches all the time."""


@dataclass(slots=True, eq=False)
class Follower:
    """The progress of a follower.

    `log_end_offset` is the offset of its last fetch: the follower has all records below. `caught_up_ms` is the latest monotonic
    time at which it had all records of the leader. `broker_epoch` is the epoch in its last fetch (KIP-903), or -1. `refused_ms` is
    the time at which the controller refused the broker with this epoch as in-sync replica.
    """

    log_start_offset: int = UNKNOWN
    log_end_offset: int = UNKNOWN
    fetch_end_offset: int = 0
    fetch_ms: int = NEVER
    caught_up_ms: int = NEVER
    broker_epoch: int = UNKNOWN
    refused_ms: int = NEVER

    def fetched(self, offset: int, log_start_offset: int, end_offset: int, now_ms: int, broker_epoch: int) -> None:
        """Record a fetch from `offset` while the leader's log ended at `end_offset`.

        If `offset` is where the log ended at the previous fetch, the follower was caught up at the time of that fetch. By this
        rule, many small appends do not make a follower fall out of sync.
        """
        if offset >= end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.fetch_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = offset
        self.fetch_end_offset = max(self.fetch_end_offset, end_offset)
        self.fetch_ms = now_ms
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            self.refused_ms = NEVER

    def begin_epoch(self, end_offset: int, now_ms: int, *, is_in_sync: bool) -> None:
        """Begin a leader epoch. A follower in sync counts as caught up until now, any other one as never caught up."""
        self.fetch_end_offset = end_offset
        self.fetch_ms = self.caught_up_ms = now_ms if is_in_sync else NEVER

    @property
    def was_refused(self) -> bool:
        """Return whether the controller has refused the follower as in-sync replica in its present broker epoch."""
        return self.refused_ms != NEVER

    def may_be_named(self, now_ms: int) -> bool:
        """Return whether the leader can propose the follower as in-sync replica: `REFUSED_MS` have passed since any refusal."""
        return now_ms - self.refused_ms >= REFUSED_MS

    def is_caught_up(self, end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Return whether the follower has all records, or had all within the last `lag_time_max_ms`."""
        return self.log_end_offset == end_offset or now_ms - self.caught_up_ms <= lag_time_max_ms
