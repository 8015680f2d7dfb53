"""Updates from the controller to every broker (UpdateMetadata), applied to this broker's image of the cluster.

The module changes the image. Messages and their versions are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.cluster.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.ports import Pauses

LEADER_DURING_DELETE = -2
"""The leader id of a partition whose topic is being deleted. Clients must no longer see the topic."""

TAKEN_AT_ONCE = 200
"""The most partitions applied between two pauses."""


class PartitionUpdate(NamedTuple):
    """One partition in an UpdateMetadata request."""

    image: PartitionImage
    offline_replicas: tuple[int, ...] = ()


class TopicUpdate(NamedTuple):
    """A topic in an UpdateMetadata request, with some or all of its partitions."""

    name: str
    topic_id: bytes
    partitions: Sequence[PartitionUpdate]


class Noticed(NamedTuple):
    """The topics that other parts of the broker must process: `changed` are new or have new partitions, `deleted` are gone."""

    changed: list[str]
    deleted: list[str]


def has_left(node_id: int, leader_epoch: int, told: PartitionImage) -> bool:
    """Return whether the controller's update `told` removes a replica, whose broker has state of an older leader epoch.

    The caller checks that both have the same topic id. An in-sync replica is never removed, because other replicas can lack
    records.
    """
    is_later = told.leader_epoch > leader_epoch or told.leader == LEADER_DURING_DELETE
    return is_later and bool(told.replicas) and node_id not in told.replicas and node_id not in told.isr


def apply_brokers(image: ClusterImage, controller_id: int, brokers: Mapping[int, BrokerImage]) -> None:
    """Replace the image's live brokers and its controller. `image.brokers` is changed in place."""
    image.changes += 1
    image.controller_id = controller_id
    for node_id in image.brokers.keys() - brokers.keys():
        del image.brokers[node_id]
    image.brokers.update(brokers)


def apply_topics(image: ClusterImage, topics: Iterable[TopicUpdate]) -> Pauses[Noticed]:
    """Apply the partitions of an update to the image, with pauses. Partitions that the update does not contain stay unchanged."""
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
                image.changes += 1  # results that other code derived from the image during the last pause are out of date
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
    """Set one partition. Partitions of lower indexes that are still missing are added without a leader."""
    for index in range(len(topic.partitions), partition.index + 1):
        topic.partitions.append(PartitionImage(index))
    topic.partitions[partition.index] = partition
    if offline:
        image.offline_replicas[topic.name, partition.index] = offline
    else:
        image.offline_replicas.pop((topic.name, partition.index), None)
