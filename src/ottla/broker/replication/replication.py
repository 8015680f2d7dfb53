"""The parts of a broker's replication, connected to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ottla.broker.coordination.coordinators import CoordinatorMoves
from ottla.broker.interbroker.channels import Channels
from ottla.broker.membership.membership import BrokerMembership
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.replication.alter_partition import asked_isrs
from ottla.broker.replication.fetcher_manager import ReplicaFetchers
from ottla.broker.replication.follower_fetches import Followers
from ottla.broker.replication.image_updates import ImageUpdates
from ottla.broker.replication.log_dir_failures import LogDirFailures
from ottla.broker.replication.replica import Replica, ReplicaPorts
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.replication.topic_configs import TopicConfigs
from ottla.broker.scheduler import Scheduler
from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.directories import PartitionDirectories
from ottla.cluster.image import ClusterImage
from ottla.cluster.replicas.leader import LeaderTerms
from ottla.ports import Disk, Now, SharedRegistry


class Replication:
    """The replication of one broker. `kind` creates partitions. `manager` and `news` process the controller's requests."""

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
        disk: Disk,
        moves: CoordinatorMoves,
        changed: Callable[[list[str]], None],
        deleted: Callable[[list[str], Now], None],
        come: Callable[[], None],
        read_again: Callable[[Iterable[str]], None],
    ) -> None:
        """Take over partitions. Callbacks: `changed` and `deleted` for topics, and `come` after each metadata update.

        `read_again` loads registry entries as soon as they can be read.
        """
        image, settings, scheduler, registry = self._image, self._settings, self._scheduler, self._registry
        ports, configs = self._ports, TopicConfigs(registry, image)
        ports.partitions = partitions
        membership = self._membership
        ports.isrs = asked_isrs(ports.node_id, ports.terms, image, settings, scheduler, self._channels, registry, membership.look)
        ports.failures = LogDirFailures(ports.node_id, registry, scheduler)
        self.manager = ReplicaManager(
            ports, partitions, directories, disk, image, configs, settings, scheduler, lambda: membership.oldest_epoch
        )
        self.updates = ImageUpdates(registry, image, configs, self.manager, scheduler, changed, deleted, come, read_again)
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
        membership.entered.append(lambda now: manager.entered(membership.broker_epoch, now))
        membership.left.append(lambda now: manager.left())
        membership.silenced.append(lambda now: manager.fall_silent())
        membership.woken.append(manager.wake_up)

    def rooms(self) -> dict[object, object]:
        """Return the replication's objects that handlers can take as parameters, by type."""
        return {ReplicaManager: self.manager, ImageUpdates: self.updates}
