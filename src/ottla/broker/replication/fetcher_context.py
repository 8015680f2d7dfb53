"""What the parts of a fetcher share: its context, and what they may ask of it. Knows no part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ottla.broker.interbroker.channels import Channels
from ottla.broker.quotas.replication import ReplicationQuota
from ottla.broker.replication.fetched_partition import Followed
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.ports import Steps
from ottla.wire.schema import Message


class FetcherContext(NamedTuple):
    """What all fetchers of a broker share.

    `broker_epoch` and `address` tell this broker's epoch, and where a leader is. `begin_at` has a replica's log begin later, once
    that is noted.
    """

    node_id: int
    channels: Channels
    scheduler: Scheduler
    settings: SettingsInForce
    quota: ReplicationQuota
    broker_epoch: Callable[[], int]
    address: Callable[[int], tuple[str, int] | None]
    begin_at: Callable[[Followed, int], None]


class Copier(Protocol):
    """A fetcher, as its parts see it."""

    @property
    def leader(self) -> int: ...

    @property
    def context(self) -> FetcherContext: ...

    def is_followed(self, followed: Followed) -> bool:
        """Whether a partition is still to be copied by this fetcher, in this leader epoch."""

    def name_again(self, followed: Followed) -> None:
        """The leader has to be told where the log ends or begins now."""

    def rest(self, followed: Followed, ms: int | None = None) -> None:
        """Leave a partition alone for a while, as replica.fetch.backoff.ms says where nothing else does."""

    def give_up(self, followed: Followed) -> None:
        """Wait for what the controller says next of a partition."""

    def asked(self, message: Message, version: int) -> Steps[Any]:
        """The answer of the leader to a request, or None."""
