"""The share coordinator as a machine: the states of share partitions of one partition of `__share_group_state`.

The machine uses no log, and topics are only ids with a number of partitions. `ottla.coord.runtime` runs the machine, and the
shard's owner executes its orders.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from sys import getsizeof
from typing import Final

from ottla.coord.runtime.machine import Due, Input, KeyAndValue, Outcome, Reply, Timer, drain
from ottla.coord.share_state.batches import UNKNOWN_OFFSET, StateBatch, combine, is_well_formed
from ottla.coord.share_state.inputs import (
    MOST_BATCHES,
    Chore,
    DeletedTopics,
    DeleteState,
    InitializeState,
    PruneLog,
    ReadState,
    SharePartitionKey,
    SharePlace,
    ShareStateSettings,
    StateOperation,
    StateRequest,
    StateResult,
    StatesDeleted,
    WriteState,
)
from ottla.coord.share_state.records import LAST, ShareSnapshot, ShareUpdate, StateRecord, Tombstone, encode_record
from ottla.coord.share_state.state import BATCH_BYTES, FIRST_EPOCH, NO_EPOCH, STATE_BYTES, ShareState
from ottla.ports import Now, Pauses
from ottla.wire.errors import (
    ERRORS,
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    INVALID_REQUEST,
    NONE,
    POLICY_VIOLATION,
    UNKNOWN_TOPIC_OR_PARTITION,
)

log = logging.getLogger("ottla.coord")

StateOutcome = Outcome[StateRecord]
Decision = tuple[StateResult, StateRecord | None]

MOST_AT_ONCE: Final = 100
"""The most snapshots or tombstones of one background step."""
BATCHES_LIKE_ONE: Final = 50
"""The number of state batches that cost as much as one more snapshot."""
PAUSE_MS: Final = 2
"""The pause between two background steps in milliseconds, in which other work runs."""

STORED: Final = StateResult()
"""The result of a write."""
NEGATIVE_PARTITION: Final = "The partition id cannot be a negative number."
NOT_INITIALIZED: Final = "{} operation on uninitialized share partition not allowed."
TOO_MANY: Final = "A write may have {} state batches: divide it."
REVERSED: Final = "A state batch ends before it begins."
NO_ROOM: Final = "The states of all share partitions take too much memory: ottla.max.share.state.bytes."


class ShareStateMachine:
    """The state machine of share coordinators. Its inputs and orders are in `ottla.coord.share_state.inputs`.

    `partitions_of` returns the number of partitions of a topic id, or 0 if there is no such topic. `taken_bytes` returns the memory
    of all share coordinators of the broker. `end_offset` returns the end of the log, whose last batch was just decided here.
    """

    def __init__(
        self,
        settings: ShareStateSettings,
        partitions_of: Callable[[bytes], int],
        taken_bytes: Callable[[], int] = lambda: 0,
        end_offset: Callable[[], int] = lambda: 0,
    ) -> None:
        self.settings = settings
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.weight = 0
        """The estimated memory in bytes of all states."""
        self.end_offset = end_offset
        self._partitions_of = partitions_of
        self._taken_bytes = taken_bytes
        self._snapshots: dict[SharePartitionKey, int] = {}
        """The offset of the last snapshot of each share partition, oldest first."""
        self._last_tombstone = 0
        self._cold = 0
        """The number of states whose last snapshot was made because there were no changes for long."""

    def configure(self, settings: ShareStateSettings) -> None:
        self.settings = settings

    @property
    def redundant_offset(self) -> int:
        """Return the offset below which every record is replaced by a later snapshot or tombstone; 0 if there is none."""
        return next(iter(self._snapshots.values()), self._last_tombstone)

    def encode(self, record: StateRecord) -> KeyAndValue:
        """Return the record as `__share_group_state` stores it. Raises `Unencodable`."""
        return encode_record(record)

    def is_independent(self, body: object) -> bool:
        """Return False, because a decision about a share partition depends on all earlier decisions about it."""
        return False

    def leaves_at_once(self, body: object) -> bool:
        """Return False, because replies show states that are not durable yet."""
        return False

    def dissolve(self) -> Pauses[None]:
        """Release the memory of all states in steps, with pauses."""
        self._snapshots.clear()
        return drain(self.states)

    def apply(self, record: StateRecord) -> None:
        key = record.key
        state = self.states.get(key)
        if state is not None:
            self.weight -= state.weight
            self._cold -= state.is_cold
        if isinstance(record, Tombstone):
            self._forget(record, state)
            return
        if state is None:
            state = self.states[key] = ShareState()
            self.weight += getsizeof(key.group_id)
        if isinstance(record, ShareSnapshot):
            state.apply_snapshot(record)
            self._snapshots.pop(key, None)
            self._snapshots[key] = self._offset_of(record)
        else:
            state.apply_update(record)
        self.weight += state.weight
        self._cold += state.is_cold

    def _forget(self, record: Tombstone, state: ShareState | None) -> None:
        if state is not None:
            del self.states[record.key]
            self.weight -= getsizeof(record.key.group_id)
        self._snapshots.pop(record.key, None)
        self._last_tombstone = self._offset_of(record)

    def _offset_of(self, record: ShareSnapshot | Tombstone) -> int:
        return record.offset if record.offset >= 0 else self.end_offset() + record.offset

    def recall(self, now: Now) -> StateOutcome:
        """Return the outcome that starts the snapshots of cold partitions and the pruning of the log."""
        return Outcome(timers=(self._next(Chore.SNAPSHOTS, now), self._next(Chore.PRUNING, now)))

    def decide(self, asked: Input[object], now: Now) -> StateOutcome:
        """Decide one input. Nothing changes until the outcome's records are applied."""
        body = asked.body
        if isinstance(body, StateRequest):
            return self._operate(body, asked.token, now)
        if isinstance(body, DeletedTopics):
            return self._delete_topics(body, asked.token)
        assert isinstance(body, Due), "there are three kinds of inputs"
        return self._snapshot_cold(now) if body.key is Chore.SNAPSHOTS else self._prune(now)

    def _operate(self, body: StateRequest, token: int, now: Now) -> StateOutcome:
        """Decide about each share partition of a request, in order, even if it is named twice."""
        decide: Callable[..., Decision] = _OPERATIONS[body.operation]
        results: list[StateResult] = []
        records: list[StateRecord] = []
        draft: dict[SharePartitionKey, ShareState | None] = {}
        for place in body.places:
            key = SharePartitionKey(body.group_id, place.topic_id, place.partition)
            state = draft[key] if key in draft else self.states.get(key)
            error = self._error(place, key, state, body.operation)
            result, record = (error, None) if error is not None else decide(self, key, place, state, now)
            results.append(result)
            if record is not None:
                records.append(record)
                if len(body.places) > 1:
                    draft[key] = _apply_to_draft(state, record)
        return Outcome(_number(records), (Reply(token, results),))

    def _error(
        self, place: SharePlace, key: SharePartitionKey, state: ShareState | None, operation: StateOperation
    ) -> StateResult | None:
        """Return the error of an operation on a share partition, in Kafka's order of checks; None if there is none."""
        if place.partition < 0:
            return StateResult(INVALID_REQUEST, NEGATIVE_PARTITION)
        if state is None and operation in (StateOperation.READ, StateOperation.WRITE):
            return StateResult(INVALID_REQUEST, NOT_INITIALIZED.format(operation.name.capitalize()))
        error_code = NONE if state is None else _fence_error(place, state, operation)
        if not error_code and place.partition >= self._partitions_of(key.topic_id):
            error_code = UNKNOWN_TOPIC_OR_PARTITION
        if error_code:
            return StateResult(error_code, ERRORS[error_code].sentence)
        if isinstance(place, WriteState) and not is_well_formed(place.batches):
            return StateResult(INVALID_REQUEST, REVERSED)
        if isinstance(place, WriteState) and len(place.batches) > MOST_BATCHES:
            return StateResult(INVALID_REQUEST, TOO_MANY.format(MOST_BATCHES))
        return StateResult(POLICY_VIOLATION, NO_ROOM) if self._lacks_room(place, state) else None

    def _lacks_room(self, place: SharePlace, state: ShareState | None) -> bool:
        """Return whether all states together would exceed their memory limit because of an operation that adds to them."""
        added = BATCH_BYTES * len(place.batches) if isinstance(place, WriteState) else 0
        if isinstance(place, InitializeState) and state is None:
            added = STATE_BYTES
        most_bytes = self.settings.ottla_max_share_state_bytes
        if not added or (taken_bytes := self._taken_bytes()) + added <= most_bytes:
            return False
        if isinstance(place, WriteState) and state is not None:
            start_offset = state.start_offset if place.start_offset == UNKNOWN_OFFSET else place.start_offset
            if len(combine(state.batches, place.batches, start_offset)) <= len(state.batches):
                return False
        sentence = "A share partition's state was refused, because all of them take %d bytes: ottla.max.share.state.bytes is %d"
        log.warning(sentence, taken_bytes, most_bytes, extra={"cause": "ottla.max.share.state.bytes"})
        return True

    def _initialize(self, key: SharePartitionKey, place: InitializeState, state: ShareState | None, now: Now) -> Decision:
        return StateResult(), ShareSnapshot(
            key,
            snapshot_epoch=FIRST_EPOCH if state is None else state.snapshot_epoch + 1,
            state_epoch=place.state_epoch,
            leader_epoch=FIRST_EPOCH,
            start_offset=place.start_offset,
            delivery_complete_count=-1 if place.start_offset == UNKNOWN_OFFSET else 0,
            created_ms=now.wall_ms,
            written_ms=now.wall_ms,
            batches=(),
        )

    def _read(self, key: SharePartitionKey, place: ReadState, state: ShareState, now: Now) -> Decision:
        """Return a state, and store a leader epoch that is newer than the known one."""
        result = StateResult(state_epoch=state.state_epoch, start_offset=state.start_offset, batches=state.batches)
        if place.leader_epoch in (NO_EPOCH, state.newest_leader_epoch):
            return result, None
        log.info("Share partition %s has a leader in the new epoch %d", key.coordinator_key(), place.leader_epoch)
        return result, self._change(key, state, place.leader_epoch, state.start_offset, state.delivery_complete_count, (), now)

    def _write(self, key: SharePartitionKey, place: WriteState, state: ShareState, now: Now) -> Decision:
        start, complete = place.start_offset, place.delivery_complete_count
        return STORED, self._change(key, state, state.leader_epoch, start, complete, place.batches, now)

    def _change(
        self,
        key: SharePartitionKey,
        state: ShareState,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        now: Now,
    ) -> StateRecord:
        """Return the record of a change: an update, or a snapshot after the most updates that a snapshot may have."""
        if state.updates < self.settings.share_coordinator_snapshot_update_records_per_snapshot:
            changed = combine((), batches, start_offset)
            return ShareUpdate(key, state.snapshot_epoch, leader_epoch, start_offset, delivery_complete_count, changed)
        start_offset = state.start_offset if start_offset == UNKNOWN_OFFSET else start_offset
        return ShareSnapshot(
            key,
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            created_ms=now.wall_ms,
            written_ms=now.wall_ms,
            batches=combine(state.batches, batches, start_offset),
        )

    def _delete(self, key: SharePartitionKey, place: DeleteState, state: ShareState | None, now: Now) -> Decision:
        return StateResult(), None if state is None else Tombstone(key)

    def _summarize(self, key: SharePartitionKey, place: ReadState, state: ShareState | None, now: Now) -> Decision:
        if state is None:
            return StateResult(start_offset=UNKNOWN_OFFSET), None
        return StateResult(
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        ), None

    def _delete_topics(self, body: DeletedTopics, token: int) -> StateOutcome:
        gone = body.topic_ids
        keys = list(islice((key for key in self.states if key.topic_id in gone), MOST_AT_ONCE))
        reply = StatesDeleted(NONE, are_more=len(keys) == MOST_AT_ONCE)
        return Outcome(_number([Tombstone(key) for key in keys]), (Reply(token, reply),))

    def _snapshot_cold(self, now: Now) -> StateOutcome:
        """Write old snapshots again, so that the log can be pruned. If all states have been unchanged for long, write nothing."""
        if self._cold == len(self.states):
            return Outcome(timers=(self._next(Chore.SNAPSHOTS, now),))
        keys, room = list[SharePartitionKey](), MOST_AT_ONCE
        timer = self._next(Chore.SNAPSHOTS, now)
        for key in self._cold_keys(now):
            keys.append(key)
            room -= 1 + len(self.states[key].batches) // BATCHES_LIKE_ONE
            if room <= 0:
                timer = Timer(Chore.SNAPSHOTS, now.mono_ms + PAUSE_MS)
                break
        return Outcome(_number([self._repeat(key, now) for key in keys]), timers=(timer,))

    def _cold_keys(self, now: Now) -> Iterator[SharePartitionKey]:
        """Yield the share partitions with old snapshots, oldest first."""
        until_ms = now.wall_ms - self.settings.share_coordinator_cold_partition_snapshot_interval_ms
        for key in self._snapshots:
            if self.states[key].written_ms > until_ms:
                return
            yield key

    def _repeat(self, key: SharePartitionKey, now: Now) -> ShareSnapshot:
        """Return a new snapshot of an unchanged state. It differs from others by its two times."""
        state = self.states[key]
        return ShareSnapshot(
            key,
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            created_ms=state.created_ms,
            written_ms=now.wall_ms,
            batches=state.batches,
        )

    def _prune(self, now: Now) -> StateOutcome:
        offset = self.redundant_offset
        return Outcome(timers=(self._next(Chore.PRUNING, now),), orders=(PruneLog(offset),) if offset > 0 else ())

    def _next(self, chore: Chore, now: Now) -> Timer:
        settings = self.settings
        period_ms = settings.share_coordinator_state_topic_prune_interval_ms
        if chore is Chore.SNAPSHOTS:
            period_ms = settings.share_coordinator_cold_partition_snapshot_interval_ms
        return Timer(chore, now.mono_ms + period_ms)


