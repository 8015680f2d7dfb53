"""This broker's image of the cluster, made of metadata events from any source.

`ottla.cluster.topics` makes decisions; logs are kept elsewhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

from ottla.cluster import features, tokens, unknown_users
from ottla.cluster.acls import Acls
from ottla.cluster.names import INTERNAL, collision_key
from ottla.cluster.quotas import QuotaEntity

K = TypeVar("K")
V = TypeVar("V")

NO_LEADER = -1
NO_TOPIC_ID = bytes(16)


@dataclass(slots=True)
class BrokerImage:
    """A registered broker as clients see it. `endpoints` are (listener, host, port).

    They are empty if each client gets the address to which it connected.
    """

    node_id: int
    endpoints: tuple[tuple[str, str, int], ...] = ()
    rack: str | None = None


@dataclass(slots=True)
class PartitionImage:
    index: int
    leader: int = NO_LEADER
    leader_epoch: int = 0
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()


@dataclass(slots=True)
class TopicImage:
    """One topic; `partitions[i].index == i`. `configs` are the settings of its own, as texts."""

    name: str
    topic_id: bytes
    partitions: list[PartitionImage] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL


class ClusterImage:
    """Topics by name and by id, brokers, and settings. Any module can read it; `ottla.cluster.metadata_updates` changes it."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.configs_ahead: dict[str, dict[str, str]] = {}
        """The settings of topics that the image lacks, or has only under an older id."""
        self.offline_replicas: dict[tuple[str, int], tuple[int, ...]] = {}
        """The replicas of each partition that are offline, by the controller's last update."""
        self.broker_configs: dict[int | None, dict[str, str]] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.client_metrics: dict[str, dict[str, str]] = {}
        """The configs of each subscription to client metrics. A change replaces the mapping, so that callers can detect it."""
        self.user_configs: dict[str, dict[str, str]] = {}
        """The settings of each user; the empty name is the default for users without settings of their own."""
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.tokens: dict[str, tokens.DelegationToken] = {}
        self.features = dict(features.NEWEST)
        """The level of each feature that is not off."""
        self.features_epoch = 0
        """The version of the feature levels, as Kafka returns it to clients."""
        self.acls = Acls()
        self.unknown_users: unknown_users.UnknownUsers | None = None
        self.controller_id = -1
        self.controller_epoch = 0
        self.changes = 0
        """The number of changes so far, by which callers detect outdated results."""
        self._names: dict[bytes, str] = {}
        self._alike: dict[str, str] = {}
        self._clients: Counter[str] = Counter()
        """The number of client ids with quotas, by user."""

    def can_remove_user(self, user: str) -> bool:
        """Return whether a user's entry may be removed, because the user has no quotas by client id."""
        return user not in self._clients

    def clients_of(self, user: str) -> int:
        """Return the number of client ids for which a user has quotas."""
        return self._clients[user]

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def has_partition(self, topic: str, index: int) -> bool:
        found = self.topics.get(topic)
        return found is not None and 0 <= index < len(found.partitions)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self._names.get(topic_id)
        return None if name is None else self.topics.get(name)

    def find_collision(self, name: str) -> str | None:
        """Return another topic whose name differs from `name` only in '.' and '_'; None if there is no such topic."""
        found = self._alike.get(collision_key(name))
        return None if found == name else found

    def partition_names(self) -> set[str]:
        """Return the directory names of all partitions of all topics."""
        return {f"{topic.name}-{one.index}" for topic in self.topics.values() for one in topic.partitions}

    def put_topic(self, name: str, topic_id: bytes) -> TopicImage:
        """Return the topic of this name and id, created if it is missing. Drop a topic of the same name with another id.

        A topic from before 2.8 has no id until an upgrade, and then takes the first id that arrives.
        """
        known = self.topics.get(name)
        if known is not None and NO_TOPIC_ID in (known.topic_id, topic_id):
            known.topic_id = max(known.topic_id, topic_id)
            self.name_topic(name, known.topic_id)
        elif known is None or known.topic_id != topic_id:
            configs = self.configs_ahead.pop(name, {})
            self.drop_topic(name)
            known = self.topics[name] = TopicImage(name, topic_id, configs=configs)
            self.name_topic(name, topic_id)
            self._alike[collision_key(name)] = name
        return known

    def name_topic(self, name: str, topic_id: bytes) -> None:
        """Map a topic id to its name, even if the image lacks the topic."""
        if topic_id != NO_TOPIC_ID:
            self._names[topic_id] = name

    def is_known(self, name: str, topic_id: bytes) -> bool:
        """Return whether the image has a topic of this name and id. If one id is missing (before 2.8), only the names count."""
        known = self.topics.get(name)
        return known is not None and (known.topic_id == topic_id or NO_TOPIC_ID in (known.topic_id, topic_id))

    def set_configs(self, name: str, topic_id: bytes, configs: dict[str, str]) -> None:
        """Set the settings of a topic. If the image lacks the topic of this name and id, keep the settings for `put_topic`."""
        if self.is_known(name, topic_id):
            self.topics[name].configs = configs
        else:
            self.configs_ahead[name] = configs

    def drop_topic(self, name: str) -> TopicImage | None:
        """Remove a topic from the image and return it; None if the topic is not in the image."""
        known = self.topics.pop(name, None)
        self.configs_ahead.pop(name, None)
        if known is not None:
            self._names.pop(known.topic_id, None)
            self._alike.pop(collision_key(name), None)
        return known

    def apply_configs(self, name: str, configs: dict[str, str]) -> None:
        """Set the settings of the present topic of a name. If there is none yet, keep them for `put_topic`."""
        known = self.topics.get(name)
        if known is not None:
            known.configs = configs
        if not configs:
            self.configs_ahead.pop(name, None)
        elif known is None or name in self.configs_ahead:
            self.configs_ahead[name] = configs

    def configs_of(self, name: str, topic_id: bytes) -> dict[str, str]:
        """Return the settings of the topic with this name and id.

        A recreated topic can still be in the image under its former id.
        """
        return self.topics[name].configs if self.is_known(name, topic_id) else self.configs_ahead.get(name, {})

    def apply_quotas(self, entity: QuotaEntity, found: dict[str, float]) -> None:
        before = entity in self.quotas
        put(self.quotas, entity, found)
        if entity.user is not None and entity.client_id is not None and bool(found) is not before:
            self._clients[entity.user] += 1 if found else -1
            if not self._clients[entity.user]:
                del self._clients[entity.user]


def put(known: dict[K, dict[str, V]], name: K, values: dict[str, V]) -> None:
    """Set the values of `name` in the dictionary `known`. If `values` is empty, remove the name."""
    if values:
        known[name] = values
    else:
        known.pop(name, None)
