"""What the controller tells every broker of the cluster (UpdateMetadata), taken into this broker's image of it.

Knows the image; knows no messages and no versions of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.cluster.image import BrokerImage, ClusterImage, PartitionImage, TopicImage

LEADER_DURING_DELETE = -2
"""Stands for the leader of a topic that is being deleted: nobody is to see it any more."""

TAKEN_AT_ONCE = 200
"""Partitions that are taken in between two pauses."""


class ToldPartition(NamedTuple):
    """What the controller tells of one partition."""

    image: PartitionImage
    offline_replicas: tuple[int, ...] = ()


class ToldTopic(NamedTuple):
    """Some partitions of a topic, perhaps not all that it has."""

    name: str
    topic_id: bytes
    partitions: Sequence[ToldPartition]


class Noticed(NamedTuple):
    """Which topics others may have to hear of: `changed` came or grew, `deleted` are no more."""

    changed: list[str]
    deleted: list[str]


def has_left(node_id: int, leader_epoch: int, told: PartitionImage) -> bool:
    """Whether a broker whose part in a partition is of `leader_epoch` has none any more, by what the controller told later.

    Both have to be of the same topic, and not only of the same name. Who is in sync has not left: others may have less.
    """
    is_later = told.leader_epoch > leader_epoch or told.leader == LEADER_DURING_DELETE
    return is_later and bool(told.replicas) and node_id not in told.replicas and node_id not in told.isr


def take_brokers(image: ClusterImage, controller_id: int, brokers: Mapping[int, BrokerImage]) -> None:
    """All brokers that are alive, and the one that is controller. `image.brokers` stays the same mapping."""
    image.changes += 1
    image.controller_id = controller_id
    for node_id in image.brokers.keys() - brokers.keys():
        del image.brokers[node_id]
    image.brokers.update(brokers)


def take_topics(image: ClusterImage, topics: Iterable[ToldTopic]) -> Generator[None, object, Noticed]:
    """Take in, with pauses, what is told of these topics; what is not told of stays as it is."""
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
                image.changes += 1  # what others made of it at the last pause is out of date
                yield
        image.changes += 1
        if len(known.partitions) > before:
            noticed.changed.append(told.name)
    return noticed


def drop_topics(image: ClusterImage, names: Iterable[str]) -> Noticed:
    """Know these topics no more."""
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
    """The partitions before it that nobody has told of yet have no leader."""
    for index in range(len(topic.partitions), partition.index + 1):
        topic.partitions.append(PartitionImage(index))
    topic.partitions[partition.index] = partition
    if offline:
        image.offline_replicas[topic.name, partition.index] = offline
    else:
        image.offline_replicas.pop((topic.name, partition.index), None)
