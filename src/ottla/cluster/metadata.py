"""Metadata events, which describe a cluster to its brokers, and the ports between the source of events and a broker.

A source can be a registry with a controller, or a log of metadata records. Nothing else of a broker depends on which it is.
Registration, and with it the right to lead, is not metadata: see `ottla.broker.membership`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from ottla.cluster.acls import Acl, Key
from ottla.cluster.image import BrokerImage, PartitionImage
from ottla.cluster.quotas import QuotaEntity
from ottla.cluster.replicas.partition_state import Assigned
from ottla.cluster.tokens import DelegationToken
from ottla.cluster.unknown_users import UnknownUsers
from ottla.ports import Links, SharedRegistry, Steps

Errors = dict[tuple[str, int], int]
"""The error code of each partition whose role was requested."""


class PartitionUpdate(NamedTuple):
    """One partition of a `TopicsUpdated`."""

    image: PartitionImage
    offline_replicas: tuple[int, ...] = ()


class TopicUpdate(NamedTuple):
    """A topic with some or all of its partitions."""

    name: str
    topic_id: bytes
    partitions: Sequence[PartitionUpdate]


@dataclass(frozen=True, slots=True)
class ReplicaRole:
    """This broker's role in one partition, as the controller assigns it."""

    topic: str
    topic_id: bytes
    index: int
    assigned: Assigned


@dataclass(frozen=True, slots=True)
class ReplicaStop:
    """A replica for this broker to stop, and to delete if `is_deleted`."""

    topic: str
    index: int
    leader_epoch: int
    is_deleted: bool


class BrokersChanged(NamedTuple):
    """All live brokers, and the id of the controller, which is -1 if there is none."""

    controller_id: int
    brokers: Mapping[int, BrokerImage]


class TopicsUpdated(NamedTuple):
    """New topics, and partitions that are new or have another leader, ISR or replicas. Other partitions stay unchanged."""

    topics: Sequence[TopicUpdate]


class TopicsRemoved(NamedTuple):
    """Topics that no longer exist. Their replicas are deleted by `ReplicasStopped`."""

    names: Iterable[str]


class RolesAssigned(NamedTuple):
    """Partitions that this broker leads or follows from now on. The configs of their topics come before."""

    roles: Iterable[ReplicaRole]


class ReplicasStopped(NamedTuple):
    """Replicas of this broker that have no role any more."""

    replicas: Iterable[ReplicaStop]


class UpToDate(NamedTuple):
    """All metadata has come that existed when the source was asked. Requests that waited for it are answered."""


class ConfigKind(Enum):
    """The resources that have dynamic configs."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


class ConfigsChanged(NamedTuple):
    """All configs of a resource; without configs, the defaults apply. The name of all brokers together is "".

    Configs of a topic can come before the topic.
    """

    kind: ConfigKind
    name: str
    configs: dict[str, str]


class NewTopicConfigs(NamedTuple):
    """All configs of a topic that comes later. A former topic of the name, with another id, keeps its own."""

    name: str
    topic_id: bytes
    configs: dict[str, str]


class UserChanged(NamedTuple):
    """All SCRAM credentials of a user, each as a config. The quotas of the user come as `QuotasChanged`."""

    user: str
    configs: dict[str, str]


class QuotasChanged(NamedTuple):
    """All quotas of an entity."""

    entity: QuotaEntity
    quotas: dict[str, float]


class AclsChanged(NamedTuple):
    """All ACLs of one resource pattern."""

    key: Key
    acls: tuple[Acl, ...]


class TokenChanged(NamedTuple):
    """A delegation token, or None if it was removed."""

    token_id: str
    token: DelegationToken | None


class FeaturesChanged(NamedTuple):
    """The finalized level of each feature that is not off. The epoch increases with each change."""

    levels: dict[str, int]
    epoch: int


class UnknownUsersChanged(NamedTuple):
    """The secret of the cluster from which the credentials of unknown users are derived."""

    unknown_users: UnknownUsers | None


Setting: TypeAlias = (
    ConfigsChanged
    | NewTopicConfigs
    | UserChanged
    | QuotasChanged
    | AclsChanged
    | TokenChanged
    | FeaturesChanged
    | UnknownUsersChanged
)
"""The events that replace one value of the image."""

MetadataEvent: TypeAlias = BrokersChanged | TopicsUpdated | TopicsRemoved | RolesAssigned | ReplicasStopped | UpToDate | Setting


class MetadataSink(Protocol):
    """The broker, as a source sees it."""

    def learn(self, settings: Iterable[Setting]) -> None:
        """Apply settings at once, so that no older value replaces a newer one. They take effect with the next `take`."""

    def take(self, *events: MetadataEvent) -> Steps[Errors]:
        """Apply events in order, and return an error code for each partition of `RolesAssigned` and `ReplicasStopped`.

        The steps must run to their end before the next ones begin.
        """

    def soon(self, *events: MetadataEvent) -> None:
        """Apply events after the current work, and after all events of earlier calls."""


class MetadataSource(Protocol):
    """Where a broker learns about its cluster: an object that passes events to a `MetadataSink`."""

    def load(self) -> Steps[str]:
        """Pass all settings to the sink before any request is served. Return a message if some are invalid, else "".

        Topics, brokers and roles can come then or later. Later changes come without being asked for.
        """


SourceFactory: TypeAlias = Callable[[MetadataSink], MetadataSource]


class ClusterPorts(NamedTuple):
    """The ports that a broker of a cluster has in addition to the ports of a lone broker.

    `source` creates the source of metadata. Without it, metadata comes from the registry and from the controller's requests.
    """

    registry: SharedRegistry
    links: Links
    source: SourceFactory | None = None
