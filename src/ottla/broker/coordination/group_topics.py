"""The cluster's topics for group coordinators: their partitions, and the racks of the replicas.

Depends on the cluster image, and on no coordinator.
"""

from __future__ import annotations

from collections.abc import Collection

from ottla.cluster.image import ClusterImage, TopicImage
from ottla.coord.consumer.assign import TopicShape
from ottla.coord.consumer.topics import KnownTopic, KnownTopics
from ottla.coord.outcome import TopicsChanged


class GroupTopics:
    """The topics known to group coordinators. Changes are recorded one by one, and passed on to coordinators in batches."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._topics: KnownTopics | None = None
        self._noted: set[str] = set()
        self._are_new = False

    def note(self, names: Collection[str]) -> None:
        """Record that topics were created, changed or deleted."""
        if self._topics is None:
            return
        images = {name: self._image.topics.get(name) for name in names}
        present = [self._seen(image) for image in images.values() if image is not None]
        self._are_new = self._are_new or any(self._topics.with_id(topic.topic_id) is None for topic in present)
        self._topics = self._topics.changed(present, [name for name, image in images.items() if image is None])
        self._noted.update(names)

    def known(self) -> KnownTopics:
        """Return the current topics."""
        if self._topics is None:
            self._topics = KnownTopics(self._seen(image) for image in self._image.topics.values())
        return self._topics

    def changed(self) -> TopicsChanged | None:
        """Return the changes since the last call, for the coordinators. Return None if there are none."""
        if not self._noted or self._topics is None:
            return None
        names, self._noted = frozenset(self._noted), set()
        are_new, self._are_new = self._are_new, False
        return TopicsChanged(self._topics, names, are_new)

    def _seen(self, image: TopicImage) -> KnownTopic:
        return KnownTopic(image.name, image.topic_id, TopicShape(len(image.partitions), self._racks(image)))

    def _racks(self, image: TopicImage) -> tuple[frozenset[str], ...]:
        """Return the racks of each partition's replicas; empty if no broker has a rack."""
        racks = {node_id: broker.rack for node_id, broker in self._image.brokers.items() if broker.rack}
        if not racks:
            return ()
        return tuple(frozenset(racks[node] for node in partition.replicas if node in racks) for partition in image.partitions)
