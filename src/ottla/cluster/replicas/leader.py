"""The leader of a partition: in-sync replicas, high watermark, and requests to change the in-sync set (KIP-497).

The module uses offsets, times and broker ids, but no logs, requests or registry.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from ottla.cluster.replicas.partition_state import Assigned, IsrChange

Told = Callable[[int], None]

UNKNOWN = -1
NEVER = -(1 << 62)
REFUSED_MS = 2_000
"""The milliseconds after a refusal by the controller in which a follower is not proposed again, though it fetches all the time."""


@dataclass(slots=True, eq=False)
class Follower:
    """The progress of one follower, as the leader of the partition records it.

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

    def record_fetch(self, offset: int, log_start_offset: int, end_offset: int, now_ms: int, broker_epoch: int) -> None:
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


@dataclass(slots=True, eq=False)
class LeaderTerms:
    """The values shared by all partitions that this broker leads.

    These are the live brokers, `lag_time_max_ms` (replica.lag.time.max.ms), and this broker's own epoch (KIP-903).
    """

    live_brokers: Container[int]
    lag_time_max_ms: int
    broker_epoch: int = UNKNOWN


class LeaderState:
    """The state of a partition that this broker leads, over successive leader epochs.

    `isr` is the in-sync set by the controller's last decision. `pending` is the requested change without an answer, or None.
    `maximal_isr` also has the replicas that `pending` would add, and the high watermark waits for all of them.
    `start_offset` is the first offset of this leader epoch, `end_offset` the last known end of the log.
    """

    __slots__ = (
        "_terms",
        "adding_replicas",
        "controller_epoch",
        "end_offset",
        "followers",
        "isr",
        "leader_epoch",
        "maximal_isr",
        "node_id",
        "partition_epoch",
        "pending",
        "removing_replicas",
        "replicas",
        "start_offset",
        "waiting",
    )

    def __init__(self, node_id: int, terms: LeaderTerms, assigned: Assigned, end_offset: int, now_ms: int) -> None:
        """Create the state of a leader. `end_offset` is the end of the log when this broker becomes leader."""
        self.node_id = node_id
        self._terms = terms
        self.followers: dict[int, Follower] = {}
        self.waiting: list[tuple[int, Told]] = []
        self.leader_epoch = UNKNOWN
        self.start_offset = self.end_offset = end_offset
        self.lead(assigned, end_offset, now_ms)

    def lead(self, assigned: Assigned, end_offset: int, now_ms: int) -> None:
        """Apply the controller's decision: leadership, a new leader epoch, or other replicas in the same epoch."""
        is_new = assigned.leader_epoch > self.leader_epoch
        # Other brokers can have led between two epochs of this leader. Then followers can have truncated what they had fetched.
        known = {} if is_new else self.followers
        self.followers = {one: known.get(one) or Follower() for one in assigned.replicas if one != self.node_id}
        if is_new:
            self.leader_epoch = assigned.leader_epoch
            self.start_offset = end_offset
            for node_id, follower in self.followers.items():
                follower.begin_epoch(end_offset, now_ms, is_in_sync=node_id in assigned.isr)
        self.replicas = assigned.replicas
        self.adding_replicas = assigned.adding_replicas
        self.removing_replicas = assigned.removing_replicas
        self.controller_epoch = assigned.controller_epoch
        self._commit(assigned.isr, assigned.partition_epoch)

    def _commit(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        self.isr = self.maximal_isr = isr
        for node_id in isr:
            if node_id in self.followers:
                self.followers[node_id].refused_ms = NEVER
        self.partition_epoch = partition_epoch
        self.pending: IsrChange | None = None

    # High watermark

    def min_isr(self, min_insync_replicas: int) -> int:
        """Return how many replicas must be in sync for acks=all: `min_insync_replicas`, but at most the number of replicas."""
        return min(min_insync_replicas, len(self.followers) + 1)

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """Return whether too few replicas are in sync. Then acks=all is refused, and the high watermark does not rise."""
        return len(self.isr) < self.min_isr(min_insync_replicas)

    def high_watermark(self, end_offset: int, now_ms: int, min_insync_replicas: int) -> int:
        """Return the offset below which every in-sync replica has all records; -1 if too few replicas are in sync.

        Followers that are caught up but not in sync yet count too, because otherwise they could never reach the high watermark of a
        lone leader. The caller keeps the former high watermark if this one is lower.
        """
        if end_offset > self.end_offset:
            self._grown(end_offset, now_ms)
        if self.is_under_min_isr(min_insync_replicas):
            return UNKNOWN
        lowest, terms = end_offset, self._terms
        for node_id, follower in self.followers.items():
            if follower.log_end_offset < lowest and (
                node_id in self.maximal_isr
                or (follower.is_caught_up(end_offset, now_ms, terms.lag_time_max_ms) and node_id in terms.live_brokers)
            ):
                lowest = follower.log_end_offset
        return lowest

    def _grown(self, end_offset: int, now_ms: int) -> None:
        """Record that the leader's log has grown to `end_offset`. Followers that had everything before were caught up until now."""
        for follower in self.followers.values():
            if follower.log_end_offset == self.end_offset:
                follower.caught_up_ms = max(follower.caught_up_ms, now_ms)
        self.end_offset = end_offset

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the lowest log start offset of the live replicas. Records below it are deleted on all of them (DeleteRecords)."""
        starts = [one.log_start_offset for node_id, one in self.followers.items() if node_id in self._terms.live_brokers]
        return min([log_start_offset, *starts])

    # In-sync replicas

    def expand(self, node_id: int, high_watermark: int, now_ms: int) -> IsrChange | None:
        """Return the change to request if this follower can join the in-sync set, and store it as `pending`; else return None.

        The follower needs all records below the high watermark and below the start of this leader epoch, to be able to lead without
        loss. A refused follower is proposed again after a pause, or in a new broker epoch.
        """
        if self.pending is not None or node_id in self.isr or node_id not in self._terms.live_brokers:
            return None
        follower = self.followers.get(node_id)
        if follower is None or follower.log_end_offset < max(high_watermark, self.start_offset):
            return None
        if not follower.may_be_named(now_ms):
            return None
        self.pending = change = self._change((*self.isr, node_id))
        self.maximal_isr = change.isr
        return change

    def shrink(self, end_offset: int, now_ms: int) -> IsrChange | None:
        """Return the change to request if in-sync followers have lagged for too long, and store it as `pending`; else None."""
        if self.pending is not None:
            return None
        kept = tuple(node_id for node_id in self.isr if self._is_in_sync(node_id, end_offset, now_ms))
        if len(kept) == len(self.isr):
            return None
        self.pending = change = self._change(kept)
        return change

    def _is_in_sync(self, node_id: int, end_offset: int, now_ms: int) -> bool:
        follower = self.followers.get(node_id)
        if follower is None:
            return node_id == self.node_id
        return follower.is_caught_up(end_offset, now_ms, self._terms.lag_time_max_ms)

    def _change(self, isr: tuple[int, ...]) -> IsrChange:
        epochs = tuple(self._broker_epoch(node_id) for node_id in isr)
        return IsrChange(isr, epochs, self.leader_epoch, self.partition_epoch, self.controller_epoch)

    def _broker_epoch(self, node_id: int) -> int:
        if node_id == self.node_id:
            return self._terms.broker_epoch
        follower = self.followers.get(node_id)
        return UNKNOWN if follower is None else follower.broker_epoch

    def changed(self, change: IsrChange, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int) -> bool:
        """Apply the controller's answer to a change of the in-sync replicas. Return False if the answer is outdated."""
        if self.pending is not change or leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        self._commit(isr, partition_epoch)
        return True

    def cancel_refused(self, change: IsrChange, now_ms: int) -> None:
        """Cancel a change that the controller has certainly refused."""
        if self.pending is not change:
            return
        for node_id in set(change.isr).difference(self.isr):
            if node_id in self.followers:
                self.followers[node_id].refused_ms = now_ms
        self._commit(self.isr, self.partition_epoch)

    def is_repeated(self, change: IsrChange) -> bool:
        """Return whether the controller has already refused each replica that this change adds."""
        added = [self.followers.get(node_id) for node_id in set(change.isr).difference(self.isr)]
        return bool(added) and all(one is not None and one.was_refused for one in added)

    # Callbacks that wait for replicas

    def when_high_watermark(self, offset: int, told: Told) -> None:
        """Call `told(error_code)` once the high watermark reaches `offset`, or this broker stops leading."""
        self.waiting.append((offset, told))

    def pop_reached(self, high_watermark: int) -> list[Told]:
        """Remove and return the callbacks whose offset is at most `high_watermark`."""
        told = [told for offset, told in self.waiting if offset <= high_watermark]
        if told:
            self.waiting = [(offset, told) for offset, told in self.waiting if offset > high_watermark]
        return told

    def pop_all(self) -> list[Told]:
        """Remove and return all callbacks, because this broker stops leading the partition."""
        waiting, self.waiting = self.waiting, []
        return [told for _, told in waiting]
