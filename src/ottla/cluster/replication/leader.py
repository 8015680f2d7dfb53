"""The leader of a partition: who is in sync, how far readers may see, and when the in-sync set should change (KIP-497).

Knows offsets, times and node ids; knows no log, no request and no registry.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from ottla.cluster.replication.assigned import Assigned, IsrChange
from ottla.cluster.replication.followers import NEVER, UNKNOWN, Follower

Told = Callable[[int], None]


class LeaderTerms:
    """What all leaders on a broker go by: brokers that are alive, and `lag_time_max_ms` (replica.lag.time.max.ms)."""

    __slots__ = ("broker_epoch", "lag_time_max_ms", "live_brokers")

    def __init__(self, live_brokers: Container[int], lag_time_max_ms: int, broker_epoch: int = UNKNOWN) -> None:
        """`broker_epoch` is this broker's own, for KIP-903."""
        self.live_brokers = live_brokers
        self.lag_time_max_ms = lag_time_max_ms
        self.broker_epoch = broker_epoch


class LeaderState:
    """One leader epoch after another of a partition that this broker leads.

    `isr` is the in-sync set as the controller has it. `pending` is the change that was asked for and not answered yet: until
    then `maximal_isr` holds everybody who may be in sync by whatever comes of it, and the high watermark waits for all of them.
    `start_offset` is where this leader epoch begins, `end_offset` where the log ended when anybody asked last.
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
        """`end_offset` is where the log ends as it takes over."""
        self.node_id = node_id
        self._terms = terms
        self.followers: dict[int, Follower] = {}
        self.waiting: list[tuple[int, Told]] = []
        self.leader_epoch = UNKNOWN
        self.start_offset = self.end_offset = end_offset
        self.lead(assigned, end_offset, now_ms)

    def lead(self, assigned: Assigned, end_offset: int, now_ms: int) -> None:
        """Take in what the controller decided: the first time, for a new leader epoch, or for other replicas in the same one."""
        is_new = assigned.leader_epoch > self.leader_epoch
        # Others may have led between two epochs of this leader, and followers truncated what they had fetched before.
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

    # What readers may see

    def min_isr(self, min_insync_replicas: int) -> int:
        """How many must be in sync for acks=all: no setting demands more than there are."""
        return min(min_insync_replicas, len(self.followers) + 1)

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """Whether too few are in sync for acks=all to be taken, and for the high watermark to rise."""
        return len(self.isr) < self.min_isr(min_insync_replicas)

    def high_watermark(self, end_offset: int, now_ms: int, min_insync_replicas: int) -> int:
        """Up to where every record is on all that are in sync, and on those that are about to join them; -1 if that is unknown.

        The caller lets it never fall. A follower that keeps up is waited for, or it could never catch up with a leader alone.
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
        """Whoever had everything until now was caught up until now, however long it has waited for more."""
        for follower in self.followers.values():
            if follower.log_end_offset == self.end_offset:
                follower.caught_up_ms = max(follower.caught_up_ms, now_ms)
        self.end_offset = end_offset

    def low_watermark(self, log_start_offset: int) -> int:
        """The lowest offset at which a live replica's log begins: below it all records are deleted (DeleteRecords)."""
        starts = [one.log_start_offset for node_id, one in self.followers.items() if node_id in self._terms.live_brokers]
        return min([log_start_offset, *starts])

    # Who is in sync

    def expand(self, node_id: int, high_watermark: int, now_ms: int) -> IsrChange | None:
        """The change to ask for if this follower may join: it has all that readers see, and all from before this leader epoch.

        Otherwise it could lead one day without records that were committed before. One that was refused is asked for again
        after a pause, or when its broker began anew.
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
        """The change to ask for if followers have been behind for too long."""
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
        """The controller's answer to a change. False if it tells nothing new: others came between, and are known already."""
        if self.pending is not change or leader_epoch != self.leader_epoch or partition_epoch < self.partition_epoch:
            return False
        self._commit(isr, partition_epoch)
        return True

    def refused(self, change: IsrChange, now_ms: int) -> None:
        """The controller has not made a change, and knows for certain that nobody has: the set is as it was."""
        if self.pending is not change:
            return
        for node_id in set(change.isr).difference(self.isr):
            if node_id in self.followers:
                self.followers[node_id].refused_ms = now_ms
        self._commit(self.isr, self.partition_epoch)

    def is_repeated(self, change: IsrChange) -> bool:
        """Whether all that this change would add were refused before."""
        added = [self.followers.get(node_id) for node_id in set(change.isr).difference(self.isr)]
        return bool(added) and all(one is not None and one.was_refused for one in added)

    # Who waits for replicas

    def when_high_watermark(self, offset: int, told: Told) -> None:
        """Have `told(error_code)` called by whoever lets the high watermark reach `offset`, or ends this role."""
        self.waiting.append((offset, told))

    def released(self, high_watermark: int) -> list[Told]:
        """Those who waited for no more than this high watermark."""
        told = [told for offset, told in self.waiting if offset <= high_watermark]
        if told:
            self.waiting = [(offset, told) for offset, told in self.waiting if offset > high_watermark]
        return told

    def abandoned(self) -> list[Told]:
        """All who wait: nothing will come of it."""
        waiting, self.waiting = self.waiting, []
        return [told for _, told in waiting]
