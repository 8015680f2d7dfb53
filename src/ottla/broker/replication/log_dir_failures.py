"""Notifications of the controller that replicas went offline or came back. The controller then elects leaders.

Depends on the shared registry. Simultaneous failures make one notification, and a failed notification is retried.
"""

from __future__ import annotations

import logging

from ottla.broker.retries import Repeats
from ottla.broker.scheduler import Scheduler
from ottla.cluster.controller_rules.entries import LOG_DIR_EVENTS, failed_broker_value
from ottla.ports import Change, Now, SharedRegistry, Steps

log = logging.getLogger("ottla.broker")

EVENT = f"{LOG_DIR_EVENTS}/log_dir_event_"
AGAIN_MS, MOST_AGAIN_MS = 1_000, 10_000


class LogDirFailures:
    """The notifications about this broker's failed log directories, which the controller reads from the registry."""

    def __init__(self, node_id: int, registry: SharedRegistry, scheduler: Scheduler) -> None:
        self._node_id = node_id
        self._registry = registry
        self._scheduler = scheduler
        self._is_due = False
        self._repeats = Repeats(AGAIN_MS, MOST_AGAIN_MS)

    def notify(self, in_ms: int = 0) -> None:
        """Notify the controller, now or in `in_ms` milliseconds, that a replica of this broker went offline or came back."""
        if not self._is_due or not in_ms:
            self._is_due = True
            self._scheduler.at(self, self._scheduler.now().mono_ms + in_ms, self._begin)

    def _begin(self, now: Now) -> None:
        self._is_due = False
        self._scheduler.begin(self, self._notify(), lambda _: self._repeats.over(), self._on_failure)

    def _notify(self) -> Steps[None]:
        yield from self._registry.commit([Change(EVENT, failed_broker_value(self._node_id), sequential=True)])

    def _on_failure(self, failure: Exception) -> None:
        sentence = "offline partitions could not be reported to the controller; it is retried: %s"
        self._repeats.log_once(log, logging.WARNING, sentence, failure)
        self._is_due = True
        self._scheduler.at(self, self._scheduler.now().mono_ms + self._repeats.pause_ms(), self._begin)
