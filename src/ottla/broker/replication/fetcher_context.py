"""The shared context of a fetcher's parts: the partitions it copies, and its interface to them. Depends on no request in flight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ottla.broker.interbroker.channels import Channels
from ottla.broker.quotas.replication import ReplicationQuota
from ottla.broker.replication.replica import Replica
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.ports import Steps
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.schema import Message

NEVER_ASKED = NO_EPOCH = -1


class FetchedReplica:
    """A replica that copies from its leader in one leader epoch. A later epoch has its own object.

    `asked_offset` is the log's end at the last fetch, and only a response from there is used. With `is_truncating`, the leader is
    first asked where to truncate. `lag` counts the records up to the leader's high watermark, or is None before a response.
    """

    __slots__ = ("asked_offset", "is_truncating", "lag", "leader_epoch", "replica", "rests_until_ms", "topic_id")

    def __init__(self, replica: Replica, topic_id: bytes, *, is_truncating: bool) -> None:
        self.replica = replica
        self.topic_id = topic_id
        self.leader_epoch = replica.leader_epoch
        self.is_truncating = is_truncating
        self.asked_offset = NEVER_ASKED
        self.lag: int | None = None
        self.rests_until_ms = 0

    def __str__(self) -> str:
        return str(self.replica)

    @property
    def is_current(self) -> bool:
        """Return whether the replica still follows in this leader epoch."""
        return self.replica.is_following and self.replica.leader_epoch == self.leader_epoch

    def fetch_request(self, max_bytes: int, *, by_epoch: bool) -> FetchRequest.FetchPartition:
        """Return this partition's part of the next fetch, and set `asked_offset`. `by_epoch` requests the diverging epoch."""
        log = self.replica.log
        self.asked_offset = log.log_end_offset
        return FetchRequest.FetchPartition(
            partition=self.replica.index,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.leader_epoch if by_epoch else NO_EPOCH,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=max_bytes,
        )


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
    """The interface of a replica fetcher, as the objects use it that process responses and truncate logs."""

    @property
    def leader(self) -> int: ...

    @property
    def context(self) -> FetcherContext: ...

    def is_followed(self, followed: FetchedReplica) -> bool:
        """Return whether this fetcher still copies a partition, in this leader epoch."""

    def name_again(self, followed: FetchedReplica) -> None:
        """Include a partition in the next fetch request, because its log end or start has changed."""

    def pause(self, followed: FetchedReplica, ms: int | None = None) -> None:
        """Pause a partition for `ms`, or for replica.fetch.backoff.ms if None."""

    def abandon(self, followed: FetchedReplica) -> None:
        """Stop copying a partition until the controller's next update."""

    def request(self, message: Message, version: int) -> Steps[Any]:
        """Return the leader's response to a request; None if no response arrived."""
