"""The state of one run of records in flight: `Cell`. A value, which many runs share."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

AVAILABLE: Final = 0
"""The record can be acquired."""

ACQUIRED: Final = 1
"""A member holds the record until it acknowledges the record or its acquisition lock expires. This state is never persisted."""

ACKNOWLEDGED: Final = 2
"""The record was accepted."""

ARCHIVING: Final = 3
"""The record is on its way to a dead letter queue (KIP-1191)."""

ARCHIVED: Final = 4
"""The record is never delivered again: rejected, a gap, aborted, removed from the log, or delivered too often."""

NO_MEMBER: Final = ""
"""The member id of records that no member holds."""


class Cell(NamedTuple):
    """The state of a run of records. With a `token`, its write is under way, and `previous` is restored if the write fails."""

    state: int
    delivery_count: int
    member_id: str = NO_MEMBER
    deadline_ms: int = 0
    token: int = 0
    previous: Cell | None = None

    @property
    def is_acquirable(self) -> bool:
        """Return whether a member can acquire the records now."""
        return self.state == AVAILABLE and not self.token

    @property
    def is_complete(self) -> bool:
        """Return whether the delivery is over: accepted or archived, and no write is under way."""
        return self.state >= ACKNOWLEDGED and not self.token


@lru_cache(maxsize=1024)
def held_cell(delivery_count: int, member_id: str, deadline_ms: int) -> Cell:
    """Return the cell of records that a member holds: one object for all equal runs of a window, which can have very many."""
    return Cell(ACQUIRED, delivery_count, member_id, deadline_ms)


@lru_cache(maxsize=1024)
def free_cell(state: int, delivery_count: int) -> Cell:
    """Return the cell of records that no member holds."""
    return Cell(state, delivery_count)


UNREAD: Final = Cell(AVAILABLE, 0, deadline_ms=-1)
"""Records between persisted batches, without a persisted state: they are acquired like records after the window."""
