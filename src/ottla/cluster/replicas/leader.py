"""The leader of a partition: in-sync replicas, high watermark, and requests to change the in-sync set (KIP-497).

It uses offsets, times and broker ids; logs, requests and the registry are unknown here.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from ottla.cluster.replicas.follower_progress import NEVER, UNKNOWN, Follower
from ottla.cluster.replicas.partition_state import Assigned, IsrChange

Told = Callable[[int], None]


class LeaderTerms:
    """What all leaders on a broker share: the live brokers, and `lag_time_max_ms` (replica.lag.time.max.ms)."""

    __slots__ = ("broker_epoch", "lag_time_max_ms", "live_brokers")

    def __init__(self, live_brokers: Container[int], lag_time_max_ms: int, broker_epoch: int = UNKNOWN) -> None:
        """Create the terms; `broker_epoch` is this broker's own, for KIP-903."""
        self.live_brokers = live_brokers
        self.lag_time_max_ms = lag_time_max_ms
        self.broker_epoch = broker_epoch


class LeaderState:
    """The state of a partition that this broker leads, over successive leader epochs.

    `isr` is the in-sync set of the controller. `pending` is the requested change that has no answer yet. Until then
    `maximal_isr` has all replicas that may be in sync with any answer, and the high watermark waits for all of them.
    `start_offset` is where this leader epoch begins, `end_offset` the end of the log when the state last used it.
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
        """Create the state; `end_offset` is the end of the log when this broker becomes leader."""
        self.node_id = node_id
        self._terms = terms
        self.followers: dict[int, Follower] = {}
        self.waiting: list[tuple[int, Told]] = []
        self.leader_epoch = UNKNOWN
        self.start_offset = self.end_offset = end_offset
        self.lead(assigned, end_offset, now_ms)

    def lead(self, assigned: Assigned, end_offset: int, now_ms: int) -> None:
        """Set the controller's decision: at first, for a new leader epoch, or for other replicas in the same epoch."""
        is_new = assigned.leader_epoch > self.leader_epoch
        # Other brokers may have led between two epochs of this leader, and followers may have truncated what they had fetched.
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
        """Return how many replicas must be in sync for acks=all: never more than there are."""
        return min(min_insync_replicas, len(self.followers) + 1)

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """Return whether too few replicas are in sync to accept acks=all, and for the high watermark to rise."""
        return len(self.isr) < self.min_isr(min_insync_replicas)

    def high_watermark(self, end_offset: int, now_ms: int, min_insync_replicas: int) -> int:
        """Return the offset below which all records are on every in-sync replica, and on those about to join; -1 if unknown.

        The caller never lets it fall. It waits for followers that keep up: otherwise they could never catch up with a lone leader.
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
        """Note that followers at the former end were caught up until now, however long they waited for more records."""
        for follower in self.followers.values():
            if follower.log_end_offset == self.end_offset:
                follower.caught_up_ms = max(follower.caught_up_ms, now_ms)
        self.end_offset = end_offset

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the lowest log start offset of the live replicas: records below it are deleted everywhere (DeleteRecords)."""
        starts = [one.log_start_offset for node_id, one in self.followers.items() if node_id in self._terms.live_brokers]
        return min([log_start_offset, *starts])

    # In-sync replicas

    def expand(self, node_id: int, high_watermark: int, now_ms: int) -> IsrChange | None:
        """Return the change to request if this follower may join; else None.

        It needs all records below the high watermark, and below the start of this leader epoch: otherwise it could become leader
        without committed records. A refused follower is proposed again after a pause, or when its broker has registered again.
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
        """Return the change to request if followers have been behind for too long; else None."""
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
        """Set the controller's answer to a change. Return False for an old answer: a later state is already set."""
        if self.pending is not change or leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        self._commit(isr, partition_epoch)
        return True

    def refused(self, change: IsrChange, now_ms: int) -> None:
        """Cancel a change that the controller refused, when it is certain that the set is unchanged."""
        if self.pending is not change:
            return
        for node_id in set(change.isr).difference(self.isr):
            if node_id in self.followers:
                self.followers[node_id].refused_ms = now_ms
        self._commit(self.isr, self.partition_epoch)

    def is_repeated(self, change: IsrChange) -> bool:
        """Return whether all replicas that this change would add were refused before."""
        added = [self.followers.get(node_id) for node_id in set(change.isr).difference(self.isr)]
        return bool(added) and all(one is not None and one.was_refused for one in added)

    # Callbacks that wait for replicas

    def when_high_watermark(self, offset: int, told: Told) -> None:
        """Register `told(error_code)` for the time when the high watermark reaches `offset`, or this role ends."""
        self.waiting.append((offset, told))

    def released(self, high_watermark: int) -> list[Told]:
        """Remove and return the callbacks that waited for at most this high watermark."""
        told = [told for offset, told in self.waiting if offset <= high_watermark]
        if told:
            self.waiting = [(offset, told) for offset, told in self.waiting if offset > high_watermark]
        return told

    def abandoned(self) -> list[Told]:
        """Remove and return all callbacks, when the role ends."""
        waiting, self.waiting = self.waiting, []
        return [told for _, told in waiting]
