"""What must be true of the records of a share partition, whatever happens.

| name | meaning |
|---|---|
| accepted once | an acceptance is confirmed at most once |
| accepted stays | a record whose acceptance or rejection was confirmed is complete in every later state |
| held by one | nobody acquires what another holds in the same leader's time; only the holder's acknowledgements are confirmed |
| within the limit | no delivery beyond the limit; the count grows by one with each, and is no less than what was persisted |
| locks end | what is held past its deadline is free after the timer |
| start grows | the start offset never goes back, for one leader or for the coordinator |
| agrees | a leader begins with the coordinator's state, and what is persisted in peace is what the leader has |
| nothing aborted | records of aborted transactions are never delivered |
| nothing lost | in the end every record was accepted, rejected, delivered as often as possible, or removed from the log |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ottla.coord.share_state.inputs import StateResult
from ottla.share.acknowledge import ACCEPT, GAP, REJECT
from ottla.share.cells import ACKNOWLEDGED, ACQUIRED, AVAILABLE
from ottla.share.outcome import AcquiredRange
from ottla.share.partition import SharePartition
from tests.sim.lives.played_share_log import ABORTED, MARKER, RECORDS, PlayedShareLog
from tests.sim.seeds import Violation

FINAL = (GAP, ACCEPT, REJECT)
"""The types after which a record is never delivered again."""


class ShareLedger:
    """All that members and leaders did, by offset."""

    def __init__(self, log: PlayedShareLog, limit: int) -> None:
        self.log, self.limit = log, limit
        self.accepted: dict[int, str] = {}
        self.finished: set[int] = set()
        """Offsets whose last acknowledgement was confirmed: accepted, rejected, or a gap."""
        self.sent: set[int] = set()
        """Offsets whose last acknowledgement was sent, and perhaps refused."""
        self.exhausted: set[int] = set()
        """Offsets that were delivered as often as is allowed."""
        self.deliveries: defaultdict[int, int] = defaultdict(int)
        self.stored_start = -1
        self.newest_epoch = 0
        """The epoch of the newest leader that has loaded the state: older ones deliver in vain."""

    def check(self, is_true: bool, name: str, sentence: str) -> None:
        if not is_true:
            raise Violation(f"{name}: {sentence}")

    def note_stored_start(self, start: int) -> None:
        """Note the start offset that the coordinator has."""
        self.check(start >= self.stored_start, "start grows", f"{start} is stored after {self.stored_start}")
        self.stored_start = start

    def note_confirmed(self, offset: int, kind: int, member: str) -> None:
        """Note an acknowledgement whose answer is no error."""
        if kind == ACCEPT:
            self.check(offset not in self.accepted, "accepted once", f"{offset} by {self.accepted.get(offset)} and {member}")
            self.accepted[offset] = member
        if kind in FINAL:
            self.finished.add(offset)

    def check_end(self, start: int, completed: set[int]) -> None:
        """Check the state after everything was consumed. `completed` was stored, perhaps without an answer."""
        for offset, kind in self.log.kinds.items():
            self.check(offset < start, "nothing lost", f"{offset} is still in flight at the end, from {start} on")
            done = (
                offset in self.finished or offset in self.sent & completed or offset in self.exhausted or offset in self.log.removed
            )
            self.check(done or kind != RECORDS, "nothing lost", f"{offset} was delivered {self.deliveries[offset]} times")


class LeaderLedger:
    """What one leader did, from its first state on."""

    def __init__(self, ledger: ShareLedger, partition: SharePartition) -> None:
        self.ledger, self.partition = ledger, partition
        self.counts: dict[int, int] = {}
        self.holders: dict[int, tuple[str, int]] = {}
        self.start = partition.start_offset
        self.has_failed = False
        """Whether a write failed: the coordinator may know more or less than the leader then."""

    def note_loaded(self, result: StateResult, start: int) -> None:
        """Check the first state against the coordinator's."""
        partition, check = self.partition, self.ledger.check
        stored = {offset: batch for batch in result.batches for offset in range(batch[0], batch[1] + 1)}
        check(partition.start_offset >= start, "start grows", f"{partition.start_offset} was loaded from {start}")
        runs = {offset: run.cell for run in partition.runs() for offset in range(run.first_offset, run.last_offset + 1)}
        for offset, cell in runs.items():
            _, _, state, count = stored.get(offset, (0, 0, AVAILABLE, 0))
            check(
                (cell.state, cell.delivery_count) == (state, count), "agrees", f"{offset} is {cell}, and stored is {state}, {count}"
            )
            self.counts[offset] = count
        missing = [offset for offset in stored if offset >= partition.start_offset and offset not in runs]
        check(not missing, "agrees", f"{missing} are stored, and were not loaded")
        self.start = partition.start_offset
        if partition.leader_epoch > self.ledger.newest_epoch:
            self.ledger.newest_epoch = partition.leader_epoch
            for offset in self.ledger.finished:
                is_complete = offset < self.start or (offset in runs and runs[offset].state >= ACKNOWLEDGED)
                check(is_complete, "accepted stays", f"{offset} is available again")

    def note_acquired(self, member: str, ranges: Iterable[AcquiredRange], deadline_ms: int, now_ms: int) -> None:
        """Check an acquisition."""
        for first, last, count in ranges:
            for offset in range(first, last + 1):
                self._note_delivery(offset, count, now_ms)
                self.holders[offset] = (member, deadline_ms)

    def _note_delivery(self, offset: int, count: int, now_ms: int) -> None:
        ledger, check = self.ledger, self.ledger.check
        holder, until_ms = self.holders.get(offset, ("", 0))
        check(until_ms <= now_ms, "held by one", f"{offset} is acquired while {holder} holds it")
        is_newest = self.partition.leader_epoch == ledger.newest_epoch
        check(offset not in ledger.finished or not is_newest, "accepted stays", f"{offset} is delivered again")
        is_aborted = ledger.log.kinds.get(offset) == ABORTED and offset not in ledger.log.removed
        check(not is_aborted, "nothing aborted", f"{offset} is delivered")
        known = self.counts.get(offset, 0)
        check(count == known + 1, "within the limit", f"{offset} has delivery count {count} after {known}")
        check(count <= ledger.limit, "within the limit", f"{offset} is delivered {count} times of {ledger.limit}")
        self.counts[offset] = count
        ledger.deliveries[offset] += 1
        if count >= ledger.limit:
            ledger.exhausted.add(offset)

    def note_confirmed(self, offset: int, kind: int, member: str, holder: tuple[str, int] | None) -> None:
        """Check a confirmed acknowledgement. `holder` held the record when it was sent."""
        self.ledger.check(holder is not None and holder[0] == member, "held by one", f"{member} acknowledges {offset} of {holder}")
        self.ledger.note_confirmed(offset, kind, member)

    def let_go(self, offset: int) -> None:
        self.holders.pop(offset, None)

    def check_now(self, now_ms: int) -> None:
        """Check after any step of the leader, whose timer has run."""
        partition, check = self.partition, self.ledger.check
        check(partition.start_offset >= self.start, "start grows", f"{partition.start_offset} comes after {self.start}")
        self.start = partition.start_offset
        next_ms = partition.next_deadline_ms
        for first, last, cell in partition.runs():
            if cell.state == ACQUIRED:
                check(
                    cell.deadline_ms > now_ms, "locks end", f"{first} to {last} are held by {cell.member_id} after their deadline"
                )
                check(next_ms is not None and next_ms <= cell.deadline_ms, "locks end", f"no timer for {first} to {last}")

    def check_agreement(self, stored: Iterable[tuple[int, int, int, int]], start: int) -> None:
        """Compare the leader's state with the coordinator's while nothing is under way, if no write has failed."""
        states = {offset: (batch[2], batch[3]) for batch in stored for offset in range(batch[0], batch[1] + 1)}
        for first, last, cell in self.partition.runs():
            for offset in range(max(first, start), last + 1):
                state, count = states.get(offset, (AVAILABLE, 0))
                self._compare(offset, cell.state, cell.delivery_count, state, count)

    def _compare(self, offset: int, state: int, count: int, stored: int, stored_count: int) -> None:
        sentence = f"{offset} is {state}, {count}, and stored is {stored}, {stored_count}"
        kinds, removed = self.ledger.log.kinds, self.ledger.log.removed
        if state == ACKNOWLEDGED:
            self.ledger.check(stored >= ACKNOWLEDGED, "agrees", sentence)
        elif state in (AVAILABLE, ACQUIRED) and not self.has_failed:
            held = state == ACQUIRED
            self.ledger.check((stored, stored_count) == (AVAILABLE, count - held), "agrees", sentence)
        elif not self.has_failed:
            # Aborted and compacted records are archived by each leader anew, and are not persisted.
            is_local = kinds.get(offset) in (ABORTED, MARKER) or offset in removed
            self.ledger.check(is_local or stored >= ACKNOWLEDGED, "agrees", sentence)
