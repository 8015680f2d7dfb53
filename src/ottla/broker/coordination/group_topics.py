"""The topics of the cluster as coordinators of groups know them: their partitions, and the racks of those.

Knows the image of the cluster, and no coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cluster.image import ClusterImage, TopicImage
from ottla.coord.consumer.assign import TopicShape
from ottla.coord.consumer.topics import KnownTopic, KnownTopics
from ottla.coord.outcome import TopicsChanged


class GroupTopics:
    """Notes what changed, and makes one picture of many changes: a picture copies all topics, too much work for each new one."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._topics: KnownTopics | None = None
        self._noted: set[str] = set()

    def note(self, names: Iterable[str]) -> None:
        """These topics came, changed or went."""
        self._noted.update(names)

    def known(self) -> KnownTopics:
        """The topics as coordinators were told of them last; all there are, for the first who asks."""
        if self._topics is None:
            self._noted.clear()
            self._topics = KnownTopics(self._seen(image) for image in self._image.topics.values())
        return self._topics

    def changed(self) -> TopicsChanged | None:
        """What coordinators have to be told, if anything."""
        if not self._noted or self._topics is None:
            return None
        names, self._noted = frozenset(self._noted), set()
        topics = self._image.topics
        images = {name: topics.get(name) for name in names}
        present = [self._seen(image) for image in images.values() if image is not None]
        new = any(self._topics.with_id(topic.topic_id) is None for topic in present)
        self._topics = self._topics.changed(present, [name for name, image in images.items() if image is None])
        return TopicsChanged(self._topics, names, new)

    def _seen(self, image: TopicImage) -> KnownTopic:
        return KnownTopic(image.name, image.topic_id, TopicShape(len(image.partitions), self._racks(image)))

    def _racks(self, image: TopicImage) -> tuple[frozenset[str], ...]:
        """The racks of each partition's replicas; nothing if no broker has a rack."""
        racks = {node_id: broker.rack for node_id, broker in self._image.brokers.items() if broker.rack}
        if not racks:
            return ()
        return tuple(frozenset(racks[node] for node in partition.replicas if node in racks) for partition in image.partitions)
