"""The life of a share partition: leaders move and linger, members are slow or dead, its coordinator crashes, its log shrinks.

The share partition and the coordinator's machine are the real ones. `ShareLedger` says what must be true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from ottla.coord.share_state.inputs import StateResult, WriteState
from ottla.share.acknowledge import ACCEPT, GAP, REJECT, RELEASE, RENEW
from ottla.share.locks import lock_deadline
from ottla.share.outcome import (
    AcknowledgeRecords,
    AcquireRecords,
    ExpireLocks,
    MoveLogStart,
    ReleaseMember,
    ShareInput,
    ShareLimits,
    ShareOutcome,
    StateRead,
    WriteResult,
)
from ottla.share.partition import SharePartition, ShareStatus
from ottla.share.persistence import FENCING_ERRORS
from ottla.wire.errors import NONE
from tests.sim.lives.played_share_coordinator import ANSWER_MS, GROUP, KEY, TOPIC_ID, PlayedClock, PlayedShareCoordinator
from tests.sim.lives.played_share_log import ABORTED, MARKER, PlayedShareLog
from tests.sim.lives.share_ledger import FINAL, LeaderLedger, ShareLedger

ACTS = 150
"""How much happens in one life."""

LOCK_MS = 200
PEACE_MS = ANSWER_MS * 3
ROUNDS = 400
"""How many fetches may be needed in the end."""

Sent = tuple[int, int, tuple[str, int] | None]
"""An acknowledged offset, its type, and who held the record until when."""


@dataclass(frozen=True, slots=True)
class ShareLifeResult:
    """What was lived."""

    seed: int
    leaders: int
    crashes: int
    records: int
    deliveries: int
    accepted: int
    refused: int
    compared: int


class PlayedShareLeader:
    """A leader of the partition: it loads, persists and expires, as a broker does."""

    def __init__(self, epoch: int, life: ShareLife) -> None:
        self.epoch, self.life = epoch, life
        self.partition = SharePartition(GROUP, TOPIC_ID, 0, epoch, life.limits)
        self.ledger: LeaderLedger | None = None
        self.is_alive = True
        self.under_way = 0
        self.fetched_from: int | None = None
        self._load()

    @property
    def is_ready(self) -> bool:
        return self.is_alive and self.partition.status is ShareStatus.ACTIVE

    def _load(self) -> None:
        self.life.coordinator.read(self.epoch, self._loaded)

    def _loaded(self, result: StateResult) -> None:
        if not self.is_alive or self.partition.status is not ShareStatus.LOADING:
            return
        if result.error_code in FENCING_ERRORS:
            self.partition.fence()
            return
        if result.error_code:  # the coordinator was not reached
            self._load()
            return
        log = self.life.log
        start = log.start if result.start_offset == -1 else result.start_offset
        self.partition.submit(StateRead(result.state_epoch, start, result.batches), self.life.clock.ms)
        self.life.ledger.check(self.is_ready, "agrees", "the coordinator's state cannot be loaded")
        self.ledger = LeaderLedger(self.life.ledger, self.partition)
        self.ledger.note_loaded(result, start)
        self.submit(MoveLogStart(log.start))

    def submit(self, asked: ShareInput, finish: Callable[[int], None] | None = None) -> ShareOutcome:
        """Submit an input after the timer has run, and persist what it changes. `finish` gets the error code in the end."""
        self.expire()
        outcome = self.partition.submit(asked, self.life.clock.ms)
        self._persist(outcome, finish)
        self.check()
        return outcome

    def expire(self) -> None:
        """Run the timer of acquisition locks if it is due."""
        next_ms = self.partition.next_deadline_ms
        if self.is_ready and next_ms is not None and next_ms <= self.life.clock.ms:
            self._persist(self.partition.submit(ExpireLocks(), self.life.clock.ms), None)

    def check(self) -> None:
        if self.is_ready and self.ledger is not None:
            self.ledger.check_now(self.life.clock.ms)

    def _persist(self, outcome: ShareOutcome, finish: Callable[[int], None] | None) -> None:
        write = outcome.write
        if write is None:
            if finish is not None:
                finish(outcome.error_code)
            return
        _, *fields = write

        def done(result: StateResult) -> None:
            self.under_way -= 1
            if not self.is_alive:
                return
            if self.ledger is not None:
                self.ledger.has_failed |= result.error_code != NONE
            ended = self.submit(WriteResult(write.token, result.error_code))
            if result.error_code in FENCING_ERRORS:
                self.partition.fence()
            if finish is not None:
                finish(ended.error_code)

        self.under_way += 1
        self.life.coordinator.write(self.epoch, WriteState(TOPIC_ID, 0, *fields), done)  # type: ignore[arg-type]  # in this order


@dataclass
class PlayedShareMember:
    """A member: what it holds, as far as it knows, at which leader."""

    name: str
    leader: PlayedShareLeader | None = None
    held: list[tuple[int, int]] = field(default_factory=list)


class ShareLife:
    """One share partition. Every choice comes from the seed."""

    def __init__(self, seed: int, *, tell: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self.clock = PlayedClock()
        self.limits = ShareLimits(random.choice((1, 2, 3, 5)), random.choice((8, 30, 200)), LOCK_MS)
        self.log = PlayedShareLog(random)
        self.coordinator = PlayedShareCoordinator(random, self.clock)
        self.ledger = ShareLedger(self.log, self.limits.delivery_count_limit)
        self.leaders: list[PlayedShareLeader] = []
        self.members: list[PlayedShareMember] = []
        self.names = 0
        self.refused = self.compared = self.moves = 0
        self._tell = tell or (lambda sentence: None)

    def live(self) -> ShareLifeResult:
        """Live the whole life. Raises `Violation` for what must not be."""
        self._move()
        for _ in range(3):
            self._join()
        acts = (self._fetch, self._acknowledge, self._write_log, self._wait, self._die, self._move, self._crash, self._shrink)
        for _ in range(ACTS):
            self.random.choices((*acts, self._compare), (30, 30, 10, 20, 3, 2, 2, 3, 1))[0]()
            self._note_start()
        self._settle()
        return ShareLifeResult(
            self.seed,
            self.moves,
            self.coordinator.life,
            len(self.log.kinds),
            sum(self.ledger.deliveries.values()),
            len(self.ledger.accepted),
            self.refused,
            self.compared,
        )

    def _note_start(self) -> None:
        state = self.coordinator.machine.states.get(KEY)
        if state is not None and len(self.coordinator.stored) == self.coordinator.durable:
            self.ledger.note_stored_start(state.start_offset)

    def _wait(self) -> None:
        """Let time pass. Timers run on time, or a little late."""
        for _ in range(self.random.choice((1, 1, 3, 10))):
            self.clock.advance(self.random.choice((1, 10, 35)))
            for leader in self.leaders:
                if leader.is_ready:
                    leader.expire()
                    leader.check()

    def _write_log(self) -> None:
        for _ in range(self.random.choice((1, 2, 6))):
            self.log.append()

    def _shrink(self) -> None:
        """Compact the log, or delete its beginning, of which each leader hears."""
        if self.random.random() < 0.6:
            self.log.compact()
            return
        self.log.delete(min(self.random.randint(self.log.start, self.log.start + 12), self.log.end))
        for leader in self.leaders:
            if leader.is_ready:
                leader.submit(MoveLogStart(self.log.start))

    def _move(self) -> None:
        """Elect a new leader. The last one may be gone, or does not know it yet."""
        self.moves += 1
        for leader in self.leaders[:-1]:
            leader.is_alive = False
        if self.leaders and self.random.random() < 0.5:
            self.leaders[-1].is_alive = False
        self.leaders = [leader for leader in self.leaders if leader.is_alive][-1:]
        self.leaders.append(PlayedShareLeader(self.moves, self))
        self._tell(f"{self.clock.ms}: leader {self.moves}")

    def _crash(self) -> None:
        self.coordinator.crash()
        self._tell(f"{self.clock.ms}: the coordinator begins anew")

    def _join(self) -> None:
        self.names += 1
        self.members.append(PlayedShareMember(f"m{self.names}"))

    def _die(self) -> None:
        """Let a member die; its leader hears of it, or finds out by its locks. Another member comes."""
        member = self.members.pop(self.random.randrange(len(self.members)))
        leader = member.leader
        if leader is not None and leader.is_ready and self.random.random() < 0.7:
            self._close(member.name, leader)
        self._join()

    def _close(self, name: str, leader: PlayedShareLeader) -> None:
        """Close the session of a member: what it holds is free once that is stored."""
        ledger = leader.ledger
        assert ledger is not None
        leader.expire()
        held = [run for run in leader.partition.runs() if run.cell.member_id == name]

        def finish(error_code: int) -> None:
            for first, last, _ in () if error_code else held:
                for offset in range(first, last + 1):
                    ledger.let_go(offset)

        leader.submit(ReleaseMember(name), finish)
        self._tell(f"{self.clock.ms}: {name} leaves leader {leader.epoch}")

    def _fetch(self, member: PlayedShareMember | None = None, sizes: Sequence[int] = (1, 3, 20)) -> None:
        """Let a member fetch from a leader that it knows."""
        member = member or self.random.choice(self.members)
        if member.leader is None or not member.leader.is_alive or self.random.random() < 0.1:
            member.leader, member.held = self.random.choice(self.leaders), []
        leader = member.leader
        leader.expire()
        if not leader.is_ready or not leader.partition.can_acquire:
            return
        offset = leader.partition.next_fetch_offset
        batches = self.log.read(offset, min(self.random.choice(sizes), 8))
        asked = AcquireRecords(
            member.name,
            offset,
            [(batch.base, batch.last) for batch in batches],
            self.random.choice(sizes),
            self.random.choice((1, 4, 100)),
            self.random.random() < 0.3,
            [(batch.base, batch.last) for batch in batches if batch.kind == ABORTED],
        )
        acquired = leader.submit(asked).acquired
        assert leader.ledger is not None
        leader.ledger.note_acquired(member.name, acquired, lock_deadline(self.clock.ms, LOCK_MS), self.clock.ms)
        if self.random.random() < 0.9 or len(sizes) == 1:  # else the answer is lost
            member.held += [(first, last) for first, last, _ in acquired]
        self._tell(f"{self.clock.ms}: {member.name} acquires {acquired} at leader {leader.epoch}")

    def _acknowledge(self, member: PlayedShareMember | None = None, kinds: Sequence[int] = ()) -> None:
        """Let a member acknowledge what it holds, or something else."""
        member = member or self.random.choice(self.members)
        leader = member.leader
        if leader is None or not leader.is_ready:
            return
        batches = []
        for first, last in sorted(member.held):
            if kinds or self.random.random() < 0.7:
                batches.append(self._types_of(first, last, kinds))
        if not kinds and self.random.random() < 0.1:
            first = self.random.randint(0, self.log.end)
            batches.append((first, first + self.random.choice((0, 3)), [self.random.randint(0, 4)]))
        self._send(member, leader, batches)
        if self.random.random() < 0.9:  # else it acknowledges twice
            member.held = [] if kinds else member.held[len(batches) :]

    def _types_of(self, first: int, last: int, kinds: Sequence[int]) -> tuple[int, int, list[int]]:
        chosen = kinds or self.random.choice(((ACCEPT,), (ACCEPT,), (RELEASE,), (REJECT,), (RENEW,), (ACCEPT, RELEASE, ACCEPT)))
        if len(chosen) == 1 and all(self.log.kinds.get(offset) != MARKER for offset in range(first, last + 1)):
            return first, last, [chosen[0]]
        return (
            first,
            last,
            [GAP if self.log.kinds.get(offset) == MARKER else chosen[offset % len(chosen)] for offset in range(first, last + 1)],
        )

    def _send(self, member: PlayedShareMember, leader: PlayedShareLeader, batches: list[tuple[int, int, list[int]]]) -> None:
        ledger = leader.ledger
        assert ledger is not None
        leader.expire()
        present = {offset for run in leader.partition.runs() for offset in range(run.first_offset, run.last_offset + 1)}
        sent: list[Sent] = []
        for first, last, types in batches:
            for offset in sorted(present & set(range(first, last + 1))):
                kind = types[0] if len(types) != last - first + 1 else types[offset - first]
                sent.append((offset, kind, ledger.holders.get(offset)))

        def finish(error_code: int) -> None:
            self.refused += bool(error_code)
            for offset, kind, holder in () if error_code else sent:
                ledger.note_confirmed(offset, kind, member.name, holder)
                if kind == RELEASE:
                    ledger.let_go(offset)

        outcome = leader.submit(AcknowledgeRecords(member.name, batches), finish)
        self.ledger.sent |= {offset for offset, kind, _ in sent if kind in FINAL}
        renewed = [offset for offset, kind, _ in sent if kind == RENEW and not outcome.error_code]
        ledger.holders.update(dict.fromkeys(renewed, (member.name, lock_deadline(self.clock.ms, LOCK_MS))))
        self._tell(f"{self.clock.ms}: {member.name} acknowledges {batches} at leader {leader.epoch}: {outcome.error_code}")

    def _compare(self) -> None:
        """Let everything that is under way end, then compare the current leader with the coordinator."""
        self.clock.advance(PEACE_MS)
        leader = self.leaders[-1]
        leader.expire()
        self.clock.advance(PEACE_MS)
        state = self.coordinator.machine.states[KEY]
        if leader.is_ready and leader.ledger is not None and not leader.under_way:
            self.compared += 1
            leader.ledger.check_agreement(state.batches, leader.partition.start_offset)

    def _settle(self) -> None:
        """Consume everything that is left, in peace."""
        self.coordinator.losses = 0
        self.clock.advance(PEACE_MS)
        self._move()
        self.leaders = self.leaders[-1:]
        self.clock.advance(PEACE_MS)
        self.ledger.check(self.leaders[0].is_ready, "nothing lost", "the last leader does not load the state")
        member = PlayedShareMember("last", self.leaders[0])
        for _ in range(ROUNDS):
            if self.leaders[0].partition.start_offset >= self.log.end:
                break
            self._fetch(member, (100,))
            self._acknowledge(member, (ACCEPT,))
            self.clock.advance(PEACE_MS)
        self._compare()
        self.ledger.check_end(self.leaders[0].partition.start_offset, self.coordinator.completed())
