"""The states that share partitions may have: a model of offsets, one by one, that knows what was acknowledged or perhaps happened.

Operations of a share partition happen in the order in which they were asked for. One that was not answered, or was answered with an
error that says nothing, happened before the next one or never; so a share partition can have several states until one is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.coord.share_state.inputs import (
    DeleteState,
    InitializeState,
    SharePartitionKey,
    SharePlace,
    StateOperation,
    StateResult,
    WriteState,
)
from ottla.wire.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_LEADER_EPOCH,
    FENCED_STATE_EPOCH,
    INVALID_REQUEST,
    NONE,
    NOT_COORDINATOR,
)

SAYS_NOTHING = frozenset((COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR))
ByOffset = tuple[tuple[int, tuple[int, int]], ...]
"""The delivery count and state of each offset, in order."""


class Known(NamedTuple):
    """One state that a share partition may have; without an epoch of a state there is none."""

    is_there: bool = False
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    complete: int = -1
    offsets: ByOffset = ()
    fence_state: int = -1
    fence_leader: int = -1
    largest_leader: int = -1
    """The largest leader epoch that was ever stored: what fences after a restart is this, or the one that is known now."""

    def outcome(self, operation: StateOperation, place: SharePlace) -> tuple[Known, StateResult]:
        """Return the state after an operation, and its result."""
        error_code = self._error(operation, place)
        if error_code:
            return self, StateResult(error_code)
        if isinstance(place, InitializeState):
            return self._initialized(place), StateResult()
        if isinstance(place, WriteState):
            return self._written(place), StateResult()
        if isinstance(place, DeleteState):
            return Known(), StateResult()
        if operation is StateOperation.READ_SUMMARY:
            return self, self._summary()
        epoch, read = place.leader_epoch, self
        if epoch != self.fence_leader:
            read = self._replace(leader_epoch=epoch, fence_leader=epoch, largest_leader=max(self.largest_leader, epoch))
        return read, StateResult(state_epoch=self.state_epoch, start_offset=self.start_offset)

    def _error(self, operation: StateOperation, place: SharePlace) -> int:
        if operation in (StateOperation.READ, StateOperation.WRITE) and not self.is_there:
            return INVALID_REQUEST
        if operation is StateOperation.READ and getattr(place, "leader_epoch", 0) < self.fence_leader:
            return FENCED_LEADER_EPOCH
        if isinstance(place, WriteState) and place.leader_epoch < self.fence_leader:
            return FENCED_LEADER_EPOCH
        if isinstance(place, WriteState | InitializeState) and place.state_epoch < self.fence_state:
            return FENCED_STATE_EPOCH
        return NONE

    def _summary(self) -> StateResult:
        if not self.is_there:
            return StateResult(start_offset=-1)
        return StateResult(
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.complete,
        )

    def _initialized(self, place: InitializeState) -> Known:
        return Known(
            True,
            place.state_epoch,
            0,
            place.start_offset,
            -1 if place.start_offset < 0 else 0,
            (),
            max(self.fence_state, place.state_epoch),
            max(self.fence_leader, 0),
            max(self.largest_leader, 0),
        )

    def _written(self, place: WriteState) -> Known:
        start = self.start_offset if place.start_offset < 0 else place.start_offset
        found = {offset: info for offset, info in self.offsets if offset >= start}
        for first, last, state, count in place.batches:
            for offset in range(max(first, start), last + 1):
                found[offset] = max(found.get(offset, (-1, -1)), (count, state))
        return self._replace(start_offset=start, complete=place.delivery_complete_count, offsets=tuple(sorted(found.items())))

    def restarted(self) -> set[Known]:
        """Return the states that a new coordinator may know: an initialization forgets older epochs, but the log may have them."""
        if not self.is_there:
            return {self}
        own = self._replace(fence_leader=self.leader_epoch, fence_state=self.state_epoch)
        return {self, own, own._replace(fence_leader=self.largest_leader), self._replace(fence_leader=self.largest_leader)}


class Asked(NamedTuple):
    """An operation that is not answered yet."""

    operation: StateOperation
    place: SharePlace


class ShareStateLedger:
    """The states that each share partition may have, and the operations that are under way."""

    def __init__(self) -> None:
        self._states: dict[SharePartitionKey, set[Known]] = {}
        self._asked: dict[SharePartitionKey, list[Asked]] = {}
        self.acknowledged = 0

    @property
    def keys(self) -> list[SharePartitionKey]:
        return list(self._states)

    @property
    def is_quiet(self) -> bool:
        return not any(self._asked.values())

    def forget(self, topic_id: bytes) -> None:
        """The topic is deleted, and the states of its share partitions with it."""
        for key in [key for key in self._states if key.topic_id == topic_id]:
            del self._states[key]
            self._asked.pop(key, None)

    def ask(self, key: SharePartitionKey, operation: StateOperation, place: SharePlace) -> Asked:
        self._states.setdefault(key, {Known()})
        asked = Asked(operation, place)
        self._asked.setdefault(key, []).append(asked)
        return asked

    def answer(self, key: SharePartitionKey, asked: Asked, result: StateResult) -> None:
        """Compare a result with the states that the share partition may have, and keep those that explain it."""
        if key not in self._states:
            return  # its topic is gone
        waiting = self._asked[key]
        assert waiting[0] is asked, f"{key.coordinator_key()}: {asked} was answered before {waiting[0]}"
        waiting.pop(0)
        if result.error_code in SAYS_NOTHING:
            self._perhaps(key, asked)
            return
        before = self._states[key]
        after = {
            state for known in before for state, expected in (known.outcome(*asked),) if _is_same(known, expected, asked, result)
        }
        assert after, f"{key.coordinator_key()}: {asked} was answered with {result}, where the state may be {sorted(before)}"
        self._states[key] = after
        self.acknowledged += 1

    def restart(self) -> None:
        """The coordinator ended: what was under way happened in its order up to some operation."""
        for key, waiting in self._asked.items():
            for asked in waiting:
                self._perhaps(key, asked)
            waiting.clear()
        self._states = {key: {new for known in states for new in known.restarted()} for key, states in self._states.items()}

    def _perhaps(self, key: SharePartitionKey, asked: Asked) -> None:
        self._states[key] |= {known.outcome(*asked)[0] for known in self._states[key]}


def _is_same(known: Known, expected: StateResult, asked: Asked, result: StateResult) -> bool:
    """Return whether a result is the expected one; batches of a read may be divided in any way."""
    if expected._replace(error_message=None, batches=()) != result._replace(error_message=None, batches=()):
        return False
    if asked.operation is not StateOperation.READ or result.error_code:
        return True
    return known.offsets == _by_offset(result.batches)


def _by_offset(batches: Sequence[tuple[int, int, int, int]]) -> ByOffset:
    found: dict[int, tuple[int, int]] = {}
    for first, last, state, count in batches:
        for offset in range(first, last + 1):
            assert offset not in found, f"offset {offset} is in two batches of {batches}"
            found[offset] = count, state
    return tuple(sorted(found.items()))