_OPERATIONS: Final[dict[StateOperation, Callable[..., Decision]]] = {
    StateOperation.INITIALIZE: ShareStateMachine._initialize,
    StateOperation.READ: ShareStateMachine._read,
    StateOperation.WRITE: ShareStateMachine._write,
    StateOperation.DELETE: ShareStateMachine._delete,
    StateOperation.READ_SUMMARY: ShareStateMachine._summarize,
}


def _fence_error(place: SharePlace, state: ShareState, operation: StateOperation) -> int:
    """Return the error of an epoch that is older than the newest known one, else NONE. A read compares even -1."""
    if operation is StateOperation.READ and isinstance(place, ReadState):
        return FENCED_LEADER_EPOCH if place.leader_epoch < state.newest_leader_epoch else NONE
    if isinstance(place, WriteState) and NO_EPOCH != place.leader_epoch < state.newest_leader_epoch:
        return FENCED_LEADER_EPOCH
    if isinstance(place, WriteState | InitializeState) and NO_EPOCH != place.state_epoch < state.newest_state_epoch:
        return FENCED_STATE_EPOCH
    return NONE


def _apply_to_draft(state: ShareState | None, record: StateRecord) -> ShareState | None:
    """Return the state after a record that is not applied yet."""
    if isinstance(record, Tombstone):
        return None
    draft = ShareState() if state is None else state.copy()
    if isinstance(record, ShareSnapshot):
        draft.apply_snapshot(record)
    else:
        draft.apply_update(record)
    return draft


def _number(records: list[StateRecord]) -> tuple[StateRecord, ...]:
    """Return records with their places in their batch, counted from its end."""
    most = len(records)
    if most == 1:
        return (records[0],)
    return tuple(
        record if isinstance(record, ShareUpdate) or at == most - 1 else record._replace(offset=LAST - (most - 1 - at))
        for at, record in enumerate(records)
    )
