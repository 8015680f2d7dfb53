"""The draft of a decision about one consumer group: it collects records, replies and timers, and changes nothing.

The rules of the protocol are elsewhere, as functions of a draft. Members and targets are immutable values, so rules return new
values and do not change the group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.coord.classic.events import ClassicEvent
from ottla.coord.consumer.group import ConsumerGroup, apply
from ottla.coord.consumer.member import ConsumerMember
from ottla.coord.consumer.records import ConsumerStored, CurrentStored, MemberStored
from ottla.coord.groups import Context
from ottla.coord.outcome import GroupOutcome, GroupRecord, MemberSyncGroupKey, RebalanceKey, RejoinKey, SessionKey, TimerKey
from ottla.coord.records import GroupStored
from ottla.coord.runtime.machine import NOBODY, Outcome, Reply, Shown, Timer, every_topic
from ottla.ports import Now
from ottla.wire.schema import Message

SESSION_TIMEOUT, HEARTBEAT_INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"


class Refusal(NamedTuple):
    """The refusal of a request, after which the draft must be discarded. `message` is one sentence for the client."""

    error_code: int
    message: str


@dataclass(slots=True, eq=False, repr=False)
class ConsumerDraft:
    """The records, replies and timers that are collected while a coordinator decides one request to a consumer group.

    `group` is the present group, which must not be changed. `replaced` is the id of a static member that is being replaced.
    `unsettled`: the group needs a new assignment in any case. `shown` filters the topics that the sender is allowed to see.
    """

    group: ConsumerGroup
    context: Context
    now: Now
    token: int = NOBODY
    shown: Shown = every_topic
    replaced: str | None = field(default=None, init=False)
    unsettled: bool = field(default=False, init=False)
    _of_group: Mapping[str, int] | None = field(default=None, init=False)
    _records: list[GroupRecord] = field(default_factory=list, init=False)
    _replies: list[Reply] = field(default_factory=list, init=False)
    _timers: dict[Hashable, int | None] = field(default_factory=dict, init=False)

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def store(self, record: GroupRecord) -> None:
        self._records.append(record)

    def found(self, group: ConsumerGroup, records: Iterable[ConsumerStored]) -> None:
        """Apply `records` to the new `group`, collect them, and decide about this group from now on."""
        for record in records:
            apply(group, record)
            self._records.append(record)
        self.group = group

    def answer(self, message: Message, token: int | None = None) -> None:
        """Reply to the request that is being decided, or to an earlier one with this `token`."""
        self._replies.append(Reply(self.token if token is None else token, message))

    def merge(self, outcome: Outcome[ClassicEvent | GroupStored]) -> None:
        """Add the records, replies and timers of a decision about a classic group."""
        self._records += outcome.records
        self._replies += outcome.replies
        self._timers |= {timer.key: timer.deadline_ms for timer in outcome.timers}

    def after(self, key: TimerKey, delay_ms: int) -> None:
        self._timers[key] = self.now.mono_ms + delay_ms

    def cancel(self, key: TimerKey) -> None:
        self._timers[key] = None

    def group_setting(self, name: str, otherwise: int) -> int:
        """Return the group's own value of the setting `name`, or `otherwise` if the group has no value of its own."""
        if self._of_group is None:
            self._of_group = self.context.of_group(self.group_id)
        return self._of_group.get(name, otherwise)

    def expect(self, member: ConsumerMember) -> None:
        """Restart a member's session timeout. Members that use the classic protocol have requested their own timeout."""
        timeout_ms = self.context.settings.group_consumer_session_timeout_ms
        timeout_ms = (
            self.group_setting(SESSION_TIMEOUT, timeout_ms) if member.classic is None else member.classic.session_timeout_ms
        )
        self.after(SessionKey(self.group_id, member.member_id), timeout_ms)

    def forget(self, member: ConsumerMember) -> None:
        """Cancel all deadlines of a member."""
        for kind in (SessionKey, RebalanceKey) if member.classic is None else (SessionKey, RejoinKey, MemberSyncGroupKey):
            self.cancel(kind(self.group_id, member.member_id))

    def outcome(self) -> GroupOutcome:
        timers = tuple(Timer(key, deadline_ms) for key, deadline_ms in self._timers.items())
        return Outcome(tuple(self._records), tuple(self._replies), timers)


def member_record(group_id: str, member: ConsumerMember) -> MemberStored:
    """Return the record of the data that a member reports about itself."""
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
    """Return the record of a member's present assignment and state."""
    return CurrentStored(
        group_id, member.member_id, member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking
    )
