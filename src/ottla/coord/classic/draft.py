"""The draft of a decision about one classic group: it collects records and applies them to a copy of the group.

The rules of the protocol are elsewhere, as functions of a draft.
"""

from __future__ import annotations

from ottla.coord.classic.events import ClassicEvent
from ottla.coord.classic.group import ClassicGroup, apply
from ottla.coord.outcome import SessionKey, TimerKey
from ottla.coord.records import GroupStored
from ottla.coord.runtime.machine import NOBODY, Outcome, Reply, Timer
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire.schema import Message


class ClassicDraft:
    """The records, replies and timers that are collected while a coordinator decides one request to a classic group.

    `group` is the group with all collected records applied. It is the real group, which must not be changed, until the first
    record, and a copy from then on. `token` identifies the request that is being decided. `weight_before` is the memory of the real
    group, in bytes.
    """

    __slots__ = ("_private", "_records", "_replies", "_timers", "group", "now", "settings", "token", "weight_before")

    def __init__(self, group: ClassicGroup | None, group_id: str, settings: GroupSettings, now: Now, token: int = NOBODY) -> None:
        self._private = group is None
        self.group = ClassicGroup(group_id) if group is None else group
        self.weight_before = self.group.weight
        self.settings = settings
        self.now = now
        self.token = token
        self._records: list[ClassicEvent | GroupStored] = []
        self._replies: list[Reply] = []
        self._timers: dict[TimerKey, int | None] = {}

    def happen(self, event: ClassicEvent | GroupStored) -> None:
        if not self._private:
            self.group = self.group.copy()
            self._private = True
        apply(self.group, event)
        self._records.append(event)

    def answer(self, message: Message) -> None:
        """Reply to the request that is being decided."""
        self._replies.append(Reply(self.token, message))

    def answer_to(self, token: int | None, message: Message) -> None:
        """Reply to an earlier request, identified by `token`. Do nothing if the token is None."""
        if token is not None:
            self._replies.append(Reply(token, message))

    def after(self, key: TimerKey, delay_ms: int) -> None:
        self._timers[key] = self.now.mono_ms + delay_ms

    def cancel(self, key: TimerKey) -> None:
        self._timers[key] = None

    def expect(self, member_id: str) -> None:
        """Restart a member's session timeout."""
        self.after(SessionKey(self.group.group_id, member_id), self.group.members[member_id].session_timeout_ms)

    def forget(self, member_id: str) -> None:
        """Cancel a member's session timeout."""
        self.cancel(SessionKey(self.group.group_id, member_id))

    def outcome(self) -> Outcome[ClassicEvent | GroupStored]:
        timers = tuple(Timer(key, deadline_ms) for key, deadline_ms in self._timers.items())
        return Outcome(tuple(self._records), tuple(self._replies), timers)
