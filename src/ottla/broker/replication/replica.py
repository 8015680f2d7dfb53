"""A replicated partition: it leads or follows as the controller assigns.

Depends on its log and the machines of `ottla.cluster.replicas`, and not on the controller, requests or connections. `Resting` is a
leader without leadership, because this broker's session with the registry can be over. `Offline` is a replica whose log is not open
yet, or whose sync failed. A failed sync keeps it `Offline` until the broker restarts.

| state | event | next state |
|---|---|---|
| Idle, Leading, Resting | follow | Following |
| Idle, Following, Resting | lead | Leading |
| Idle, Following | lead without a session | Resting |
| Leading | suspend | Resting |
| Resting | resume | Leading |
| Following, Leading, Resting | stop | Idle |
| Idle, Following, Leading, Resting | go offline | Offline |
| Offline | opened | Idle |
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from ottla.broker.partitions.partition import LEADER, Partition, Role
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.replication.log_dir_failures import LogDirFailures
from ottla.cluster.replicas.follower import FollowerState
from ottla.cluster.replicas.leader import LeaderState, LeaderTerms
from ottla.cluster.replicas.partition_state import Assigned, IsrChange
from ottla.log.log import Log
from ottla.ports import Now, Steps
from ottla.records.batches.header import BadBatch, batches, crc_is_valid
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_LEADER_EPOCH,
    error_name,
)

log = logging.getLogger("ottla.broker")

NO_LEADER_EPOCH = -1
FOLLOWER = Role.FOLLOWER
EACH = 1
"""The value of flush.messages that makes each record readable only once it is on stable storage."""


class IsrUpdates(Protocol):
    """The interface for ISR changes by leaders."""

    def request(self, replica: Replica, change: IsrChange) -> None:
        """Request a change. `replica` receives the result, unless it has newer state by then."""


class ReplicaPorts:
    """The context shared by all replicas of a broker. `partitions`, `isrs` and `failures` are set before the first replica.

    `moved` collects replicas whose high watermark is newer than the checkpoint. `may_lead` is False while this broker's session
    with the registry can be over. Leaders are then suspended.
    """

    __slots__ = ("failures", "isrs", "may_lead", "moved", "node_id", "partitions", "terms")

    def __init__(self, node_id: int, terms: LeaderTerms) -> None:
        self.node_id = node_id
        self.terms = terms
        self.may_lead = False
        self.moved: dict[Replica, None] = {}
        self.isrs: IsrUpdates
        self.failures: LogDirFailures
        self.partitions: Partitions


class Replica(Partition):
    """One replica of a partition. It has no role, and serves no requests, until `lead` or `follow` is called."""

    __slots__ = ("_ports", "is_sole")

    def __init__(self, *args: Any, ports: ReplicaPorts, **rooms: Any) -> None:
        super().__init__(*args, **rooms)
        self.role = FOLLOWER
        self.leader_epoch = NO_LEADER_EPOCH
        self._ports = ports
        self.is_sole = False
        """Whether this broker leads the only replica: `replicas` is then None."""

    @property
    def has_leader_role(self) -> bool:
        """Return whether the controller assigned the leader's role, even if this broker may not lead at the moment."""
        return self.is_sole or isinstance(self.replicas, LeaderState)

    @property
    def has_role(self) -> bool:
        return self.is_sole or self.replicas is not None

    def use_log(self, log: Log) -> None:
        """Use `log`, the recovered log. Take the high watermark from the checkpoint."""
        self.log = log
        self.offline = None
        self.high_watermark = min(
            max(self._ports.partitions.checkpoints.high_watermark(self), log.log_start_offset), log.log_end_offset
        )

    # Roles

    def lead(self, assigned: Assigned, now: Now) -> None:
        """Become the leader, or apply the controller's update to the leader. Raises `StorageFailed` without a change of role."""
        self._changes.made = True
        end_offset = self.log.log_end_offset
        if assigned.replicas == (self._ports.node_id,) and assigned.leader_epoch < self.log.leader_epoch:
            # Other brokers wrote this log. It has no followers, and epochs only increase.
            assigned = assigned._replace(leader_epoch=self.log.leader_epoch)
        if assigned.leader_epoch > self.leader_epoch and len(assigned.replicas) > 1:
            # Recorded even without any record in this epoch: followers can have records of later epochs than any in this log.
            self.log.assign_leader_epoch(assigned.leader_epoch)
        self.is_sole = not isinstance(self.replicas, LeaderState) and assigned.replicas == (self._ports.node_id,)
        if self.is_sole:
            self.replicas = None
        elif isinstance(self.replicas, LeaderState):
            self.replicas.lead(assigned, end_offset, now.mono_ms)
        else:
            self.replicas = LeaderState(self._ports.node_id, self._ports.terms, assigned, end_offset, now.mono_ms)
        self.leader_epoch = assigned.leader_epoch
        if self._has_flush_settings:
            self._flush(self, now)  # copied records without a sync count once it is complete
        if self._ports.may_lead:
            self.resume(now)

    def resume(self, now: Now) -> None:
        """Become the leader with the assigned role, after `suspend` or for the first time."""
        before, self.role = self.high_watermark, LEADER
        self._raise_high_watermark(now)
        if self.is_sole and self.high_watermark == before:
            self._on_change(self)  # the checkpoints are unchanged
        else:
            self.notify_change()

    def suspend(self) -> None:
        """Stop leading until `resume`, because other brokers can lead. Keep the state of followers."""
        self.role = FOLLOWER
        self._abandon(self.replicas, NOT_LEADER_OR_FOLLOWER)
        self.notify_change()

    def follow(self, assigned: Assigned, topic_id: bytes) -> None:
        """Follow the leader in `assigned`. `topic_id` is the id in the controller's request, zeros if the request has none.

        Replies that wait for other replicas fail with NOT_LEADER_OR_FOLLOWER.
        """
        self._changes.made = True
        before, self.is_sole = self.replicas, False
        if isinstance(before, FollowerState):
            before.follow(assigned, topic_id)
        else:
            self.replicas = FollowerState(assigned, topic_id)
        self.role = FOLLOWER
        self.leader_epoch = assigned.leader_epoch
        self._abandon(before, NOT_LEADER_OR_FOLLOWER)
        self.notify_change()

    def stop(self) -> None:
        """End the role of this replica, because it is no longer assigned or the broker's session can be over."""
        before, self.replicas, self.is_sole = self.replicas, None, False
        self.role = FOLLOWER
        self._abandon(before, NOT_LEADER_OR_FOLLOWER)
        self.notify_change()

    def fail_offline(self, reason: str) -> None:
        """Take the replica offline, and complete all waiting replies with an error."""
        super().fail_offline(reason)
        self._ports.moved.pop(self, None)
        self._abandon(self.replicas, NOT_LEADER_OR_FOLLOWER)
        if self.has_role:
            self._ports.failures.notify()

    def notify_online(self) -> None:
        """Notify the controller, after a delay, that the log is open, so that the controller assigns a role again."""
        super().notify_online()
        self._ports.failures.notify()

    def _abandon(self, role: LeaderState | FollowerState | None, error_code: int) -> None:
        if isinstance(role, LeaderState):
            for told in role.pop_all():
                told(error_code)

    # As the leader

    @property
    def _min_insync_replicas(self) -> int:
        return self.config.min_insync_replicas

    def _raise_high_watermark(self, now: Now) -> None:
        """Advance the high watermark to the end that all in-sync replicas have."""
        leader = self.replicas
        if not isinstance(leader, LeaderState):
            if self.is_sole:
                self.high_watermark = self.log.log_end_offset
            return
        offset = end_offset = self.log.log_end_offset
        if leader.followers:
            offset = leader.high_watermark(end_offset, now.mono_ms, self._min_insync_replicas)
        if self.config.flush_messages <= EACH:
            offset = min(offset, self.log.durable_offset)
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        self._ports.moved[self] = None
        if leader.waiting:
            error_code = self._late_error(leader)
            for told in leader.pop_reached(offset):
                told(error_code)

    def _late_error(self, leader: LeaderState) -> int:
        """Return the error code for records that all in-sync replicas have.

        It is NOT_ENOUGH_REPLICAS_AFTER_APPEND if the in-sync replicas are now fewer than min.insync.replicas, else NONE.
        """
        is_enough = len(leader.maximal_isr) >= leader.min_isr(self._min_insync_replicas)
        return NONE if is_enough else NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def _on_durable(self, now: Now) -> None:
        """Advance the high watermark, too, if each record must be flushed before it is readable."""
        super()._on_durable(now)
        if self.role is LEADER and self.offline is None and self.config.flush_messages <= EACH:
            self._advance(now)

    def acks_error(self) -> int:
        """Return the error code for acks=all before an append: NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER or NONE."""
        leader = self.replicas
        if not isinstance(leader, LeaderState):
            return NONE if self.is_sole else NOT_LEADER_OR_FOLLOWER
        return NOT_ENOUGH_REPLICAS if leader.is_under_min_isr(self._min_insync_replicas) else NONE

    def when_committed(self, offset: int, callback: Callable[[int], None]) -> None:
        """Call `callback(error_code)` once all in-sync replicas have all records below `offset`.

        If the topic requires a sync, the records are also on stable storage here; the sync runs in parallel.
        """
        leader = self.replicas
        if self.is_sole:
            self.when_synced(offset, callback)
        elif not isinstance(leader, LeaderState):
            callback(NOT_LEADER_OR_FOLLOWER)
        elif offset <= self.high_watermark:
            self._on_committed(offset, callback, self._late_error(leader))
        else:
            if self.must_sync(acks_all=True) and self.log.durable_offset < offset:
                self._want_sync(self)
            leader.when_high_watermark(offset, partial(self._on_committed, offset, callback))

    def _on_committed(self, offset: int, callback: Callable[[int], None], error_code: int) -> None:
        if error_code:
            callback(error_code)
        else:
            self.when_synced(offset, callback)

    def reader_error(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> int:
        """Return the error code for a reader; a follower also serves readers with its leader epoch (KIP-392)."""
        if not self.is_following or current_leader_epoch in (NO_LEADER_EPOCH, self.leader_epoch):
            return NONE if self.is_following else self.leader_error(current_leader_epoch)
        return FENCED_LEADER_EPOCH if current_leader_epoch < self.leader_epoch else UNKNOWN_LEADER_EPOCH

    def follower_error(self, node_id: int, current_leader_epoch: int = NO_LEADER_EPOCH) -> int:
        """Return the error code for a follower's fetch; NONE if it may be served."""
        error_code = self.leader_error(current_leader_epoch)
        if error_code:
            return error_code
        leader = self.replicas
        if isinstance(leader, LeaderState) and node_id in leader.followers:
            return NONE
        # The follower can have a newer assignment than this broker. It retries after either error.
        return NOT_LEADER_OR_FOLLOWER if current_leader_epoch == NO_LEADER_EPOCH else UNKNOWN_LEADER_EPOCH

    def follower_fetched(self, node_id: int, offset: int, log_start_offset: int, now: Now, broker_epoch: int = -1) -> None:
        """Record that a follower fetches from `offset`, and so has all records below `offset`.

        Waiting fetches count too. Fetches that get a diverging epoch do not.
        """
        leader = self.replicas
        if not isinstance(leader, LeaderState):
            return
        follower = leader.followers.get(node_id)
        if follower is None:
            return
        known, known_start = follower.log_end_offset, follower.log_start_offset
        follower.record_fetch(offset, log_start_offset, self.log.log_end_offset, now.mono_ms, broker_epoch)
        change = None if node_id in leader.isr else leader.expand(node_id, self.high_watermark, now.mono_ms)
        if change is not None:
            if not leader.is_repeated(change):
                log.info("%s: replica %d is in sync again with all below offset %d", self, node_id, offset)
            self._ports.isrs.request(self, change)
        if known != offset:
            self._advance(now)
        if log_start_offset > known_start >= 0:
            self.notify_change()  # a delayed reply may wait for the deletion of records everywhere

    def shrink_isr(self, now: Now) -> None:
        """Request an ISR without followers that have lagged for too long, if there are any."""
        leader = self.replicas
        if self.offline is not None or not isinstance(leader, LeaderState):
            return
        change = leader.shrink(self.log.log_end_offset, now.mono_ms)
        if change is not None:
            gone = [(node_id, leader.followers.get(node_id)) for node_id in sorted(set(leader.isr).difference(change.isr))]
            # Apache Kafka's controller removes a replica before it removes it from the ISR.
            ends = (f"{node_id} " + (f"at offset {one.log_end_offset}" if one else "is not a replica") for node_id, one in gone)
            log.info("%s: no more in sync with offset %d: %s", self, self.log.log_end_offset, ", ".join(ends))
            self._ports.isrs.request(self, change)

    def isr_changed(self, change: IsrChange, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int, now: Now) -> None:
        """Apply the ISR in the controller's response to the change that this leader has requested."""
        leader = self.replicas
        before = len(leader.isr) if isinstance(leader, LeaderState) else 0
        if isinstance(leader, LeaderState) and leader.changed(change, isr, leader_epoch, partition_epoch):
            self._ports.partitions.traffic.count_isr(len(isr) - before)
            log.info("%s: in sync are %s (partition epoch %d)", self, list(isr), partition_epoch)
            self._advance(now)

    def isr_refused(self, change: IsrChange, error_code: int, now: Now) -> None:
        """Record that the controller has refused an ISR change. A follower that was to join then no longer delays acks=all.

        While the follower fetches, the change is requested again. Only the first refusal is logged.
        """
        leader = self.replicas
        if not isinstance(leader, LeaderState):
            return
        if not leader.is_repeated(change):
            sentence = "%s: the controller refused the in-sync set %s (%s); it is retried from time to time"
            log.info(sentence, self, list(change.isr), error_name(error_code))
        leader.cancel_refused(change, now.mono_ms)
        self._advance(now)

    def remove_followers(self, now: Now) -> None:
        """Check the in-sync replicas again after brokers have died, because a leader does not wait for dead brokers."""
        if self.offline is None and isinstance(self.replicas, LeaderState):
            self._advance(now)

    def _advance(self, now: Now) -> None:
        """Advance the high watermark if possible, and then notify readers."""
        before = self.high_watermark
        self._raise_high_watermark(now)
        if self.high_watermark != before:
            self.notify_change()

    # As a follower

    @property
    def is_following(self) -> bool:
        """Return whether this replica copies from a leader."""
        return self.offline is None and isinstance(self.replicas, FollowerState)

    def append_as_follower(self, records: memoryview, now: Now) -> None:
        """Append the whole batches sent by the leader. A batch that is cut off at the end is skipped.

        Batches below the log's end are skipped too, because the leader sends whole batches. Raises `BadBatch` for an invalid batch,
        and `StorageFailed`. Batches before the failed one can be appended or not.
        """
        end_offset = self.log.log_end_offset
        found = []
        begin = size = 0
        for position, header in batches(records):
            if header.next_offset <= end_offset:
                begin = position + header.size
                continue
            if header.base_offset < end_offset:
                raise BadBatch(
                    position, f"a batch of offsets {header.base_offset} to {header.last_offset} comes after {end_offset}."
                )
            if not crc_is_valid(records[position : position + header.size]):
                raise BadBatch(position, "the CRC-32C is not that of the batch.")
            found.append(header)
            end_offset = header.next_offset
            size = position + header.size
        if not found:
            return
        self._changes.made = True
        self._touched[self] = None
        self.log.append_as_follower(records[begin:size], found, now)
        self.traffic.replication_bytes_in += size - begin
        if self.log.unnamed is not None:
            self._want_name(self)
        if self._has_flush_settings:
            self._flush(self, now)

    @property
    def needs_sync(self) -> bool:
        """Return whether flush.messages requires a sync of copied records before a fetch confirms them to the leader."""
        return (
            self._has_flush_settings
            and self.offline is None
            and self.log.durable_offset < self.log.log_end_offset
            and self.is_flush_due
        )

    def set_high_watermark(self, told: int) -> None:
        """Set the high watermark sent by the leader, limited to the local log."""
        log = self.log
        offset = FollowerState.high_watermark(told, self.high_watermark, log.log_start_offset, log.log_end_offset)
        if offset != self.high_watermark:
            self.high_watermark = offset
            self._ports.moved[self] = None
            self.notify_change()

    def truncate_to(self, offset: int) -> Steps[None]:
        """Truncate all batches at or beyond `offset`, where the leader has other records. Raises `StorageFailed`.

        Stop without truncation if another leader is followed meanwhile, because the new leader's log can contain these batches.
        """
        epoch, held = self.leader_epoch, self.log
        while True:
            plan = yield from held.plan_cut(offset)
            if plan is None or not self._still_follows(epoch):
                return
            lowest = min(offset, held.segments[0].base_offset) if held.loses_all(plan) else plan.end_offset
            yield from self._ports.partitions.before_cut(self, lowest, offset)
            if not self._still_follows(epoch):
                return
            if held.is_current(plan):
                break
        log.info("%s: truncated from offset %d to %d", self, held.log_end_offset, plan.end_offset)
        self._cut(partial(held.cut, plan))

    def _still_follows(self, leader_epoch: int) -> bool:
        return self.is_following and self.leader_epoch == leader_epoch

    def _cut(self, make: Callable[[], None]) -> None:
        """Truncate the log by calling `make`. Raises `StorageFailed` if the disk refuses to change the files.

        The truncation is effective even then.
        """
        self._changes.made = True
        self._ports.partitions.checkpoints.was_cut(self)
        try:
            make()
        finally:
            self.high_watermark = max(min(self.high_watermark, self.log.log_end_offset), self.log.log_start_offset)
            self._ports.moved[self] = None
            self.notify_change()

    def reach_back(self, records: memoryview) -> Steps[None]:
        """Begin an empty log at the base offset of the leader's first batch, if the log's start is inside that batch.

        This follows a deletion of records. The next response restores the log start offset. Raises `BadBatch` and `StorageFailed`.
        """
        offset = self.log.log_end_offset
        if self.log.log_start_offset < offset:
            return
        first = next((header for _, header in batches(records)), None)
        if first is not None and first.base_offset < offset < first.next_offset:
            yield from self._restart(first.base_offset, lambda: self.log.log_start_offset == self.log.log_end_offset == offset)

    def note_gaps(self, records: memoryview) -> Steps[None]:
        """Add the newest segment to the list of segments that may lack offsets, if offsets are missing before one of these batches.

        Raises `StorageFailed`.
        """
        if self.log.lacks_note(header for _, header in batches(records)):
            yield from self._ports.partitions.note_gaps(self)

    def restart_at(self, offset: int) -> Steps[None]:
        """Drop all records and restart at `offset`, because the leader has no records before it. Raises `StorageFailed`."""
        yield from self._restart(offset, lambda: offset > self.log.log_end_offset)

    def _restart(self, offset: int, is_due: Callable[[], bool]) -> Steps[None]:
        epoch = self.leader_epoch
        yield from self._ports.partitions.before_cut(self, min(offset, self.log.segments[0].base_offset), offset)
        if self._still_follows(epoch) and is_due():
            self._cut(partial(self.log.restart_at, offset))
