"""A coordinator on a stage: inputs go in, what comes out is carried out as a broker would, and invariants are checked each time.

Pure: the clock is a number, storage a list of encoded records, and member ids are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.coord.classic.group import Group
from ottla.coord.classic.states import NEXT, State
from ottla.coord.coordinator import Coordinator
from ottla.coord.outcome import Asked, Due, Outcome, Reply, TimerKey
from ottla.coord.records import GroupStored, decode_record, encode_record, is_stored
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire.errors import GROUP_MAX_SIZE_REACHED, MEMBER_ID_REQUIRED, NONE

WALL_MS = 1_700_000_000_000

MOVES = {(before, after) for (before, _), after in NEXT.items()}
Watch = Callable[[Outcome], None]
WatchDue = Callable[[TimerKey], None]


@dataclass
class Stage:
    """`heard` keeps every reply by token, `waiting` the tokens that none came for, `log` what a restart reads back."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    watch: Watch = lambda outcome: None
    watch_due: WatchDue = lambda key: None

    def __post_init__(self) -> None:
        self.now_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[TimerKey, int] = {}
        self.waiting: dict[int, Any] = {}
        self.heard: dict[int, Any] = {}
        self._ids = 0
        self._tokens = 0
        self.machine = self._new_machine()
        self._replica = self._new_machine()

    @property
    def now(self) -> Now:
        return Now(WALL_MS + self.now_ms, self.now_ms)

    def ask(self, body: Any, version: int, client_id: str) -> int:
        """Put one request in; the answer is the token under which its reply is heard."""
        self._tokens += 1
        self.waiting[self._tokens] = body
        self._decide(Asked(body, version, client_id, "/127.0.0.1", self._tokens))
        return self._tokens

    def tell(self, body: Any) -> None:
        """Put in something that nobody sent."""
        self._decide(Asked(body))

    def wait(self, ms: int) -> None:
        """Let time pass; deadlines come in their order."""
        until_ms = self.now_ms + ms
        while self.timers:
            key = min(self.timers, key=lambda k: self.timers[k])
            if self.timers[key] > until_ms:
                break
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self.watch_due(key)
            self.tell(Due(key))
        self.now_ms = until_ms

    def restart(self) -> None:
        """Lose all that is not stored."""
        self.timers.clear()
        self.waiting.clear()
        self.machine = self._new_machine()
        for key, value in self.log:
            record = decode_record(key, value)
            assert record is not None
            self.machine.apply(record)
        self._carry_out(self.machine.recall(self.now))

    def _new_machine(self) -> Coordinator:
        return Coordinator(self.settings, self._new_id)

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def _decide(self, asked: Asked[Any]) -> None:
        before = fingerprint(self.machine)
        outcome = self.machine.decide(asked, self.now)
        assert fingerprint(self.machine) == before, "deciding changed the state"
        check_errors(outcome, asked.token)
        self._carry_out(outcome)

    def _carry_out(self, outcome: Outcome) -> None:
        self.watch(outcome)
        for record in outcome.records:
            self._apply(record)
        for reply in outcome.replies:
            assert self.waiting.pop(reply.token, None) is not None, f"two replies, or one that nobody waits for: {reply}"
            self.heard[reply.token] = reply.message
        for timer in outcome.timers:
            self.timers.pop(timer.key, None)
            if timer.deadline_ms is not None:
                self.timers[timer.key] = timer.deadline_ms
        self._check_replica(outcome)
        for group in self.machine.groups.values():
            check_settled(group)

    def _apply(self, record: Any) -> None:
        group = self.machine.groups.get(record.group_id)
        before = State.EMPTY if group is None else group.state
        self.machine.apply(record)
        group = self.machine.groups.get(record.group_id)
        if group is not None:
            check_group(group, before)
        if is_stored(record):
            stored = encode_record(record)
            self.log.append(stored)
            read_back = decode_record(*stored)
            assert read_back == record
            self._replica.apply(record)

    def _check_replica(self, outcome: Outcome) -> None:
        """Whoever reads the stored records has the same offsets, and the same group whenever one was stored."""
        if outcome.stored:
            assert list(self._replica.offsets.everything()) == list(self.machine.offsets.everything())
        for record in outcome.stored:
            if isinstance(record, GroupStored):
                live, kept = self.machine.groups[record.group_id], self._replica.groups[record.group_id]
                assert at_rest(live) == at_rest(kept)


def fingerprint(machine: Coordinator) -> Any:
    groups = [[repr(getattr(group, name)) for name in Group.__slots__] for group in machine.groups.values()]
    return groups, list(machine.offsets.everything())


def at_rest(group: Group) -> Any:
    assignments = {member.member_id: member.assignment for member in group.members.values()}
    return group.state, group.topics, group.at_rest(assignments, group.state_timestamp_ms)


def check_errors(outcome: Outcome, token: int) -> None:
    """A request that was refused stores nothing; and changes nothing either, but for who is given an id or has no room."""
    for reply in outcome.replies:
        error_code = error_of(reply)
        if reply.token == token and error_code != NONE:
            assert not outcome.stored
            assert not outcome.records or error_code in (MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED)


def error_of(reply: Reply) -> int:
    error_code: int = getattr(reply.message, "error_code", NONE)
    return error_code


def check_group(group: Group, before: State) -> None:
    """What is true of a group after every single record."""
    members = set(group.members)
    assert group.state is before or (before, group.state) in MOVES, f"{before} -> {group.state}"
    assert set(group.joining) <= members
    assert set(group.syncing) <= members
    assert set(group.unsynced) <= members
    assert not members & set(group.invited)
    assert set(group.static.values()) == {m.member_id for m in group.members.values() if m.group_instance_id is not None}
    assert group.leader is None or group.leader in members


def check_settled(group: Group) -> None:
    """What is true of a group whenever a decision has been carried out."""
    if group.state is State.STABLE:
        assert group.leader is not None
        assert group.supported.get(group.protocol or "") == len(group.members)
        assert not group.syncing
        assert not group.joining
    if group.state is State.EMPTY:
        assert not group.members
    if group.state is State.PREPARING_REBALANCE:
        assert not group.all_joined or group.is_initial_rebalance, "nobody is missing, yet everybody waits"
