"""What a leader knows of one follower, from its fetches alone. Knows offsets and times."""

from __future__ import annotations

UNKNOWN = -1
NEVER = -(1 << 62)
REFUSED_MS = 2_000
"""So long a follower is not named again that the controller would not have in sync: its next fetch comes at once."""


class Follower:
    """How far a follower is.

    `log_end_offset` is where it fetched last: it has everything below. `caught_up_ms` is the latest time (monotonic) at which it
    had all that the leader had, `broker_epoch` the one that its fetches tell (KIP-903), or -1. `refused_ms` is when the
    controller refused to have this life of the broker in sync.
    """

    __slots__ = ("broker_epoch", "caught_up_ms", "fetch_end_offset", "fetch_ms", "log_end_offset", "log_start_offset", "refused_ms")

    def __init__(self) -> None:
        self.log_start_offset = UNKNOWN
        self.log_end_offset = UNKNOWN
        self.fetch_end_offset = 0
        self.fetch_ms = NEVER
        self.caught_up_ms = NEVER
        self.broker_epoch = UNKNOWN
        self.refused_ms = NEVER

    def fetched(self, offset: int, log_start_offset: int, end_offset: int, now_ms: int, broker_epoch: int) -> None:
        """Note a fetch from `offset` while the leader's log ended at `end_offset`.

        One that asks for what the leader had at the fetch before was caught up then: with many small appends a follower is
        always a little behind, and still in sync.
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
        """Begin a leader epoch: its end is unknown until it fetches, and one in sync counts as caught up until now."""
        self.fetch_end_offset = end_offset
        self.fetch_ms = self.caught_up_ms = now_ms if is_in_sync else NEVER

    @property
    def was_refused(self) -> bool:
        """Whether the controller has refused to have it in sync since its broker began."""
        return self.refused_ms != NEVER

    def may_be_named(self, now_ms: int) -> bool:
        """Whether the controller may be asked (again) to have it in sync."""
        return now_ms - self.refused_ms >= REFUSED_MS

    def is_caught_up(self, end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Whether it has everything, or had it within the last `lag_time_max_ms`."""
        return self.log_end_offset == end_offset or now_ms - self.caught_up_ms <= lag_time_max_ms
