"""The controller's metadata, applied to the cluster image in order, with notifications of other components.

Depends on the cluster image and on the replica manager, which orders requests, and not on messages. `unheard_deletions` finds
deletions that no controller has sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.broker.replication.missed_deletions import MissedDeletions
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.replication.topic_configs import TopicConfigs
from ottla.broker.scheduler import Scheduler
from ottla.cluster import layout
from ottla.cluster.image import BrokerImage, ClusterImage
from ottla.cluster.metadata_updates import Noticed, TopicUpdate, apply_brokers, apply_topics, drop_topics
from ottla.ports import Now, RegistryAway, SharedRegistry, Steps

log = logging.getLogger("ottla.broker")


class ImageUpdates:
    """Applies the controller's metadata. Callbacks: `changed` for new or larger topics, `deleted`, and `come` after each update.

    `read_again` is called with paths of registry entries that could not be read, and loads them as soon as they can be read.
    """

    def __init__(
        self,
        registry: SharedRegistry,
        image: ClusterImage,
        configs: TopicConfigs,
        replicas: ReplicaManager,
        scheduler: Scheduler,
        changed: Callable[[list[str]], None],
        deleted: Callable[[list[str], Now], None],
        come: Callable[[], None],
        read_again: Callable[[Iterable[str]], None],
    ) -> None:
        self._read_again = read_again
        self._image = image
        self._configs = configs
        self._replicas = replicas
        self._scheduler = scheduler
        self._changed = changed
        self._deleted = deleted
        self._come = come
        self._unheard = MissedDeletions(registry, image, scheduler, self._remove)

    def apply(
        self,
        controller_epoch: int,
        broker_epoch: int,
        controller_id: int,
        brokers: Mapping[int, BrokerImage],
        topics: Iterable[Sequence[TopicUpdate]],
    ) -> Steps[int]:
        """Apply all live brokers and some topics, in steps. Return the error code if the request is outdated, else NONE."""

        def taken() -> Steps[None]:
            self._unheard.begin_epoch(controller_epoch, broker_epoch)
            has_lost = not self._image.brokers.keys() <= brokers.keys()
            apply_brokers(self._image, controller_id, brokers)
            if has_lost:
                yield from self._replicas.brokers_gone()
            for some in topics:
                yield from self._apply_topics(some)
                yield None
            self._come()

        return self._replicas.in_turn(controller_epoch, broker_epoch, taken)

    def _apply_topics(self, topics: Sequence[TopicUpdate]) -> Steps[None]:
        if not topics:
            return
        self._unheard.record_topics(topic.name for topic in topics)
        try:
            yield from self._configs.learn((topic.name, topic.topic_id) for topic in topics)
        except RegistryAway as failure:
            log.warning("the settings of new topics could not be read (%s): defaults apply until then", failure)
            owed = self._configs.owed(topic.name for topic in topics)
            self._read_again([layout.topic_config_path(name) for name in owed])
        self._notify((yield from apply_topics(self._image, topics)))
        yield from self._replicas.part_with(topics)

    def _remove(self, names: Iterable[str]) -> None:
        self._notify(drop_topics(self._image, names))

    def _notify(self, noticed: Noticed) -> None:
        if noticed.deleted:
            self._configs.forget(noticed.deleted)
        if noticed.changed or noticed.deleted:
            self._changed([*noticed.changed, *noticed.deleted])
        if noticed.deleted:  # coordinators remove the offsets of topics that are no longer in the image
            self._deleted(noticed.deleted, self._scheduler.now())
