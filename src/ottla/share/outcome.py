"""The inputs of a share partition, and the outcomes of its decisions. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.share.window import CellChange
from ottla.wire.errors import NONE


class ShareLimits(NamedTuple):
    """The settings of a share group that its share partitions need."""

    delivery_count_limit: int = 5
    max_record_locks: int = 2000
    lock_duration_ms: int = 30_000


DEFAULT_LIMITS: Final = ShareLimits()
"""The defaults of `group.share.*`."""


class StateBatch(NamedTuple):
    """The persisted state of a range of records: `delivery_state` is 0 (available), 2 (acknowledged) or 4 (archived)."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class AcquiredRange(NamedTuple):
    """A range of records that a member acquired, and the number of their deliveries, including this one."""

    first_offset: int
    last_offset: int
    delivery_count: int


class StateRead(NamedTuple):
    """An input: the persisted state. The owner has replaced an unknown start offset by that of `share.auto.offset.reset`."""

    state_epoch: int
    start_offset: int
    batches: Sequence[tuple[int, int, int, int]] = ()


class AcquireRecords(NamedTuple):
    """An input: a member fetched `batches` of the log, which are pairs of base offset and last offset, from `fetch_offset`.

    In batch-optimized mode, `max_records` may be exceeded up to the end of a batch. `aborted` are the ranges of batches of
    aborted transactions, in order.
    """

    member_id: str
    fetch_offset: int
    batches: Sequence[tuple[int, int]]
    max_records: int
    batch_size: int
    is_record_limited: bool = False
    aborted: Sequence[tuple[int, int]] = ()


class AcknowledgeRecords(NamedTuple):
    """An input: a member acknowledges ranges of records: first offset, last offset, one type for all or one for each record."""

    member_id: str
    batches: Sequence[tuple[int, int, Sequence[int]]]


class ReleaseMember(NamedTuple):
    """An input: a member's share session has ended, so that its records from an offset on are released. The delivery counts.

    One decision examines a limited number of runs. Its outcome has the offset from which the release must continue.
    """

    member_id: str
    first_offset: int = 0


class ExpireLocks(NamedTuple):
    """An input: the deadline of acquisition locks has passed. If there are very many, the next deadline has passed as well."""


class MoveLogStart(NamedTuple):
    """An input: the log starts at a later offset, after retention or DeleteRecords."""

    log_start_offset: int


class WriteResult(NamedTuple):
    """An input: the `StateWrite` with this token has ended."""

    token: int
    error_code: int


ShareInput = StateRead | AcquireRecords | AcknowledgeRecords | ReleaseMember | ExpireLocks | MoveLogStart | WriteResult


class StateWrite(NamedTuple):
    """An order to persist states. The result comes back as a `WriteResult` with the same token."""

    token: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class WindowGrowth(NamedTuple):
    """New records at the end of the window, and where in-flight batches begin in it besides `first_offset`."""

    first_offset: int
    last_offset: int


class ShareOutcome(NamedTuple):
    """A decision. With an error code, it changes nothing.

    `wakes`: records may have become acquirable, so that waiting fetches should try again. `next_offset`: a release must continue
    there. The other fields are for `apply` alone.
    """

    error_code: int = NONE
    error_message: str | None = None
    acquired: tuple[AcquiredRange, ...] = ()
    write: StateWrite | None = None
    wakes: bool = False
    next_offset: int | None = None
    changes: Sequence[CellChange] = ()
    growth: WindowGrowth | None = None
    bounds: Sequence[int] = ()
    start_offset: int | None = None
    trims: bool = False
    expired_count: int = 0
    finished_token: int = 0
    read: StateRead | None = None


NO_OUTCOME: Final = ShareOutcome()
"""The outcome of an input that changes nothing."""


def refuse(error_code: int, error_message: str) -> ShareOutcome:
    """Return the outcome of a refused input."""
    return ShareOutcome(error_code, error_message)
