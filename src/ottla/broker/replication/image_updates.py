"""The controller's requests, published in order. Topic configs, which the requests do not contain, are read from the registry.

Each controller sends all existing topics to every new broker. Topics that are not sent for a while, because a controller or a
session ended before it sent their deletion, are read from the registry. Depends on the replica manager for the order of
requests, and not on messages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.broker.replication.metadata_publisher import MetadataPublisher
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.retries import Repeats
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings.values import refused_topic_values
from ottla.cluster import layout
from ottla.cluster.image import BrokerImage, ClusterImage
from ottla.cluster.metadata import (
    BrokersChanged,
    Errors,
    MetadataSink,
    NewTopicConfigs,
    ReplicaRole,
    RolesAssigned,
    TopicsRemoved,
    TopicsUpdated,
    TopicUpdate,
    UpToDate,
)
from ottla.ports import Now, RegistryAway, SharedRegistry, Steps

log = logging.getLogger("ottla.broker")

READ_AT_ONCE = 500

LOOK_MS = 10_000
"""Time after which a controller has sent all topics, in ms. Its first request can contain brokers only."""
AGAIN_MS, MOST_AGAIN_MS = 1_000, 10_000


class MissedDeletions:
    """The search for topics that were deleted while this broker received no requests of the controller.

    `forget` removes deleted topics from the image, and notifies other components.
    """

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
        if self._untold and not self._scheduler.begin(self, self._search(self._life), failed=self._on_failure):
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

    def _on_failure(self, failure: Exception) -> None:
        sentence = "the existence of %d topics is unknown (%s); it is checked again"
        self._repeats.log_once(log, logging.INFO, sentence, len(self._untold), failure)
        self._retry()


class TopicConfigs:
    """The loader of topic configs from the registry into the image. It retries configs that could not be read."""

    def __init__(self, registry: SharedRegistry, image: ClusterImage, sink: MetadataSink) -> None:
        self._registry = registry
        self._image = image
        self._sink = sink
        self._owed: set[str] = set()

    def load(self, topics: Iterable[tuple[str, bytes]]) -> Steps[None]:
        """Read the configs of topics (name, id) that are not in the image. Raises `RegistryAway`."""
        new = {name: topic_id for name, topic_id in topics if self._is_new(name, topic_id)}
        self._owed.update(new)
        names = list(new)
        for start in range(0, len(names), READ_AT_ONCE):
            some = names[start : start + READ_AT_ONCE]
            entries = yield from self._registry.read([layout.topic_config_path(name) for name in some])
            for name, entry in zip(some, entries, strict=True):
                self._owed.discard(name)
                configs = self._parse(name, None if entry is None else entry.value)
                self._sink.learn([NewTopicConfigs(name, new[name], configs)])

    def pending_topics(self, names: Iterable[str]) -> list[str]:
        """Return the topics whose configs could not be read yet."""
        return [name for name in names if name in self._owed]

    def _parse(self, name: str, value: bytes | None) -> dict[str, str]:
        """Return the configs in a topic's registry entry. Log a damaged entry, and return no configs."""
        path = layout.topic_config_path(name)
        try:
            configs = layout.configs_in(value)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            log.error(
                "The registry's entry %s cannot be parsed (%s): topic %s has the defaults until it is set.",
                path,
                error,
                name,
            )
            return {}
        for sentence in refused_topic_values(configs):
            log.error("Topic %s has the default instead of the value of the registry's entry %s: %s", name, path, sentence)
        return configs

    def _is_new(self, name: str, topic_id: bytes) -> bool:
        if name in self._owed:
            return True
        if name in self._image.topics:
            return not self._image.is_known(name, topic_id)
        return name not in self._image.configs_ahead


class ImageUpdates:
    """The updates of the cluster image from the controller's requests.

    `read_again` is called with paths of registry entries that could not be read, and loads them as soon as they can be read.
    """

    def __init__(
        self,
        registry: SharedRegistry,
        image: ClusterImage,
        replicas: ReplicaManager,
        scheduler: Scheduler,
        publisher: MetadataPublisher,
        read_again: Callable[[Iterable[str]], None],
    ) -> None:
        self._read_again = read_again
        self._replicas = replicas
        self._publisher = publisher
        self._configs = TopicConfigs(registry, image, publisher)
        self._unheard = MissedDeletions(registry, image, scheduler, self._remove_topics)

    def apply(
        self,
        controller_epoch: int,
        broker_epoch: int,
        controller_id: int,
        brokers: Mapping[int, BrokerImage],
        topics: Iterable[Sequence[TopicUpdate]],
    ) -> Steps[int]:
        """Apply all live brokers and some topics, in steps. Return the error code if the request is outdated, else NONE."""

        def in_order() -> Steps[None]:
            self._unheard.begin_epoch(controller_epoch, broker_epoch)
            yield from self._publisher.apply_events(BrokersChanged(controller_id, brokers))
            for some in topics:
                yield from self._apply_topics(some)
                yield None
            yield from self._publisher.apply_events(UpToDate())

        return self._replicas.run_in_order(controller_epoch, broker_epoch, in_order)

    def _apply_topics(self, topics: Sequence[TopicUpdate]) -> Steps[None]:
        if not topics:
            return
        self._unheard.record_topics(topic.name for topic in topics)
        try:
            yield from self._configs.load((topic.name, topic.topic_id) for topic in topics)
        except RegistryAway as failure:
            log.warning("the settings of new topics could not be read (%s): defaults apply until then", failure)
            owed = self._configs.pending_topics(topic.name for topic in topics)
            self._read_again([layout.topic_config_path(name) for name in owed])
        yield from self._publisher.apply_events(TopicsUpdated(topics))

    def apply_roles(self, roles: Sequence[ReplicaRole]) -> Steps[Errors]:
        """Apply roles, and return an error code per partition. Raises `RegistryAway`; the controller then sends the roles again."""
        yield from self._configs.load((role.topic, role.topic_id) for role in roles)
        return (yield from self._publisher.apply_events(RolesAssigned(roles)))

    def _remove_topics(self, names: Iterable[str]) -> None:
        self._publisher.soon(TopicsRemoved(names))
