"""The state of one share partition, and the effects of stored records on it."""

from __future__ import annotations

from copy import copy
from typing import Final

from ottla.coord.share_state.batches import UNKNOWN_OFFSET, StateBatch, combine
from ottla.coord.share_state.records import ShareSnapshot, ShareUpdate

NO_EPOCH: Final = -1
FIRST_EPOCH: Final = 0

STATE_BYTES: Final = 700
"""The estimated memory in bytes of a share partition's state, without its group id and its batches."""
BATCH_BYTES: Final = 200
"""The estimated memory in bytes of one state batch."""


MOST_WAITING: Final = 8
"""The most batches that wait to be combined with others. Most updates are never read one by one."""


class ShareState:
    """The state of one share partition.

    Epochs are fenced by the newest ones (`newest_leader_epoch`, `newest_state_epoch`), which a new initialization keeps. `weight`
    is the estimated memory in bytes after the last record, without the group id.
    """

    __slots__ = (
        "_combined", "_waiting", "created_ms", "delivery_complete_count", "leader_epoch", "newest_leader_epoch",
        "newest_state_epoch", "snapshot_epoch", "start_offset", "state_epoch", "updates", "weight", "written_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.snapshot_epoch = FIRST_EPOCH
        self.state_epoch = FIRST_EPOCH
        self.leader_epoch = FIRST_EPOCH
        self.start_offset = UNKNOWN_OFFSET
        self.delivery_complete_count = -1
        self.created_ms = 0
        self.written_ms = 0
        self.updates = 0
        """The number of updates since the last snapshot."""
        self.newest_leader_epoch = NO_EPOCH
        self.newest_state_epoch = NO_EPOCH
        self.weight = STATE_BYTES
        self._combined: tuple[StateBatch, ...] = ()
        self._waiting: list[StateBatch] = []
        """The batches of updates that are not combined with the others yet."""

    @property
    def batches(self) -> tuple[StateBatch, ...]:
        """Return the combined batches, without offsets below the start offset."""
        if self._waiting or (self._combined and self._combined[0][0] < self.start_offset):
            self._combined = combine(self._combined, self._waiting, self.start_offset)
            self._waiting = []
        return self._combined

    def copy(self) -> ShareState:
        """Return a copy that later records do not change."""
        copied = copy(self)
        copied._waiting = list(self._waiting)
        return copied

    @property
    def is_cold(self) -> bool:
        """Return whether the last snapshot was made because there were no changes for long."""
        return self.created_ms != self.written_ms

    def apply_snapshot(self, record: ShareSnapshot) -> None:
        self.snapshot_epoch = record.snapshot_epoch
        self.state_epoch = record.state_epoch
        self.leader_epoch = record.leader_epoch
        self.start_offset = record.start_offset
        self.delivery_complete_count = record.delivery_complete_count
        self.created_ms = record.created_ms
        self.written_ms = record.written_ms
        self._combined, self._waiting = record.batches, []
        self.updates = 0
        self.newest_leader_epoch = max(self.newest_leader_epoch, record.leader_epoch)
        self.newest_state_epoch = max(self.newest_state_epoch, record.state_epoch)
        self.weight = STATE_BYTES + BATCH_BYTES * len(self._combined)

    def apply_update(self, record: ShareUpdate) -> None:
        """Apply changes. An update has no state epoch, and -1 instead of values that it does not change."""
        start_offset = record.start_offset
        if start_offset not in (UNKNOWN_OFFSET, self.start_offset):
            self._move_start(start_offset)
        if record.leader_epoch > self.newest_leader_epoch:
            self.newest_leader_epoch = record.leader_epoch
        if record.leader_epoch != NO_EPOCH:
            self.leader_epoch = record.leader_epoch
        self.delivery_complete_count = record.delivery_complete_count
        self._waiting += record.batches
        if len(self._waiting) > MOST_WAITING:
            self._combined, self._waiting = combine(self._combined, self._waiting, self.start_offset), []
        self.updates += 1
        self.weight = STATE_BYTES + BATCH_BYTES * (len(self._combined) + len(self._waiting))

    def _move_start(self, start_offset: int) -> None:
        """Set the start offset. Batches below an earlier start offset are not restored if it moves back."""
        if start_offset < self.start_offset:
            self._combined, self._waiting = combine(self._combined, self._waiting, self.start_offset), []
        self.start_offset = start_offset
