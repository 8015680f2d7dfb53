"""Metadata events, which describe a cluster to its brokers, and the ports between the source of events and a broker.

A source can be a registry with a controller, or a log of metadata records. Nothing else of a broker depends on which it is.
Registration, and with it the right to lead, is not metadata: see `ottla.broker.membership`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from ottla.cluster.acls import Acl, Key
from ottla.cluster.image import BrokerImage, PartitionImage
from ottla.cluster.quotas import QuotaEntity
from ottla.cluster.replicas.partition_state import Assigned
from ottla.cluster.tokens import DelegationToken
from ottla.cluster.unknown_users import UnknownUsers
from ottla.ports import Links, SharedRegistry, Steps
from ottla.values import dataclass

Errors = dict[tuple[str, int], int]
"""The error code of each partition whose role was requested."""


class PartitionUpdate(NamedTuple):
    """The new state of one partition in a `TopicsUpdated` event."""

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
    """An instruction to this broker to stop one of its replicas, and to delete it if `is_deleted`."""

    topic: str
    index: int
    leader_epoch: int
    is_deleted: bool


class BrokersChanged(NamedTuple):
    """An event: the live brokers, and the id of the controller, which is -1 if there is none."""

    controller_id: int
    brokers: Mapping[int, BrokerImage]


class TopicsUpdated(NamedTuple):
    """An event: topics or partitions are new, or partitions have another leader, ISR or replicas. All others stay unchanged."""

    topics: Sequence[TopicUpdate]


class TopicsRemoved(NamedTuple):
    """An event: topics no longer exist. A `ReplicasStopped` event deletes their replicas."""

    names: Iterable[str]


class RolesAssigned(NamedTuple):
    """An event: this broker leads or follows these partitions from now on. The configs of their topics came in earlier events."""

    roles: Iterable[ReplicaRole]


class ReplicasStopped(NamedTuple):
    """An event: replicas of this broker are no longer assigned to it, and must be stopped."""

    replicas: Iterable[ReplicaStop]


class UpToDate(NamedTuple):
    """An event: all metadata that existed when the source was queried has arrived. Requests that waited for it are answered."""


class ConfigKind(Enum):
    """The resources that have dynamic configs."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


class ConfigsChanged(NamedTuple):
    """An event: all configs of a resource. Without configs, the defaults apply. The name "" means all brokers together.

    Configs of a topic can come before the topic.
    """

    kind: ConfigKind
    name: str
    configs: dict[str, str]


class NewTopicConfigs(NamedTuple):
    """An event: all configs of a topic that a later event adds.

    An existing topic of the same name, with another id, keeps its own configs until then.
    """

    name: str
    topic_id: bytes
    configs: dict[str, str]


class UserChanged(NamedTuple):
    """An event: all SCRAM credentials of a user, each as a config. A `QuotasChanged` event has the quotas of the user."""

    user: str
    configs: dict[str, str]


class QuotasChanged(NamedTuple):
    """An event: all quotas of an entity."""

    entity: QuotaEntity
    quotas: dict[str, float]


class AclsChanged(NamedTuple):
    """An event: all ACLs of one resource pattern."""

    key: Key
    acls: tuple[Acl, ...]


class TokenChanged(NamedTuple):
    """An event: a delegation token was created or changed, or removed if the token is None."""

    token_id: str
    token: DelegationToken | None


class FeaturesChanged(NamedTuple):
    """An event: the finalized levels of the features that are not off. The epoch increases with each change."""

    levels: dict[str, int]
    epoch: int


class UnknownUsersChanged(NamedTuple):
    """An event: the secret of the cluster from which fake credentials of unknown users are derived."""

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
    """The interface of a broker for a source of metadata, which passes events to it."""

    def learn(self, settings: Iterable[Setting]) -> None:
        """Apply settings at once, so that no older value replaces a newer one. They take effect when events are next applied."""

    def apply_events(self, *events: MetadataEvent) -> Steps[Errors]:
        """Apply events in order, and return an error code for each partition of `RolesAssigned` and `ReplicasStopped`.

        The steps must run to their end before the next ones begin.
        """

    def soon(self, *events: MetadataEvent) -> None:
        """Apply events after the broker's current work, and after the events of earlier calls of this method."""


class MetadataSource(Protocol):
    """The interface of an object that passes the cluster's metadata, as events, to a `MetadataSink`."""

    def load(self) -> Steps[str]:
        """Pass all settings to the sink before any request is served. Return a message if some settings are invalid, else "".

        Topics, brokers and roles can be passed during this call or later. Later changes are passed without further calls.
        """


SourceFactory: TypeAlias = Callable[[MetadataSink], MetadataSource]


class ClusterPorts(NamedTuple):
    """The ports that a broker of a cluster has in addition to the ports of a lone broker.

    `source` creates the source of metadata. Without it, metadata comes from the registry and from the controller's requests.
    """

    registry: SharedRegistry
    links: Links
    source: SourceFactory | None = None
