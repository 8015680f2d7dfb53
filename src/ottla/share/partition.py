"""A share partition at its leader: the state machine of the records that a share group has in flight (KIP-932).

States of a record: available -> acquired (a member fetched it) -> acknowledged (accepted), archived (rejected, a gap, or its last
attempt failed), or available again (released, or its lock expired). Records before `start_offset` are complete.

Acknowledgements and releases are decided, applied and then persisted: until the write's result, no member holds their
records, and a failure restores the former state. Acquisitions are never persisted.

| status | next | when |
|---|---|---|
| LOADING | ACTIVE | the persisted state was read |
| LOADING | FAILED | the persisted state is damaged |
| LOADING, ACTIVE | FENCED | another leader or a new state exists |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Any, Final

from ottla.share.acknowledge import acknowledge, divide
from ottla.share.acquire import acquire, in_flight_count
from ottla.share.cells import ACKNOWLEDGED, ACQUIRED, UNREAD
from ottla.share.locks import AcquisitionLocks
from ottla.share.outcome import (
    DEFAULT_LIMITS,
    NO_OUTCOME,
    AcknowledgeRecords,
    AcquireRecords,
    ExpireLocks,
    MoveLogStart,
    ReleaseMember,
    ShareInput,
    ShareLimits,
    ShareOutcome,
    StateBatch,
    StateRead,
    StateWrite,
    WriteResult,
    refuse,
)
from ottla.share.persistence import client_error, commit, is_loadable, load_window, roll_back, state_batches
from ottla.share.release import expire, holds_before, release_member
from ottla.share.window import CellChange, InFlightRun, InFlightWindow
from ottla.wire.errors import NONE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_SERVER_ERROR
from ottla.wire.schema import Uuid

MOST_EXPIRED: Final = 500
"""The most locked ranges that end in one decision, in about two milliseconds. The next decision ends further ones."""


class ShareStatus(Enum):
    """Whether a share partition can serve members."""

    LOADING = auto()
    ACTIVE = auto()
    FAILED = auto()
    FENCED = auto()


class SharePartition:
    """The records in flight of one share group and one partition. `decide` changes nothing; `apply` applies an outcome."""

    def __init__(
        self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int, limits: ShareLimits = DEFAULT_LIMITS
    ) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.limits = limits
        self.status = ShareStatus.LOADING
        self.state_epoch = 0
        self._window = InFlightWindow()
        self._locks = AcquisitionLocks()
        self._last_token = 0
        self._writes: dict[int, tuple[StateBatch, ...]] = {}

    @property
    def start_offset(self) -> int:
        """Return the share-partition start offset: all records before it are complete."""
        return self._window.start_offset

    @property
    def end_offset(self) -> int:
        """Return the last offset in flight; the next offset to be read if nothing is in flight."""
        return self._window.end_offset

    @property
    def next_fetch_offset(self) -> int:
        """Return the offset from which the next fetch reads: the first available record, or the end."""
        window = self._window
        found = window.first_acquirable() if window else window.end_offset
        return window.end_offset + 1 if found is None else found

    @property
    def can_acquire(self) -> bool:
        """Return whether a fetch at `next_fetch_offset` can acquire records, as far as the limit of record locks goes."""
        if self.status is not ShareStatus.ACTIVE:
            return False
        return self.next_fetch_offset != self.end_offset + 1 or self.in_flight_count < self.limits.max_record_locks

    @property
    def in_flight_count(self) -> int:
        """Return the number of records that count for `share.partition.max.record.locks`."""
        return in_flight_count(self._window)

    @property
    def delivery_complete_count(self) -> int:
        """Return the number of accepted and archived records in flight, which are not part of the group's lag."""
        return self._window.complete_count

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when the next acquisition lock ends, perhaps of records that are no longer acquired; None without a lock."""
        return self._locks.next_deadline_ms

    def runs(self, first_offset: int = 0) -> Iterator[InFlightRun]:
        """Yield the runs of records in flight from an offset on. Nothing may change until the last wanted one was yielded."""
        return self._window.all_runs(first_offset)

    def fence(self) -> None:
        """Refuse all requests from now on: another leader or a new state exists."""
        self.status = ShareStatus.FENCED

    def submit(self, asked: ShareInput, now_ms: int) -> ShareOutcome:
        """Decide and apply an input. Returns its outcome."""
        outcome = self.decide(asked, now_ms)
        self.apply(outcome)
        return outcome

    def divide(self, asked: AcknowledgeRecords, most: int) -> list[AcknowledgeRecords]:
        """Return acknowledgements in parts of about `most` records or runs, which are decided one after another."""
        if self.status is ShareStatus.FENCED:
            return [asked]
        return [AcknowledgeRecords(asked.member_id, part) for part in divide(self._window, asked.batches, most)]

    def decide(self, asked: ShareInput, now_ms: int) -> ShareOutcome:
        """Decide an input. Nothing changes until the outcome is applied."""
        if self.status is ShareStatus.FENCED:
            return refuse(NOT_LEADER_OR_FOLLOWER, "The share partition has another leader or a new state.")
        return _DECISIONS[type(asked)](self, asked, now_ms)

    def apply(self, outcome: ShareOutcome) -> None:
        """Apply the outcome of a decision before anything else is decided."""
        window = self._window
        if outcome.read is not None:
            self._load(outcome.read)
            return
        if outcome.growth is not None:
            window.extend(outcome.growth.first_offset, outcome.growth.last_offset, UNREAD)
        if outcome.bounds:
            window.add_bounds(outcome.bounds)
        window.replace(outcome.changes)
        for change in outcome.changes:
            if change.cell.state == ACQUIRED:
                self._locks.add(change.cell.deadline_ms, change.first_offset, change.last_offset)
        self._locks.drop(outcome.expired_count)
        if outcome.start_offset is not None:
            window.drop_before(outcome.start_offset)
        if outcome.write is not None:
            self._last_token = outcome.write.token
            self._writes[outcome.write.token] = outcome.write.batches
        self._writes.pop(outcome.finished_token, None)
        if outcome.trims:
            window.trim()

    def _load(self, read: StateRead) -> None:
        if not is_loadable(read):
            self.status = ShareStatus.FAILED
            return
        self.state_epoch = read.state_epoch
        self._window = load_window(read)
        self.status = ShareStatus.ACTIVE

    def _decide_read(self, asked: StateRead, now_ms: int) -> ShareOutcome:
        if self.status is not ShareStatus.LOADING:
            return refuse(UNKNOWN_SERVER_ERROR, "The share partition was loaded already.")
        if is_loadable(asked):
            return ShareOutcome(read=asked, wakes=True)
        return ShareOutcome(UNKNOWN_SERVER_ERROR, "The persisted state of the share partition is damaged.", read=asked)

    def _decide_acquire(self, asked: AcquireRecords, now_ms: int) -> ShareOutcome:
        if self.status is not ShareStatus.ACTIVE:
            return NO_OUTCOME
        return acquire(self._window, self.limits, asked, now_ms)

    def _decide_acknowledge(self, asked: AcknowledgeRecords, now_ms: int) -> ShareOutcome:
        changes = acknowledge(self._window, self.limits, asked, now_ms, self._last_token + 1)
        if isinstance(changes, tuple):
            return refuse(*changes)
        return ShareOutcome(changes=changes, write=self._write([change for change in changes if change.cell.token]))

    def _decide_release(self, asked: ReleaseMember, now_ms: int) -> ShareOutcome:
        changes, next_offset = release_member(
            self._window, asked.member_id, asked.first_offset, self.limits.delivery_count_limit, self._last_token + 1
        )
        return ShareOutcome(changes=changes, write=self._write(changes), next_offset=next_offset)

    def _decide_expiry(self, asked: ExpireLocks, now_ms: int) -> ShareOutcome:
        due = self._locks.due(now_ms, MOST_EXPIRED)
        changes = expire(self._window, due, self.limits.delivery_count_limit, now_ms)
        return ShareOutcome(changes=changes, write=self._write(changes), wakes=bool(changes), expired_count=len(due))

    def _decide_log_start(self, asked: MoveLogStart, now_ms: int) -> ShareOutcome:
        if self.status is not ShareStatus.ACTIVE or asked.log_start_offset <= self.start_offset:
            return NO_OUTCOME
        start_offset = asked.log_start_offset
        write = None
        if self._window and holds_before(self._window, start_offset):
            # Kafka persists the new start when these acquisitions end. Here they end at once.
            write = self._state_write(start_offset, self._window.count_complete(start_offset), ())
        # Complete records may be at the front now, and nothing else would move the start over them.
        return ShareOutcome(start_offset=start_offset, write=write, wakes=True, trims=True)

    def _decide_result(self, asked: WriteResult, now_ms: int) -> ShareOutcome:
        batches = self._writes.get(asked.token)
        if batches is None:
            return NO_OUTCOME
        if asked.error_code == NONE:
            changes = list(commit(self._window, batches, asked.token))
        else:
            changes = list(roll_back(self._window, batches, asked.token, self.limits.delivery_count_limit, now_ms))
        return ShareOutcome(client_error(asked.error_code), changes=changes, finished_token=asked.token, trims=True, wakes=True)

    def _write(self, changes: Sequence[CellChange]) -> StateWrite | None:
        if not changes:
            return None
        completed = sum(last - first + 1 for first, last, cell in changes if cell.state >= ACKNOWLEDGED)
        return self._state_write(self.start_offset, self._window.complete_count + completed, state_batches(changes))

    def _state_write(self, start_offset: int, complete_count: int, batches: tuple[StateBatch, ...]) -> StateWrite:
        return StateWrite(self._last_token + 1, self.state_epoch, self.leader_epoch, start_offset, complete_count, batches)


_DECISIONS: dict[type, Callable[[SharePartition, Any, int], ShareOutcome]] = {
    StateRead: SharePartition._decide_read,
    AcquireRecords: SharePartition._decide_acquire,
    AcknowledgeRecords: SharePartition._decide_acknowledge,
    ReleaseMember: SharePartition._decide_release,
    ExpireLocks: SharePartition._decide_expiry,
    MoveLogStart: SharePartition._decide_log_start,
    WriteResult: SharePartition._decide_result,
}
