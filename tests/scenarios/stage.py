"""A coordinator on a stage: inputs go in, what comes out is carried out as a broker would, and invariants are checked each time.

Pure: the clock is a number, storage a list of encoded records, and member ids are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from ottla.coord.classic.events import JoinCompleted, RebalanceBegun
from ottla.coord.classic.group import ClassicGroup, weight_of
from ottla.coord.classic.states import NEXT, State
from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.consumer.group import ConsumerGroup
from ottla.coord.consumer.records import EpochForgotten
from ottla.coord.consumer.states import MemberState
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.group_machine import GroupMachine
from ottla.coord.outcome import GroupOutcome, TopicsChanged
from ottla.coord.records import GroupStored, Stored, decode_record, encode_record
from ottla.coord.runtime.machine import Due, Input, Reply
from ottla.coord.settings import GroupSettings
from ottla.coord.share.group import ShareGroup, weight_of_partitions
from ottla.ports import Now
from ottla.wire.errors import GROUP_MAX_SIZE_REACHED, MEMBER_ID_REQUIRED, NONE, REBALANCE_IN_PROGRESS
from tests.support.coordinator_records import everything, is_stored

WALL_MS = 1_700_000_000_000

MOVES = {(before, after) for (before, _), after in NEXT.items()}
Watch = Callable[[GroupOutcome], None]
WatchDue = Callable[[Hashable], None]


@dataclass
class Stage:
    """`heard` keeps every reply by token, `waiting` the tokens that none came for, `log` what a restart reads back.

    `orders` are those that nobody has executed.
    """

    settings: GroupSettings = field(default_factory=GroupSettings)
    watch: Watch = lambda outcome: None
    watch_due: WatchDue = lambda key: None

    def __post_init__(self) -> None:
        self.now_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[Hashable, int] = {}
        self.waiting: dict[int, Any] = {}
        self.heard: dict[int, Any] = {}
        self.orders: list[Any] = []
        self.topics = KnownTopics()
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
        self._decide(Input(body, version, client_id, "/127.0.0.1", self._tokens))
        return self._tokens

    def tell(self, body: Any) -> None:
        """Put in something that nobody sent."""
        if isinstance(body, TopicsChanged):
            self.topics = body.topics
        self._decide(Input(body))

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
        self.orders.clear()
        self.machine = self._new_machine()
        self.machine.apply(TopicsSeen(self.topics, frozenset(), new=False))
        for key, value in self.log:
            record = decode_record(key, value)
            assert record is not None
            self.machine.apply(record)
        self._carry_out(self.machine.recall(self.now))

    def _new_machine(self) -> GroupMachine:
        return GroupMachine(self.settings, self._new_id)

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def _decide(self, asked: Input[Any]) -> None:
        before = fingerprint(self.machine)
        outcome = self.machine.decide(asked, self.now)
        assert fingerprint(self.machine) == before, "deciding changed the state"
        check_errors(outcome, asked.token)
        self._carry_out(outcome)

    def _carry_out(self, outcome: GroupOutcome) -> None:
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
        self.orders += outcome.orders
        self._check_replica(outcome)
        for group in self.machine.classic.groups.values():
            check_settled(group)
        for consumers in self.machine.consumers.groups.values():
            check_consumers(consumers)
        for shares in self.machine.shares.groups.values():
            check_shares(shares)
        tables = self.machine.context.tables
        assert self.machine.weight == sum(group.weight for kind in tables for group in kind.values())
        assert len({group_id for kind in tables for group_id in kind}) == sum(map(len, tables)), "a group of two kinds"

    def _apply(self, record: Any) -> None:
        group_id = getattr(record, "group_id", "")
        group = self.machine.classic.groups.get(group_id)
        before = State.EMPTY if group is None else group.state
        if group is None and isinstance(record, GroupStored) and record.members:
            before = State.STABLE  # what had been a consumer group
        self.machine.apply(record)
        group = self.machine.classic.groups.get(group_id)
        if group is not None:
            check_group(group, before)
        if is_stored(record):
            stored = encode_record(record)
            self.log.append(stored)
            read_back = decode_record(*stored)
            assert read_back == record
            self._replica.apply(record)

    def _check_replica(self, outcome: GroupOutcome) -> None:
        """Whoever reads the stored records has the same offsets, and the same group whenever one was stored."""
        stored = stored_of(outcome)
        if stored:
            assert everything(self._replica.offsets) == everything(self.machine.offsets)
        for record in stored:
            if isinstance(record, GroupStored) and not isinstance(outcome.records[-1], RebalanceBegun | JoinCompleted):
                live, kept = self.machine.classic.groups[record.group_id], self._replica.classic.groups[record.group_id]
                assert at_rest(live) == at_rest(kept)
        live_groups, kept_groups = self.machine.consumers.groups, self._replica.consumers.groups
        for group_id in {getattr(record, "group_id", "") for record in stored}:
            live_group, kept_group = live_groups.get(group_id), kept_groups.get(group_id)
            assert (live_group is None) == (kept_group is None)
            assert live_group is None or kept_group is None or stored_state(live_group) == stored_state(kept_group)
            live_shares, kept_shares = self.machine.shares.groups.get(group_id), self._replica.shares.groups.get(group_id)
            assert (live_shares is None) == (kept_shares is None)
            assert live_shares is None or kept_shares is None or stored_shares(live_shares) == stored_shares(kept_shares)


def stored_of(outcome: GroupOutcome) -> list[Stored]:
    return [record for record in outcome.records if is_stored(record)]


def fingerprint(machine: GroupMachine) -> Any:
    groups = [[repr(getattr(group, name)) for name in ClassicGroup.__slots__] for group in machine.classic.groups.values()]
    groups += [[repr(getattr(group, name)) for name in ConsumerGroup.__slots__] for group in machine.consumers.groups.values()]
    groups += [[repr(getattr(group, name)) for name in SHARE_FIELDS] for group in machine.shares.groups.values()]
    return groups, everything(machine.offsets)


def stored_state(group: ConsumerGroup) -> Any:
    volatile = ("stale", "stale_patterns", "seeking", "assigning", "rejoining")
    return [getattr(group, name) for name in ConsumerGroup.__slots__ if name not in volatile]


SHARE_FIELDS = [name for name in ShareGroup.__slots__ if name != "covered"]
"""What a decision must not change: all but a cache."""


def stored_shares(group: ShareGroup) -> Any:
    return [getattr(group, name) for name in SHARE_FIELDS if name not in ("stale", "assigning", "begun_ms")]


def check_shares(group: ShareGroup) -> None:
    """What is true of a share group whenever a decision has been carried out."""
    assert set(group.targets) <= set(group.members)
    assert all(member.epoch <= max(group.assignment_epoch, 0) for member in group.members.values())
    assert group.assignment_epoch <= group.epoch
    assert sum(group.subscriptions.values()) == sum(bool(member.topics) for member in group.members.values())
    assert set(group.begun_ms) <= set(group.initializing)
    assert not set(group.deleting) & set(group.initializing)
    for topic_id, numbers in (held for partitions in group.targets.values() for held in partitions.items()):
        assert topic_id not in group.initialized or numbers <= group.initialized[topic_id].partitions
    weight = sum(member.weight + weight_of_partitions(member.assigned) for member in group.members.values())
    weight += sum(map(weight_of_partitions, group.targets.values()))
    for part in (group.initializing, group.initialized):
        weight += weight_of_partitions({topic_id: held.partitions for topic_id, held in part.items()})
    assert group.weight == weight


def at_rest(group: ClassicGroup) -> Any:
    assignments = {member.member_id: member.assignment for member in group.members.values()}
    return group.state, group.topics, group.at_rest(assignments, group.state_timestamp_ms)


def check_errors(outcome: GroupOutcome, token: int) -> None:
    """A request that was refused stores nothing; and changes nothing either, but for who is given an id or has no room."""
    for reply in outcome.replies:
        error_code = error_of(reply)
        if reply.token == token and error_code != NONE:
            # Who is given a member id in what had been a consumer group, without members by now, begins a classic group.
            stored = stored_of(outcome)
            assert not stored or (error_code == MEMBER_ID_REQUIRED and type(stored[-1]) is EpochForgotten)
            allowed = (MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED, REBALANCE_IN_PROGRESS)
            assert not outcome.records or error_code in allowed


def error_of(reply: Reply) -> int:
    error_code: int = getattr(reply.message, "error_code", NONE)
    return error_code


def check_group(group: ClassicGroup, before: State) -> None:
    """What is true of a group after every single record."""
    members = set(group.members)
    assert group.state is before or (before, group.state) in MOVES, f"{before} -> {group.state}"
    assert set(group.joining) <= members
    assert set(group.syncing) <= members
    assert set(group.unsynced) <= members
    assert not members & set(group.invited)
    assert set(group.static.values()) == {m.member_id for m in group.members.values() if m.group_instance_id is not None}
    assert group.leader is None or group.leader in members


def check_consumers(group: ConsumerGroup) -> None:
    """What is true of a consumer group whenever a decision has been carried out."""
    held = [
        (topic_id, partition, member.member_id)
        for member in group.members.values()
        for part in (member.assigned, member.revoking)
        for topic_id, partitions in part.items()
        for partition in partitions
    ]
    assert len({place[:2] for place in held}) == len(held), "a partition with two members"
    assert {(topic_id, partition): member_id for topic_id, partition, member_id in held} == {
        (topic_id, partition): member_id for topic_id, owners in group.owners.items() for partition, member_id in owners.items()
    }
    assert set(group.static.values()) == {m.member_id for m in group.members.values() if m.instance_id is not None}
    assert set(group.targets) <= set(group.members)
    assert set(group.resolved) <= set(group.patterns)
    assert group.classic_count == sum(member.classic is not None for member in group.members.values())
    assert all(member.epoch <= group.assignment_epoch for member in group.members.values())
    for member in group.members.values():
        assert bool(member.revoking) == (member.state is MemberState.UNREVOKED_PARTITIONS)


def check_settled(group: ClassicGroup) -> None:
    """What is true of a group whenever a decision has been carried out."""
    assert group.weight == weight_of(group)
    if group.state is State.STABLE:
        assert group.leader is not None
        assert group.supported.get(group.protocol or "") == len(group.members)
        assert not group.syncing
        assert not group.joining
    if group.state is State.EMPTY:
        assert not group.members
    if group.state is State.PREPARING_REBALANCE:
        assert not group.all_joined or group.is_initial_rebalance, "nobody is missing, yet everybody waits"
