"""The draft of a decision about one share group: it collects records, replies, timers and orders, and changes nothing."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from ottla.coord.groups import Context
from ottla.coord.outcome import GroupOutcome, GroupRecord, SessionKey
from ottla.coord.runtime.machine import NOBODY, Outcome, Reply, Timer
from ottla.coord.share.group import ShareGroup
from ottla.ports import Now

SESSION_TIMEOUT, HEARTBEAT_INTERVAL = "share.session.timeout.ms", "share.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "share.assignment.interval.ms"


@dataclass(slots=True, eq=False, repr=False)
class ShareDraft:
    """The records, replies, timers and orders that are collected while a coordinator decides one input about a share group.

    `group` is the present group, which must not be changed.
    """

    group: ShareGroup
    context: Context
    now: Now
    token: int = NOBODY
    _of_group: Mapping[str, int] | None = field(default=None, init=False)
    _records: list[GroupRecord] = field(default_factory=list, init=False)
    _replies: list[Reply] = field(default_factory=list, init=False)
    _timers: dict[Hashable, int | None] = field(default_factory=dict, init=False)
    _orders: list[object] = field(default_factory=list, init=False)

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def store(self, record: GroupRecord) -> None:
        self._records.append(record)

    def answer(self, message: object) -> None:
        self._replies.append(Reply(self.token, message))

    def order(self, order: object) -> None:
        """Add an order, which the broker executes once the records are durable."""
        self._orders.append(order)

    def after(self, key: Hashable, delay_ms: int) -> None:
        self._timers[key] = self.now.mono_ms + delay_ms

    def group_setting(self, name: str, otherwise: int) -> int:
        """Return the group's own value of the setting `name`, or `otherwise` if the group has no value of its own."""
        if self._of_group is None:
            self._of_group = self.context.of_group(self.group_id)
        return self._of_group.get(name, otherwise)

    def expect(self, member_id: str) -> None:
        """Restart a member's session timeout."""
        timeout_ms = self.group_setting(SESSION_TIMEOUT, self.context.settings.group_share_session_timeout_ms)
        self.after(SessionKey(self.group_id, member_id), timeout_ms)

    def forget(self, member_id: str) -> None:
        """Cancel a member's session timeout."""
        self._timers[SessionKey(self.group_id, member_id)] = None

    def outcome(self) -> GroupOutcome:
        timers = tuple(Timer(key, deadline_ms) for key, deadline_ms in self._timers.items())
        return Outcome(tuple(self._records), tuple(self._replies), timers, tuple(self._orders))
