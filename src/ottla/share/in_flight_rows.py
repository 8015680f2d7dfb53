"""The records in flight of share groups as rows of a table: state, member, deliveries, and the remaining time of the lock.

Pure. It reads share partitions in pieces and changes nothing. Between two pieces, the share partitions may change.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from ottla.share.cells import ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE
from ottla.share.partition import SharePartition
from ottla.share.window import InFlightRun

MOST_ROWS: Final = 1_000
"""The most rows of a group."""
MOST_RUNS: Final = 50_000
"""The most runs that one request reads: about a tenth of a second of work in pieces."""
RUNS_AT_ONCE: Final = 200
"""The runs that are read between two pauses, in about a millisecond."""

STATES: Final = {
    AVAILABLE: "available",
    ACQUIRED: "acquired",
    ACKNOWLEDGED: "acknowledged",
    ARCHIVING: "archiving",
    ARCHIVED: "archived",
}
"""The names of states of records, as Kafka's documents have them."""

Place = tuple[str, int]
"""(topic, partition)"""


class InFlightQuery(NamedTuple):
    """A filter of records in flight of a group: in `topics`, in a state and of a member (empty: all), with minimal deliveries."""

    group_id: str
    topics: frozenset[str]
    state: str = ""
    member_id: str = ""
    min_deliveries: int = 0
    most_rows: int = MOST_ROWS


class InFlightRow(NamedTuple):
    """Neighbouring records of a partition in one state.

    `member_id` is the member that holds or has acknowledged them; empty without one. `lock_ms` is the remaining time of their
    lock, or None without a lock. With `is_pending`, the share coordinator has not stored their state yet.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    state: str
    member_id: str
    delivery_count: int
    lock_ms: int | None
    is_pending: bool


class GroupInFlight:
    """The records in flight of a group at one broker. `matching` counts the rows that match, also beyond `rows`.

    `acquired` has the number of records that members hold in each loaded share partition, `held` that of each member. `failures`
    has the error names of share partitions that could not be loaded. `unread` counts those that were not read completely.
    """

    __slots__ = ("acquired", "delivery_count_limit", "failures", "held", "matching", "rows", "unread")

    def __init__(self) -> None:
        self.rows: list[InFlightRow] = []
        self.matching = 0
        self.acquired: dict[Place, int] = {}
        self.held: dict[str, int] = {}
        self.failures: dict[Place, str] = {}
        self.unread = 0
        self.delivery_count_limit = 0


class RunBudget:
    """The runs that a request may still read."""

    __slots__ = ("left",)

    def __init__(self, left: int = MOST_RUNS) -> None:
        self.left = left


class InFlightReader:
    """Reads the share partitions of one group for a query. `now_ms` is a time of the clock of their locks."""

    def __init__(self, query: InFlightQuery, now_ms: int, budget: RunBudget) -> None:
        self.query = query
        self.found = GroupInFlight()
        self._now_ms = now_ms
        self._budget = budget

    def read(self, topic: str, partition: SharePartition) -> Iterator[None]:
        """Read the runs of a share partition. Pause after each piece."""
        found, budget, where = self.found, self._budget, (topic, partition.partition)
        found.delivery_count_limit = partition.limits.delivery_count_limit
        found.acquired[where] = 0
        offset = partition.start_offset
        while offset <= partition.end_offset:
            if budget.left <= 0:
                found.unread += 1
                return
            piece = list(islice(partition.runs(offset), RUNS_AT_ONCE))
            budget.left -= len(piece)
            for run in piece:
                self._add(where, run)
            yield None
            if not piece:
                return
            offset = piece[-1].last_offset + 1

    def _add(self, where: Place, run: InFlightRun) -> None:
        found, (first, last, cell) = self.found, run
        if cell.state == ACQUIRED:
            found.acquired[where] += last - first + 1
            found.held[cell.member_id] = found.held.get(cell.member_id, 0) + last - first + 1
        state, holder = STATES.get(cell.state, ""), cell if cell.previous is None else cell.previous
        if not self._matches(state, holder.member_id, cell.delivery_count):
            return
        found.matching += 1
        if len(found.rows) < self.query.most_rows:
            lock_ms = cell.deadline_ms - self._now_ms if cell.state == ACQUIRED else None
            pending = bool(cell.token)
            row = InFlightRow(*where, first, last, state, holder.member_id, cell.delivery_count, lock_ms, pending)
            found.rows.append(row)

    def _matches(self, state: str, member_id: str, delivery_count: int) -> bool:
        query = self.query
        return query.state in ("", state) and query.member_id in ("", member_id) and delivery_count >= query.min_deliveries
