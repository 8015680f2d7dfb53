"""The controller's requests, published in order. Topic configs, which the requests do not contain, are read from the registry.

Depends on the replica manager for the order of requests, and not on messages. `missed_deletions` finds deletions that no
controller has sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.broker.replication.metadata_publisher import MetadataPublisher
from ottla.broker.replication.missed_deletions import MissedDeletions
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.replication.topic_configs import TopicConfigs
from ottla.broker.scheduler import Scheduler
from ottla.cluster import layout
from ottla.cluster.image import BrokerImage, ClusterImage
from ottla.cluster.metadata import (
    BrokersChanged,
    Errors,
    ReplicaRole,
    RolesAssigned,
    TopicsRemoved,
    TopicsUpdated,
    TopicUpdate,
    UpToDate,
)
from ottla.ports import RegistryAway, SharedRegistry, Steps

log = logging.getLogger("ottla.broker")


class ImageUpdates:
    """The part of a registry's metadata that the controller sends.

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
        self._unheard = MissedDeletions(registry, image, scheduler, self._gone)

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
            yield from self._publisher.take(BrokersChanged(controller_id, brokers))
            for some in topics:
                yield from self._apply_topics(some)
                yield None
            yield from self._publisher.take(UpToDate())

        return self._replicas.run_in_order(controller_epoch, broker_epoch, taken)

    def _apply_topics(self, topics: Sequence[TopicUpdate]) -> Steps[None]:
        if not topics:
            return
        self._unheard.record_topics(topic.name for topic in topics)
        try:
            yield from self._configs.load((topic.name, topic.topic_id) for topic in topics)
        except RegistryAway as failure:
            log.warning("the settings of new topics could not be read (%s): defaults apply until then", failure)
            owed = self._configs.pending(topic.name for topic in topics)
            self._read_again([layout.topic_config_path(name) for name in owed])
        yield from self._publisher.take(TopicsUpdated(topics))

    def take_roles(self, roles: Sequence[ReplicaRole]) -> Steps[Errors]:
        """Apply roles, and return an error code per partition. Raise `RegistryAway`; the controller then sends the roles again."""
        yield from self._configs.load((role.topic, role.topic_id) for role in roles)
        return (yield from self._publisher.take(RolesAssigned(roles)))

    def _gone(self, names: Iterable[str]) -> None:
        self._publisher.soon(TopicsRemoved(names))
