"""Metadata of all topics, encoded once per version of the API and shared by all requests until something changes.

One job at a time encodes an array, in blocks of topics. Meanwhile, requests for the same array wait. Depends on the cluster image
and on leadership, and only on the version of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from ottla.broker.partitions.partitions import Partitions
from ottla.broker.releases import Release
from ottla.broker.releases.release import replace_newer_errors
from ottla.broker.security.rights import ALL_OPERATIONS, NOT_ASKED
from ottla.broker.serving.partition_fields import PartitionDescriber
from ottla.broker.serving.parts import by_weight
from ottla.cluster.acls import Resource
from ottla.cluster.image import ClusterImage, TopicImage
from ottla.ports import Done, Part, Steps
from ottla.wire.api.metadata import MetadataResponse
from ottla.wire.codec.blocks import BlockWriter

TOPICS: Final = ("topics",)
MOST_KEPT: Final = 8
"""Upper limit of cached arrays, one for each `TopicsQuery`. A client uses one version, and a cluster has few kinds of clients."""
AT_ONCE: Final = 100
"""Partitions described between two pauses."""

TopicResponse = MetadataResponse.MetadataResponseTopic
PartitionResponse = MetadataResponse.MetadataResponsePartition


class TopicsQuery(NamedTuple):
    """The properties of a Metadata request on which the encoded list of all topics depends."""

    version: int
    release: str
    with_operations: bool


class AllTopics:
    """A cache of the encoded list of all topics for Metadata responses, by request properties (`TopicsQuery`)."""

    def __init__(self, cluster: ClusterImage, partitions: Partitions, describer: PartitionDescriber) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._describer = describer
        self._turned = 0
        self._made: dict[TopicsQuery, tuple[int, list[Part]]] = {}
        self._waiting: dict[TopicsQuery, list[Done]] = {}

    def invalidate(self) -> None:
        """Record that a partition went offline or came back, which makes the cached lists outdated."""
        self._turned += 1

    def at_hand(self, asker: TopicsQuery) -> list[Part] | None:
        """Return the cached list of all topics, encoded for this kind of request; None if it is missing or outdated."""
        made = self._made.get(asker)
        return made[1] if made is not None and made[0] == self._state() else None

    def encode(self, asker: TopicsQuery, release: Release) -> Steps[list[Part]]:
        """Return the list of all topics, encoded for this kind of request. It is as new as this call or newer."""
        asked = self._state()
        while True:
            made = self._made.get(asker)
            if made is not None and made[0] >= asked:
                return made[1]
            if asker in self._waiting:
                yield partial(self._wait, asker)
            else:
                yield from self._make(asker, release)

    def _state(self) -> int:
        """Return a number that increases with each change of topics, leaders or partitions."""
        return self._cluster.changes + self._partitions.opens + self._turned

    def _wait(self, asker: TopicsQuery, done: Done) -> None:
        self._waiting[asker].append(done)

    def _make(self, asker: TopicsQuery, release: Release) -> Steps[None]:
        self._waiting[asker] = []
        try:
            state = self._state()
            operations = ALL_OPERATIONS[Resource.TOPIC] if asker.with_operations else NOT_ASKED
            array = yield from self.some(asker, release, list(self._cluster.topics), lambda name: operations)
            self._made.pop(asker, None)
            self._made[asker] = state, array
            if len(self._made) > MOST_KEPT:
                del self._made[next(iter(self._made))]
        finally:
            for done in self._waiting.pop(asker):  # if this job was dropped, a waiting job takes over
                done(None)

    def some(
        self, asker: TopicsQuery, release: Release, names: Iterable[str], operations: Callable[[str], int]
    ) -> Steps[list[Part]]:
        """Return the encoded list of the topics `names`, each with the client's authorized operations."""
        writer = BlockWriter(asker.version, TOPICS)
        described = self._describe(names, operations, asker.version)
        for topics in by_weight(described, lambda topic: 1 + len(topic.partitions), AT_ONCE):
            response = MetadataResponse(topics=topics)
            if not release.is_today:
                replace_newer_errors(response, release)
            writer.add(response)
            yield None
        return writer.array()

    def _describe(self, names: Iterable[str], operations: Callable[[str], int], version: int) -> Iterator[TopicResponse]:
        for topic in (topic for name in names if (topic := self._cluster.topics.get(name)) is not None):
            described = described_topic(self._describer, topic, version)
            described.topic_authorized_operations = operations(topic.name)
            yield described


def described_topic(describer: PartitionDescriber, topic: TopicImage, version: int) -> TopicResponse:
    """Return the description of an existing topic, for a request of this version."""
    described = TopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[describer.describe(topic.name, partition, PartitionResponse) for partition in topic.partitions],
    )
    if version == 0:
        for partition in described.partitions:
            describer.only_living(partition)
    return described
