"""The topics of the cluster as coordinators of groups know them: partitions and their racks, told to them when they change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.cluster.image import TopicImage
from ottla.coord.consumer.assign import TopicShape
from ottla.coord.consumer.topics import KnownTopic, KnownTopics
from ottla.coord.outcome import TopicsChanged

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class GroupTopics:
    """Notes what changes, and makes one picture of many changes: creating topics one by one is not to copy them all each time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._topics: KnownTopics | None = None
        self._noted: set[str] = set()

    def note(self, names: Iterable[str]) -> None:
        """These topics came, changed or went."""
        self._noted.update(names)

    def known(self) -> KnownTopics:
        """The topics as coordinators were told last; the first to ask is told all there are."""
        if self._topics is None:
            self._noted.clear()
            self._topics = KnownTopics(self._seen(image) for image in self._broker.topics.image.topics.values())
        return self._topics

    def changed(self) -> TopicsChanged | None:
        """What coordinators have to be told, if anything."""
        if not self._noted or self._topics is None:
            return None
        names, self._noted = frozenset(self._noted), set()
        images = {name: self._broker.topics.get(name) for name in names}
        present = [self._seen(image) for image in images.values() if image is not None]
        new = any(self._topics.with_id(topic.topic_id) is None for topic in present)
        self._topics = self._topics.changed(present, [name for name, image in images.items() if image is None])
        return TopicsChanged(self._topics, names, new)

    def _seen(self, image: TopicImage) -> KnownTopic:
        return KnownTopic(image.name, image.topic_id, TopicShape(len(image.partitions), self._racks(image)))

    def _racks(self, image: TopicImage) -> tuple[frozenset[str], ...]:
        """Where each partition's replicas are; nothing if no broker says where it is."""
        racks = {node_id: broker.rack for node_id, broker in self._broker.topics.image.brokers.items() if broker.rack}
        if not racks:
            return ()
        return tuple(frozenset(racks[node] for node in partition.replicas if node in racks) for partition in image.partitions)
