"""Updates from the controller to every broker (UpdateMetadata), applied to this broker's image of the cluster.

The module changes the image. Messages and their versions are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.cluster.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.ports import Pauses

LEADER_DURING_DELETE = -2
"""The leader id of a topic that is being deleted: clients must not see the topic any more."""

TAKEN_AT_ONCE = 200
"""The most partitions applied between two pauses."""


class ToldPartition(NamedTuple):
    """One partition in an update."""

    image: PartitionImage
    offline_replicas: tuple[int, ...] = ()


class ToldTopic(NamedTuple):
    """Some partitions of a topic, perhaps not all."""

    name: str
    topic_id: bytes
    partitions: Sequence[ToldPartition]


class Noticed(NamedTuple):
    """The topics for which other parts of the broker have work: `changed` are new or larger, `deleted` are gone."""

    changed: list[str]
    deleted: list[str]


def has_left(node_id: int, leader_epoch: int, told: PartitionImage) -> bool:
    """Return whether a broker with this leader epoch of a partition has lost its replica, by the controller's later update.

    Both must be of the same topic id, not only of the same name. A broker in sync has not left: others may have fewer records.
    """
    is_later = told.leader_epoch > leader_epoch or told.leader == LEADER_DURING_DELETE
    return is_later and bool(told.replicas) and node_id not in told.replicas and node_id not in told.isr


def take_brokers(image: ClusterImage, controller_id: int, brokers: Mapping[int, BrokerImage]) -> None:
    """Set all live brokers, and the controller. `image.brokers` stays the same mapping."""
    image.changes += 1
    image.controller_id = controller_id
    for node_id in image.brokers.keys() - brokers.keys():
        del image.brokers[node_id]
    image.brokers.update(brokers)


def take_topics(image: ClusterImage, topics: Iterable[ToldTopic]) -> Pauses[Noticed]:
    """Apply an update of these topics, with pauses; partitions that are not in it stay as they are."""
    noticed, taken = Noticed([], []), 0
    for told in topics:
        image.changes += 1
        if any(one.image.leader == LEADER_DURING_DELETE for one in told.partitions):
            _forget(image, told.name, noticed)
            continue
        known = image.put_topic(told.name, told.topic_id)
        before = len(known.partitions)
        for partition, offline in told.partitions:
            _put(image, known, partition, offline)
            taken += 1
            if taken % TAKEN_AT_ONCE == 0:
                image.changes += 1  # results that others derived from the image at the last pause are out of date
                yield
        image.changes += 1
        if len(known.partitions) > before:
            noticed.changed.append(told.name)
    return noticed


def drop_topics(image: ClusterImage, names: Iterable[str]) -> Noticed:
    """Remove these topics from the image."""
    noticed = Noticed([], [])
    image.changes += 1
    for name in names:
        _forget(image, name, noticed)
    return noticed


def _forget(image: ClusterImage, name: str, noticed: Noticed) -> None:
    known = image.drop_topic(name)
    if known is not None:
        noticed.deleted.append(name)
        for one in known.partitions:
            image.offline_replicas.pop((name, one.index), None)


def _put(image: ClusterImage, topic: TopicImage, partition: PartitionImage, offline: tuple[int, ...]) -> None:
    """Set one partition; add partitions before it that are still missing without a leader."""
    for index in range(len(topic.partitions), partition.index + 1):
        topic.partitions.append(PartitionImage(index))
    topic.partitions[partition.index] = partition
    if offline:
        image.offline_replicas[topic.name, partition.index] = offline
    else:
        image.offline_replicas.pop((topic.name, partition.index), None)
