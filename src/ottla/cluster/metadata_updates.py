"""Metadata events, applied to this broker's image of the cluster. Independent of the source of the events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.cluster.image import BrokerImage, ClusterImage, PartitionImage, TopicImage, put
from ottla.cluster.metadata import (
    AclsChanged,
    ConfigKind,
    ConfigsChanged,
    FeaturesChanged,
    NewTopicConfigs,
    QuotasChanged,
    Setting,
    TokenChanged,
    TopicUpdate,
    UnknownUsersChanged,
    UserChanged,
)
from ottla.ports import Pauses

LEADER_DURING_DELETE = -2
"""The leader id of a partition whose topic is being deleted. Clients must no longer see the topic."""

TAKEN_AT_ONCE = 200
"""The most partitions applied between two pauses."""


class Noticed(NamedTuple):
    """The topics that have changed in a metadata update, for other components: `changed` are new or larger, `deleted` are gone."""

    changed: list[str]
    deleted: list[str]
    deleted_ids: list[bytes]


def has_left(node_id: int, leader_epoch: int, told: PartitionImage) -> bool:
    """Return whether the metadata update `told` no longer lists this broker as a replica, and is newer than its `leader_epoch`.

    The caller checks that the topic ids are equal. An in-sync replica is never removed, because other replicas can lack records.
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


def apply_setting(image: ClusterImage, event: Setting) -> None:
    """Replace one value of the image by the value in the event, for example the configs of one topic."""
    image.changes += 1
    match event:
        case ConfigsChanged():
            _apply_configs(image, event)
        case NewTopicConfigs(name, topic_id, configs):
            image.set_configs(name, topic_id, configs)
        case UserChanged(user, configs):
            put(image.user_configs, user, configs)
        case QuotasChanged(entity, quotas):
            image.apply_quotas(entity, quotas)
        case AclsChanged(key, acls):
            image.acls.apply(key, acls)
        case TokenChanged(token_id, token):
            if token is None:
                image.tokens.pop(token_id, None)
            else:
                image.tokens[token_id] = token
        case FeaturesChanged(levels, epoch):
            image.features, image.features_epoch = levels, epoch
        case UnknownUsersChanged(unknown_users):
            image.unknown_users = unknown_users


def _apply_configs(image: ClusterImage, event: ConfigsChanged) -> None:
    match event.kind:
        case ConfigKind.TOPIC:
            image.apply_configs(event.name, event.configs)
        case ConfigKind.BROKER:
            image.broker_configs[int(event.name) if event.name else None] = event.configs
        case ConfigKind.GROUP:
            image.group_configs[event.name] = event.configs
        case ConfigKind.CLIENT_METRICS:
            image.client_metrics = dict(image.client_metrics)
            put(image.client_metrics, event.name, event.configs)


def apply_topics(image: ClusterImage, topics: Iterable[TopicUpdate]) -> Pauses[Noticed]:
    """Apply the partitions of an update to the image, with pauses. Partitions that the update does not contain stay unchanged."""
    noticed, taken = Noticed([], [], []), 0
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
    noticed = Noticed([], [], [])
    image.changes += 1
    for name in names:
        _forget(image, name, noticed)
    return noticed


def _forget(image: ClusterImage, name: str, noticed: Noticed) -> None:
    known = image.drop_topic(name)
    if known is not None:
        noticed.deleted.append(name)
        noticed.deleted_ids.append(known.topic_id)
        for one in known.partitions:
            image.offline_replicas.pop((name, one.index), None)


def _put(image: ClusterImage, topic: TopicImage, partition: PartitionImage, offline: tuple[int, ...]) -> None:
    """Set one partition. Missing partitions with lower indexes are added without a leader."""
    for index in range(len(topic.partitions), partition.index + 1):
        topic.partitions.append(PartitionImage(index))
    topic.partitions[partition.index] = partition
    if offline:
        image.offline_replicas[topic.name, partition.index] = offline
    else:
        image.offline_replicas.pop((topic.name, partition.index), None)
