"""The shared context of a fetcher's parts, and the interface of the fetcher to them. Depends on no part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ottla.broker.interbroker.channels import Channels
from ottla.broker.quotas.replication import ReplicationQuota
from ottla.broker.replication.fetched_replica import FetchedReplica
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.ports import Steps
from ottla.wire.schema import Message


class FetcherContext(NamedTuple):
    """The context shared by all fetchers of a broker.

    `broker_epoch()` returns this broker's epoch, and `address` a leader's address. `begin_at` advances a replica's log start offset
    once the offset is on stable storage.
    """

    node_id: int
    channels: Channels
    scheduler: Scheduler
    settings: SettingsInForce
    quota: ReplicationQuota
    broker_epoch: Callable[[], int]
    address: Callable[[int], tuple[str, int] | None]
    begin_at: Callable[[FetchedReplica, int], None]


class Copier(Protocol):
    """The interface of a fetcher to its parts."""

    @property
    def leader(self) -> int: ...

    @property
    def context(self) -> FetcherContext: ...

    def is_followed(self, followed: FetchedReplica) -> bool:
        """Return whether this fetcher still copies a partition, in this leader epoch."""

    def name_again(self, followed: FetchedReplica) -> None:
        """Name a partition in the next request, because its log end or start has changed."""

    def pause(self, followed: FetchedReplica, ms: int | None = None) -> None:
        """Pause a partition for `ms`, or for replica.fetch.backoff.ms if None."""

    def abandon(self, followed: FetchedReplica) -> None:
        """Stop copying a partition until the controller's next update."""

    def request(self, message: Message, version: int) -> Steps[Any]:
        """Return the leader's response to a request; None if no response arrived."""
