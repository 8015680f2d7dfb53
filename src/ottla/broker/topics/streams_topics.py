"""The creation of the internal topics of streams applications, requested by their group coordinators.

Depends on the requests to the controller, and decides nothing. The rights of the member that needs the topics were checked before.
Failures are kept for a short time, so that members learn about them from the status of their group.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from ottla.broker.scheduler import Scheduler
from ottla.broker.topics.by_name import Topic, TopicsByName, is_there
from ottla.ports import Now, Steps
from ottla.wire.errors import ERRORS

log = logging.getLogger("ottla.broker")

CREATED_AT_ONCE: Final = 20
"""The number of topics in one request to the controller."""

MOST_FAILURES: Final = 1_000
"""Upper limit of failures that are kept. The oldest are dropped first."""

LONGEST_REASON: Final = 200
"""Upper limit of the length of a failure's message, in characters."""


class CreationFailure(NamedTuple):
    """The message of a failed creation, and the monotonic time in ms until which the topic is not tried again."""

    message: str
    until_ms: int


class StreamsTopics:
    """The internal topics that are being created, and those whose creation failed lately."""

    def __init__(self, by_name: TopicsByName, scheduler: Scheduler) -> None:
        self._by_name = by_name
        self._scheduler = scheduler
        self._creating: set[str] = set()
        self._failures: dict[str, CreationFailure] = {}

    def create(self, topics: Iterable[Topic], now: Now, retry_ms: int) -> None:
        """Begin to create topics, except those in creation and those whose creation failed in the last `retry_ms`."""
        self._drop_failures(now)
        wanted = [topic for topic in topics if topic.name not in self._creating and topic.name not in self._failures]
        if not wanted:
            return
        names = [topic.name for topic in wanted]
        self._creating.update(names)
        self._scheduler.begin(("streams topics", names[0]), self._create(wanted, retry_ms), urgent=True)

    def failures(self, names: Collection[str], now: Now) -> Mapping[str, str]:
        """Return the messages of recent failures to create these topics, by name."""
        self._drop_failures(now)
        return {name: failure.message for name in names if (failure := self._failures.get(name)) is not None}

    def _create(self, wanted: list[Topic], retry_ms: int) -> Steps[None]:
        try:
            for start in range(0, len(wanted), CREATED_AT_ONCE):
                decisions = yield from self._by_name.create_each(wanted[start : start + CREATED_AT_ONCE])
                for decision in decisions:
                    if not is_there(decision):
                        message = decision.message or ERRORS[decision.error_code].sentence
                        self._note_failure(decision.name, message, retry_ms)
        finally:
            self._creating.difference_update(topic.name for topic in wanted)

    def _note_failure(self, name: str, message: str, retry_ms: int) -> None:
        log.warning("internal topic %s cannot be created: %s", name, message, extra={"cause": "streams topics", "most": 3})
        self._failures.pop(name, None)
        until_ms = self._scheduler.now().mono_ms + retry_ms
        self._failures[name] = CreationFailure(message[:LONGEST_REASON], until_ms)
        while len(self._failures) > MOST_FAILURES:
            del self._failures[next(iter(self._failures))]

    def _drop_failures(self, now: Now) -> None:
        ended = [name for name, failure in self._failures.items() if failure.until_ms <= now.mono_ms]
        for name in ended:
            del self._failures[name]
