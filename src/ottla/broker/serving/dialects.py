"""The routers of a broker: one for each dialect (request format) of its listeners, by the listener's release.

Kafka since 0.8 has one dialect. The dialect of 0.6 and 0.7 is an optional part. A broker without the part has no listeners for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.broker.failures import Changes
from ottla.broker.long_checks import LongChecks
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.releases import Dialect
from ottla.broker.scheduler import Scheduler
from ottla.broker.security.rights import Rights
from ottla.broker.serving.metadata_waits import MetadataWaits
from ottla.broker.serving.purgatory import DelayedReply, Purgatory
from ottla.broker.serving.request import Answer, Peer
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.by_name import TopicsByName
from ottla.cluster.image import ClusterImage
from ottla.log.sidecars import SidecarFormat
from ottla.ports import Buffer, Disk, Now


class Speaks(Protocol):
    """The interface of a router for the requests of one protocol: of Kafka 0.8 and later, or of 0.6 and 0.7."""

    def receive(self, frame: Buffer, peer: Peer, now: Now, owned: bool = False) -> Answer | DelayedReply:
        """Serve one request (the bytes after its size): see `Router.receive`."""
        ...

    def refuse(self, error_code: int, sentence: str) -> Answer:
        """Answer the last received request with an error, or close its connection if the dialect has no error responses."""
        ...


class DialectParts(NamedTuple):
    """The parts of a broker that the router of another dialect needs to serve requests."""

    partitions: Partitions
    cluster: ClusterImage
    settings: SettingsInForce
    by_name: TopicsByName
    rights: Rights
    purgatory: Purgatory
    checks: LongChecks
    metadata_waits: MetadataWaits
    scheduler: Scheduler
    changes: Changes
    quotas: ClientQuotas
    disk: Disk
    random_bytes: Callable[[int], bytes]
    node_id: int


class FirstDialect(Protocol):
    """The optional part that serves clients of Kafka 0.6 and 0.7."""

    @property
    def sidecars(self) -> SidecarFormat:
        """Return the format of the files that this part keeps beside the segments of logs."""
        ...

    def router(self, parts: DialectParts) -> Speaks: ...


class Routers(dict[Dialect, Speaks]):
    """The router of each dialect. The router of the first dialect is created, and its modules imported, when it is needed."""

    def __init__(self, versioned: Speaks, first_dialect: FirstDialect | None, parts: DialectParts) -> None:
        super().__init__({Dialect.VERSIONED: versioned})
        self._first_dialect = first_dialect
        self._parts = parts

    def __missing__(self, dialect: Dialect) -> Speaks:
        if self._first_dialect is None:
            raise KeyError(dialect)
        made = self[dialect] = self._first_dialect.router(self._parts)
        return made
