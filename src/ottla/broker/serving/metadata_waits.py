"""Waits for the controller's metadata: for the first metadata after a registration, and for later updates.

Requests about the cluster wait until the controller has sent metadata, which takes little time. A response without metadata
would contain no other brokers. The Java client ignores such a response, and librdkafka forgets all brokers that are missing in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.broker.scheduler import Scheduler, Waits
from ottla.broker.serving.purgatory import DelayedOperation, Purgatory, Reply
from ottla.ports import Now

MOST_WAIT_MS: Final = 5000
"""Longest wait, in ms. Without a controller no metadata arrives, and another broker may have metadata."""


class MetadataWaits:
    """The waits of requests until metadata arrives from the controller.

    `has_metadata`: the first metadata has arrived. `until(...)` waits for further updates.
    """

    def __init__(self, purgatory: Purgatory, scheduler: Scheduler) -> None:
        self.has_metadata = False
        self._purgatory = purgatory
        self._updates = Waits(scheduler)
        self.wait_until = self._updates.until

    def notify(self) -> None:
        """Resume waits, because metadata of the controller has arrived. The first metadata contains all topics."""
        if not self.has_metadata:
            self.has_metadata = True
            self._purgatory.wake(self)
        self._updates.notify()

    def delay(self, now: Now, answer: Callable[[], Reply]) -> Reply:
        """Return the answer once the first metadata has arrived, or after a timeout."""
        if self.has_metadata:
            return answer()

        def retry(now: Now, expired: bool) -> Reply | None:
            return answer() if self.has_metadata or expired else None

        return DelayedOperation((self,), now.mono_ms + MOST_WAIT_MS, retry)
