"""The draft of a decision about one consumer group, whose members can use either protocol.

The rules of the protocol are elsewhere, as functions of a draft. Members and targets are immutable values, so rules return new
values and do not change the group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.coord.classic.events import ClassicEvent
from ottla.coord.consumer.group import ConsumerGroup, apply
from ottla.coord.consumer.member import ConsumerMember
from ottla.coord.consumer.records import ConsumerStored, CurrentStored, MemberStored
from ottla.coord.group_draft import GroupDraft
from ottla.coord.outcome import MemberSyncGroupKey, RebalanceKey, RejoinKey, SessionKey
from ottla.coord.records import GroupStored
from ottla.coord.runtime.machine import Outcome, Shown, every_topic

SESSION_TIMEOUT, HEARTBEAT_INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"


@dataclass(slots=True, eq=False, repr=False)
class ConsumerDraft(GroupDraft[ConsumerGroup]):
    """The records, replies and timers that are collected while a coordinator decides one request to a consumer group.

    `group` is the present group, which must not be changed. `replaced` is the id of a static member that is being replaced.
    `unsettled`: the group needs a new assignment in any case. `shown` filters the topics that the sender is allowed to see.
    """

    shown: Shown = every_topic
    replaced: str | None = field(default=None, init=False)
    unsettled: bool = field(default=False, init=False)

    def found(self, group: ConsumerGroup, records: Iterable[ConsumerStored]) -> None:
        """Apply `records` to the new `group`, collect them, and decide about this group from now on."""
        for record in records:
            apply(group, record)
            self._records.append(record)
        self.group = group

    def merge(self, outcome: Outcome[ClassicEvent | GroupStored]) -> None:
        """Add the records, replies and timers of a decision about a classic group."""
        self._records += outcome.records
        self._replies += outcome.replies
        self._timers |= {timer.key: timer.deadline_ms for timer in outcome.timers}

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
