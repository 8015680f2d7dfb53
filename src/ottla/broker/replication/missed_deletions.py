"""The search for topics whose deletion no controller sent to this broker, because a controller or a session ended.

Each controller sends all existing topics to every new broker. Topics that are not sent for a while are read from the registry.
Depends on the cluster image and the shared registry, and not on messages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from ottla.broker.retries import Repeats
from ottla.broker.scheduler import Scheduler
from ottla.cluster import layout
from ottla.cluster.image import ClusterImage
from ottla.ports import Now, SharedRegistry, Steps

log = logging.getLogger("ottla.broker")

LOOK_MS = 10_000
"""Time after which a controller has sent all topics, in ms. Its first request can contain brokers only."""
AGAIN_MS, MOST_AGAIN_MS = 1_000, 10_000


class MissedDeletions:
    """Searches for unreported deletions. `forget` removes deleted topics from the image, and notifies other components."""

    def __init__(
        self, registry: SharedRegistry, image: ClusterImage, scheduler: Scheduler, forget: Callable[[Iterable[str]], None]
    ) -> None:
        self._registry = registry
        self._image = image
        self._scheduler = scheduler
        self._forget = forget
        self._life = (-1, -1)
        self._from_ms = 0
        self._repeats = Repeats(AGAIN_MS, MOST_AGAIN_MS)
        self._untold: set[str] = set()
        """Topics that were known before this controller's first request, and that it has not sent yet."""

    def begin_epoch(self, controller_epoch: int, broker_epoch: int) -> None:
        """Begin a new search, if this is the first request of a controller epoch to this registration."""
        if (controller_epoch, broker_epoch) != self._life:
            self._life = controller_epoch, broker_epoch
            self._untold = set(self._image.topics)
            self._repeats.over()
            self._from_ms = self._scheduler.now().mono_ms + LOOK_MS
            if self._untold:
                self._scheduler.at(self, self._from_ms, self._begin)

    def record_topics(self, topics: Iterable[str]) -> None:
        """Record that the controller has sent these topics, which therefore exist."""
        self._untold.difference_update(topics)

    def _begin(self, now: Now) -> None:
        if self._untold and not self._scheduler.begin(self, self._search(self._life), failed=self._failed):
            self._retry()

    def _retry(self) -> None:
        self._scheduler.at(self, max(self._from_ms, self._scheduler.now().mono_ms + self._repeats.pause_ms()), self._begin)

    def _search(self, life: tuple[int, int]) -> Steps[None]:
        (names,) = yield from self._registry.list([layout.TOPICS])
        if life != self._life:  # another controller sends all topics
            return
        gone = self._untold.difference(names or ())
        self._untold = set()
        if gone:
            log.info("%d topics are removed: they were deleted in the registry while this broker had no controller", len(gone))
            self._forget(sorted(gone))

    def _failed(self, failure: Exception) -> None:
        sentence = "the existence of %d topics is unknown (%s); it is checked again"
        self._repeats.log_once(log, logging.INFO, sentence, len(self._untold), failure)
        self._retry()
