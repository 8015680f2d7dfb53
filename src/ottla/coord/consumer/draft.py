"""A decision about one consumer group in the making: records, replies and timers are collected, and nothing is changed.

Knows no rules: they call it. Members and targets are values, so that a rule hands on what they become instead of a changed group.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.coord.classic.events import ClassicEvent
from ottla.coord.consumer.assign import Assignor
from ottla.coord.consumer.events import ConsumerEvent
from ottla.coord.consumer.group import ConsumerGroup, apply
from ottla.coord.consumer.member import ConsumerMember
from ottla.coord.consumer.records import ConsumerStored, CurrentStored, MemberStored
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.outcome import MemberSyncGroupKey, RebalanceKey, RejoinKey, SessionKey, TimerKey
from ottla.coord.records import GroupForgotten, GroupStored
from ottla.coord.runtime.machine import NOBODY, Outcome, Reply, Timer
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire.schema import Message

SESSION_TIMEOUT, HEARTBEAT_INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"

GroupEvent = ConsumerStored | ConsumerEvent | GroupStored | GroupForgotten | ClassicEvent
OfGroup = Callable[[str], Mapping[str, int]]
"""Group id -> what was set for this group alone, by Kafka's names ("consumer.session.timeout.ms")."""


class Refusal(NamedTuple):
    """Why a request can't be granted: nothing of what was decided so far holds. `message` is one sentence for the client's log."""

    error_code: int
    message: str


@dataclass(frozen=True, slots=True)
class Context:
    """What every decision may look at besides its group. The first of the `assignors` is the one of who names none."""

    settings: GroupSettings
    of_group: OfGroup
    assignors: Mapping[str, Assignor]
    topics: KnownTopics
    new_id: Callable[[], str]


class ConsumerDraft:
    """Collects what is decided.

    `group` is the group as it is, which nobody may change; `replaced` the member whose seat somebody else takes; `unsettled` says
    that the group needs a new assignment whatever is asked.
    """

    __slots__ = ("_of_group", "_records", "_replies", "_timers", "context", "group", "now", "replaced", "token", "unsettled")

    def __init__(self, group: ConsumerGroup, context: Context, now: Now, token: int = NOBODY) -> None:
        self.group = group
        self.context = context
        self.now = now
        self.token = token
        self.replaced: str | None = None
        self.unsettled = False
        self._of_group: Mapping[str, int] | None = None
        self._records: list[GroupEvent] = []
        self._replies: list[Reply] = []
        self._timers: dict[Hashable, int | None] = {}

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def store(self, record: GroupEvent) -> None:
        self._records.append(record)

    def found(self, group: ConsumerGroup, records: Iterable[ConsumerStored]) -> None:
        """Let a new group stand in place of the present one, with these records as its beginning."""
        for record in records:
            apply(group, record)
            self._records.append(record)
        self.group = group

    def answer(self, message: Message) -> None:
        """Reply to the input at hand."""
        self._replies.append(Reply(self.token, message))

    def take_over(self, outcome: Outcome[ClassicEvent | GroupStored]) -> None:
        """Let what another machine decided be a part of this decision."""
        self._records += outcome.records
        self._replies += outcome.replies
        self._timers |= {timer.key: timer.deadline_ms for timer in outcome.timers}

    def after(self, key: TimerKey, delay_ms: int) -> None:
        self._timers[key] = self.now.mono_ms + delay_ms

    def cancel(self, key: TimerKey) -> None:
        self._timers[key] = None

    def setting(self, name: str, otherwise: int) -> int:
        """What was set for this group alone, or for all."""
        if self._of_group is None:
            self._of_group = self.context.of_group(self.group_id)
        return self._of_group.get(name, otherwise)

    def expect(self, member: ConsumerMember) -> None:
        """Begin a member's session timeout anew. Those that speak the classic protocol ask for their own."""
        timeout_ms = self.context.settings.group_consumer_session_timeout_ms
        timeout_ms = self.setting(SESSION_TIMEOUT, timeout_ms) if member.classic is None else member.classic.session_timeout_ms
        self.after(SessionKey(self.group_id, member.member_id), timeout_ms)

    def forget(self, member: ConsumerMember) -> None:
        """Stop all that waits for a member."""
        for kind in (SessionKey, RebalanceKey) if member.classic is None else (SessionKey, RejoinKey, MemberSyncGroupKey):
            self.cancel(kind(self.group_id, member.member_id))

    def outcome(self) -> Outcome[GroupEvent]:
        timers = tuple(Timer(key, deadline_ms) for key, deadline_ms in self._timers.items())
        return Outcome(tuple(self._records), tuple(self._replies), timers)


def member_record(group_id: str, member: ConsumerMember) -> MemberStored:
    """The record that keeps what a member said of itself."""
    return MemberStored(
        group_id,
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.topics,
        member.pattern,
        member.rebalance_timeout_ms,
        member.assignor,
        member.classic,
    )


def current_record(group_id: str, member: ConsumerMember) -> CurrentStored:
    """The record that keeps what a member has."""
    return CurrentStored(
        group_id, member.member_id, member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking
    )
