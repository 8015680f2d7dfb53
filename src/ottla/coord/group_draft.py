"""The draft of a decision about one group of any kind: it collects records, replies, timers and orders, and changes nothing.

The rules of a protocol are elsewhere, as functions of a draft. A draft reads its group's id and settings, but no members.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ottla.coord.groups import Context, Group
from ottla.coord.outcome import GroupOutcome, GroupRecord
from ottla.coord.runtime.machine import NOBODY, Outcome, Reply, Timer
from ottla.ports import Now

G = TypeVar("G", bound=Group)
V = TypeVar("V")


@dataclass(slots=True, eq=False, repr=False)
class GroupDraft(Generic[G]):
    """The records, replies, timers and orders that are collected while a coordinator decides one input about a group.

    `group` is the present group, which must not be changed. `token` identifies the request that is being decided.
    """

    group: G
    context: Context
    now: Now
    token: int = NOBODY
    _group_configs: Mapping[str, Any] | None = field(default=None, init=False)
    _records: list[GroupRecord] = field(default_factory=list, init=False)
    _replies: list[Reply] = field(default_factory=list, init=False)
    _timers: dict[Hashable, int | None] = field(default_factory=dict, init=False)
    _orders: list[object] = field(default_factory=list, init=False)

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def store(self, record: GroupRecord) -> None:
        self._records.append(record)

    def answer(self, message: object, token: int | None = None) -> None:
        """Reply to the request that is being decided, or to an earlier one with this `token`."""
        self._replies.append(Reply(self.token if token is None else token, message))

    def order(self, order: object) -> None:
        """Add an order, which the broker executes once the records are durable."""
        self._orders.append(order)

    def after(self, key: Hashable, delay_ms: int) -> None:
        self._timers[key] = self.now.mono_ms + delay_ms

    def cancel(self, key: Hashable) -> None:
        self._timers[key] = None

    def group_setting(self, name: str, default: V) -> V:
        """Return the group's own value of the setting `name`, or `default` if the group has no value of its own."""
        if self._group_configs is None:
            self._group_configs = self.context.of_group(self.group_id)
        value: V = self._group_configs.get(name, default)
        return value

    def outcome(self) -> GroupOutcome:
        timers = tuple(Timer(key, deadline_ms) for key, deadline_ms in self._timers.items())
        return Outcome(tuple(self._records), tuple(self._replies), timers, tuple(self._orders))
