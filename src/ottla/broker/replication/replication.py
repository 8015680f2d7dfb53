"""The parts of a broker's replication, connected to each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.broker.coordination.coordinators import CoordinatorMoves
from ottla.broker.interbroker.channels import Channels
from ottla.broker.membership.membership import BrokerMembership
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.replication.alter_partition import isr_updates
from ottla.broker.replication.fetcher_manager import ReplicaFetchers
from ottla.broker.replication.follower_fetches import Followers
from ottla.broker.replication.log_dir_failures import LogDirFailures
from ottla.broker.replication.replica import Replica, ReplicaPorts
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.directories import PartitionDirectories
from ottla.cluster.image import ClusterImage
from ottla.cluster.replicas.leader import LeaderTerms
from ottla.ports import SharedRegistry


class Replication:
    """The replication of partitions on this broker.

    `kind` creates replicated partitions; `manager` processes controller requests.
    """

    def __init__(
        self,
        node_id: int,
        registry: SharedRegistry,
        channels: Channels,
        image: ClusterImage,
        settings: SettingsInForce,
        scheduler: Scheduler,
        membership: BrokerMembership,
    ) -> None:
        self._ports = ReplicaPorts(node_id, LeaderTerms(image.brokers, settings.value.replica_lag_time_max_ms))
        self._registry = registry
        self._channels = channels
        self._image = image
        self._settings = settings
        self._scheduler = scheduler
        self._membership = membership
        self.kind = partial(Replica, ports=self._ports)

    def manage(
        self,
        partitions: Partitions,
        directories: PartitionDirectories,
        moves: CoordinatorMoves,
        come: Callable[[], None],
    ) -> None:
        """Replicate these partitions from now on. `come` is called after replicas are deleted."""
        image, settings, scheduler, registry = self._image, self._settings, self._scheduler, self._registry
        ports = self._ports
        ports.partitions = partitions
        membership = self._membership
        ports.isrs = isr_updates(
            ports.node_id, ports.terms, image, settings, scheduler, self._channels, registry, membership.check_entry
        )
        ports.failures = LogDirFailures(ports.node_id, registry, scheduler)
        self.manager = ReplicaManager(ports, partitions, directories, image, settings, scheduler, lambda: membership.oldest_epoch)
        manager, terms = self.manager, ports.terms
        self.followers = Followers(ports.node_id, image, settings, scheduler)
        self.fetchers = ReplicaFetchers(
            ports.node_id,
            self._channels,
            scheduler,
            settings,
            manager.leader_addresses.get,
            lambda: terms.broker_epoch,
            partitions.checkpoints.begin_at,
        )
        manager.stopping.append(self.fetchers.stop)
        manager.following.append(self.fetchers.follow)
        self.manager.deleted.append(come)
        self.manager.leading.append(moves.on_election)
        self.manager.led.append(moves.on_resignation)
        membership.entered.append(lambda now: manager.begin_registration(membership.broker_epoch, now))
        membership.left.append(lambda now: manager.drop_roles())
        membership.silenced.append(lambda now: manager.suspend_leaders())
        membership.woken.append(manager.wake_up)
