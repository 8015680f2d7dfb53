"""All fetchers of this broker, one or more for each leader, and the partitions they copy.

Depends on fetchers and followed replicas; the controller assigns leaders (`replica_manager`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from ottla.broker.interbroker.channels import Channels
from ottla.broker.partitions.partition import Partition
from ottla.broker.quotas.replication import ReplicationQuota
from ottla.broker.releases.interbroker_versions import Switch
from ottla.broker.replication.fetcher_context import FetchedReplica, FetcherContext
from ottla.broker.replication.replica import Replica
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.cluster.replicas.follower import FollowerState
from ottla.ports import Steps

if TYPE_CHECKING:
    from ottla.broker.replication.replica_fetcher import ReplicaFetcher

log = logging.getLogger("ottla.broker")

NO_EPOCH = -1
BeginAt = Callable[[Mapping[Partition, int]], Steps[None]]
"""Advances log start offsets, after the new offsets are on stable storage."""


class ReplicaFetchers:
    """All replica fetchers of this broker. `address` returns a leader's address, and `broker_epoch()` this broker's epoch."""

    def __init__(
        self,
        node_id: int,
        channels: Channels,
        scheduler: Scheduler,
        settings: SettingsInForce,
        address: Callable[[int], tuple[str, int] | None],
        broker_epoch: Callable[[], int],
        begin_at: BeginAt,
    ) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._begin_at = begin_at
        quota = ReplicationQuota(node_id, lambda: settings.value.follower_replication_throttled_rate, settings)
        self._context = FetcherContext(node_id, channels, scheduler, settings, quota, broker_epoch, address, self._begin_later)
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._number = settings.value.num_replica_fetchers
        self._starts: dict[FetchedReplica, int] = {}
        settings.told.append(self._spread)

    def follow(self, replicas: Sequence[Replica]) -> None:
        """Begin to copy replicas from their leaders."""
        for replica in replicas:
            if isinstance(replica.replicas, FollowerState):
                leader = replica.replicas.leader
                fetcher = self._fetcher(leader, crc32(str(replica).encode()) % self._number)
                fetcher.add(FetchedReplica(replica, replica.replicas.topic_id, is_truncating=not self._is_cut_by_fetches(replica)))

    def stop(self, replicas: Sequence[Replica]) -> None:
        for replica in replicas:
            for fetcher in self._fetchers.values():
                fetcher.remove(replica.topic, replica.index)

    def _is_cut_by_fetches(self, replica: Replica) -> bool:
        """Return whether the leader's fetch responses show where the replica's log diverges."""
        protocol = self._settings.value.inter_broker_protocol_version
        has_epochs = replica.log.leader_epoch != NO_EPOCH or not replica.log.log_end_offset
        return protocol.has(Switch.TRUNCATION_ON_FETCH) and has_epochs

    def _fetcher(self, leader: int, number: int) -> ReplicaFetcher:
        found = self._fetchers.get((leader, number))
        if found is None:
            from ottla.broker.replication.replica_fetcher import ReplicaFetcher  # a broker that follows none needs it not

            found = self._fetchers[leader, number] = ReplicaFetcher(leader, number, self._context)
            self._scheduler.at(found, self._scheduler.now().mono_ms, partial(self._begin, found, (leader, number)))
        return found

    def _begin(self, fetcher: ReplicaFetcher, key: tuple[int, int], now: object) -> None:
        """Start a fetcher after the broker's current work, so that one fetch request names all replicas of a metadata update."""

        def on_failure(failure: Exception) -> None:
            log.error("fetching from broker %d failed: %s; it is restarted", fetcher.leader, failure)
            again_ms = self._scheduler.now().mono_ms + self._settings.value.replica_fetch_backoff_ms
            self._scheduler.at(fetcher, again_ms, partial(self._begin, fetcher, key))

        self._scheduler.begin(fetcher, fetcher.steps(), lambda _: self._over(fetcher, key), on_failure, urgent=True)

    def _over(self, fetcher: ReplicaFetcher, key: tuple[int, int]) -> None:
        """Remove a fetcher without partitions, and close its connection."""
        del self._fetchers[key]
        self._context.channels.forget(fetcher.leader, fetcher.lane)

    def _spread(self) -> None:
        """Distribute all replicas anew if the configured number of fetchers has changed."""
        number = self._settings.value.num_replica_fetchers
        if number != self._number:
            self._number = number
            replicas = [one.replica for fetcher in self._fetchers.values() for one in fetcher.followed]
            self.stop(replicas)
            self.follow(replicas)

    # Where logs begin

    def _begin_later(self, followed: FetchedReplica, offset: int) -> None:
        """Advance a log start offset to the leader's. One later job advances many offsets, in parallel with fetches."""
        self._starts[followed] = offset
        self._scheduler.begin("log starts of followers", self._write_starts())

    def _write_starts(self) -> Steps[None]:
        while self._starts:
            starts, self._starts = self._starts, {}
            yield from self._begin_at({one.replica: offset for one, offset in starts.items() if one.is_current})
            for followed in starts:
                for fetcher in self._fetchers.values():
                    fetcher.name_again(followed)
