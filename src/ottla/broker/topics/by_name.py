"""Topics that clients bring into being by naming them: made with the broker's defaults, and there when the steps are over.

Knows the topics of a lone broker, which are its own to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.serving.purgatory import Purgatory
from ottla.broker.topics.reconciler import LogReconciler
from ottla.broker.topics.topics import Topics
from ottla.cluster.decision import Decision
from ottla.ports import Now, Steps
from ottla.wire.api.metadata import MetadataResponse
from ottla.wire.errors import NONE, TOPIC_ALREADY_EXISTS


class TopicsByName(Protocol):
    """Makes topics by name alone: internal ones have their own settings, others the defaults."""

    def begin(self, names: Sequence[str], now: Now, /) -> Sequence[Decision]:
        """Make them, or have them made. Where that takes a while each has the error LEADER_NOT_AVAILABLE."""
        ...

    def made(self, names: Sequence[str], now: Now, /) -> Steps[list[Decision]]:
        """Make them; those without an error are there, and led, when the steps are over."""
        ...

    def made_on(self, name: str, node_id: int, now: Now, /) -> Steps[Decision]:
        """The same for one topic, with all its partitions on this broker alone."""
        ...


class TopicsMadeHere:
    """Those of a lone broker."""

    def __init__(self, topics: Topics, logs: LogReconciler, purgatory: Purgatory) -> None:
        self._topics = topics
        self._logs = logs
        self._purgatory = purgatory

    def begin(self, names: Sequence[str], now: Now) -> Sequence[Decision]:
        """Make them, with their logs, now."""
        return self._topics.create_by_default(names, now)

    def made(self, names: Sequence[str], now: Now) -> Steps[list[Decision]]:
        """Make them, with their logs. What another request has made meanwhile is there, or soon will be."""
        yield from self._logs.free_slowly(names)
        return (yield from self._there((yield from self._topics.create_named(names, now)), now))

    def made_on(self, name: str, node_id: int, now: Now) -> Steps[Decision]:
        """The same for one topic, with all its partitions on this broker."""
        yield from self._logs.free_slowly([name])
        (decision,) = yield from self._there((yield from self._topics.create_on(name, node_id, now)), now)
        return decision

    def _there(self, decisions: list[Decision], now: Now) -> Steps[list[Decision]]:
        """The same decisions, once those that are made have their logs."""
        there = [decision.name for decision in decisions if is_there(decision)]
        yield from self._purgatory.awaited(self._logs.reply(MetadataResponse(), there, now))
        return decisions


def is_there(decision: Decision) -> bool:
    """Whether a topic was made, by this decision or by another one."""
    return decision.is_made or decision.error_code in (NONE, TOPIC_ALREADY_EXISTS)
