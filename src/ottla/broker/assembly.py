"""The objects that one broker is composed of: created and connected to each other here, and nowhere else.

Each object gets only its dependencies. The assembly contains all objects; `broker.broker` starts, runs and closes them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.controller.controller import Controller
from ottla.broker.coordination.additions import PartitionAdditions
from ottla.broker.coordination.coordinators import CoordinatorMoves, CoordinatorRooms
from ottla.broker.coordination.end_offsets import EndOffsets
from ottla.broker.coordination.groups import GroupCoordinators, GroupShards
from ottla.broker.coordination.guard import TransactionGuard
from ottla.broker.coordination.markers import MarkerAppender, TransactionMarkers
from ottla.broker.coordination.registry_offsets import RegistryOffsets
from ottla.broker.coordination.share_group_states import ShareGroupStates
from ottla.broker.coordination.share_states import SharePersister, ShareStateCoordinators, ShareStateShards
from ottla.broker.coordination.transactions import TransactionCoordinators, TransactionShards
from ottla.broker.failures import Changes
from ottla.broker.identity import BrokerIdentity
from ottla.broker.interbroker.channels import BrokerRequester, Channels
from ottla.broker.interbroker.loopback import NoLinks, Within
from ottla.broker.loggers import NoLoggers
from ottla.broker.long_checks import LongChecks
from ottla.broker.membership.directory import DirectoryEpoch
from ottla.broker.membership.membership import BrokerMembership
from ottla.broker.membership.notifications import Notifications
from ottla.broker.partitions.journals import JournalLimits
from ottla.broker.partitions.log_cleaner import Cleaner
from ottla.broker.partitions.log_directories import LogDirectories
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.replica_moves import ReplicaMoves
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.exemptions import RequestsOfBrokers
from ottla.broker.quotas.quota_changes import QuotaChanges
from ottla.broker.quotas.request_throttle import Throttling
from ottla.broker.replication.follower_fetches import Followers
from ottla.broker.replication.image_updates import ImageUpdates
from ottla.broker.replication.metadata_publisher import MetadataPublisher
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.replication.replication import Replication
from ottla.broker.scheduler import Scheduler
from ottla.broker.security.acls import AclAuthorizer
from ottla.broker.security.credentials import Credentials
from ottla.broker.security.logins import Logins
from ottla.broker.security.rights import AllowAll, Answering, Authorizer, Rights, TrustingItself, UncachedAuthorizer
from ottla.broker.security.tokens import DelegationTokens
from ottla.broker.serving.addresses import Addresses, CurrentLeaders
from ottla.broker.serving.all_topics import AllTopics
from ottla.broker.serving.api_table import apis
from ottla.broker.serving.authorization import Guard
from ottla.broker.serving.dialects import DialectParts, FirstDialect, Routers
from ottla.broker.serving.fetch_sessions import FetchSessions
from ottla.broker.serving.metadata_waits import MetadataWaits
from ottla.broker.serving.partition_fields import PartitionDescriber
from ottla.broker.serving.purgatory import Purgatory
from ottla.broker.serving.router import Router
from ottla.broker.serving.routes import Route, Served
from ottla.broker.settings import BrokerSettings, SettingsInForce
from ottla.broker.share.group_configs import ShareGroupConfigs
from ottla.broker.share.share_partitions import SharePartitions
from ottla.broker.telemetry.client_metrics import ClientMetrics
from ottla.broker.topics.by_name import TopicsByName
from ottla.broker.topics.commits import Commits, alone
from ottla.broker.topics.configs import DynamicConfigs
from ottla.broker.topics.directories import PartitionDirectories
from ottla.broker.topics.features import Features
from ottla.broker.topics.producer_ids import ProducerIdBlocks, ProducerIds
from ottla.broker.topics.streams_topics import StreamsTopics
from ottla.broker.topics.topics import Topics, new_topic_id
from ottla.cluster.announcements import notifications_of
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata import ClusterPorts, SourceFactory
from ottla.ports import Clock, Disk, Loggers, Now, Registry, Workers
from ottla.registry.embedded_registry import EmbeddedRegistry
from ottla.share.sessions import ShareSessions

if TYPE_CHECKING:
    from ottla.broker.security.authentication import SaslListener
    from ottla.broker.security.proofs import Proofs
    from ottla.coord.consumer.assign import Assignor


class BrokerAssembly:
    """The state machines, coordinators and routers of one broker. `BrokerMachine` describes the arguments."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        clock: Clock,
        disk: Disk,
        cluster: ClusterPorts | Registry,
        node_id: int,
        cluster_id: str,
        random_bytes: Callable[[int], bytes],
        workers: Workers | None = None,
        assignors: tuple[Assignor, ...] | None = None,
        routes: Sequence[Route] = (),
        authorizer: Authorizer | None = None,
        proofs: Proofs | None = None,
        first_dialect: FirstDialect | None = None,
        loggers: Loggers | None = None,
        log_dirs: Sequence[str] = (),
    ) -> None:
        self.settings_in_force = SettingsInForce(settings)
        self.clock, self.disk, self.random_bytes = clock, disk, random_bytes
        self.node_id, self.cluster_id = node_id, cluster_id
        self._loggers = loggers or NoLoggers()
        self.changes = Changes()
        self.scheduler = Scheduler(clock)
        self.purgatory = Purgatory(self.scheduler, self.changes)
        self.checks = LongChecks(workers, clock, self.scheduler)
        self.image = ClusterImage()
        self.metadata_waits = MetadataWaits(self.purgatory, self.scheduler)
        source = self._connect(cluster)
        self.log_directories = self._log_directories(log_dirs)
        self.partitions = self._partitions(first_dialect)
        self.directories = PartitionDirectories(disk, random_bytes, self.log_directories)
        self._change_metadata()
        self.rights = self._rights(authorizer)
        self._coordinate(assignors)
        self.replica_moves = ReplicaMoves(disk, self.scheduler, self.partitions, self.settings_in_force, random_bytes)
        self.cleaner = Cleaner(self.partitions, disk, clock, self.scheduler, self.settings_in_force, self.checks, random_bytes)
        self.logins = self._logins(proofs)
        self.replication.manage(self.partitions, self.directories, self.moves, self.metadata_waits.notify)
        self.replication.manager.led.append(self.shares.on_resignation)
        self._learn_metadata(source)
        self.fetch_sessions = FetchSessions(random_bytes, self.purgatory.wake, self.image.name_of)
        self._describer = PartitionDescriber(self._identity, self.partitions, self.image)
        self.all_topics = AllTopics(self.image, self.partitions, self._describer)
        self.client_metrics = ClientMetrics(self.image, self.settings_in_force, self.random_bytes)
        self._router = self._make_router(routes)
        self.routers = self._routers(first_dialect)
        self.forget = self.purgatory.forget

    def _connect(self, cluster: ClusterPorts | Registry) -> SourceFactory | None:
        """Create the objects that depend on the registry and on other brokers: membership, channels, controller and replication."""
        self.embedded: EmbeddedRegistry | None = None
        if not isinstance(cluster, ClusterPorts):
            self.embedded = EmbeddedRegistry(cluster, self._call_later)
            cluster = ClusterPorts(self.embedded, NoLinks(self._call_later))
        self.is_alone = self.embedded is not None
        self.shared = registry = cluster.registry
        self._identity = identity = BrokerIdentity(self.node_id, self.cluster_id)
        settings, scheduler = self.settings_in_force, self.scheduler
        directory = DirectoryEpoch(self.node_id, self.disk, registry, scheduler, has_registry=self.is_alone)
        self.membership = BrokerMembership(registry, settings, identity, scheduler, lambda: self.image.features, directory)
        within = Within(scheduler, self.changes, lambda *request: self._within.serve(*request))
        self.channels = Channels(self.node_id, cluster.links, self.image, settings, within)
        new_id = partial(new_topic_id, self.random_bytes)
        self.controller = Controller(registry, self.channels, settings, scheduler, self.node_id, new_id, is_alone=self.is_alone)
        self.membership.entered.append(self.controller.become_candidate)
        self.membership.left.append(self.controller.leave)
        self.replication = Replication(self.node_id, registry, self.channels, self.image, settings, scheduler, self.membership)
        return cluster.source

    def _log_directories(self, further: Sequence[str]) -> LogDirectories:
        first = (self.settings.log_dirs or self.settings.log_dir)[0]
        found = LogDirectories(self.disk, further, first, lambda: self.settings_in_force.value.cordoned_log_dirs)
        found.check_cordons(self.settings.cordoned_log_dirs)
        self.settings_in_force.checks.append(lambda settings: found.check_cordons(settings.cordoned_log_dirs))
        return found

    def _cordoned_brokers(self) -> Collection[int]:
        """Return this broker's id if it is the only broker and all its log directories are cordoned, else no ids.

        Brokers of a cluster over ZooKeeper do not exchange this.
        """
        return (self.node_id,) if self.is_alone and self.log_directories.are_cordoned else ()

    def _partitions(self, first_dialect: FirstDialect | None) -> Partitions:
        shared = (self.disk, self.clock, self.scheduler, self.changes, self._on_partition_change)
        settings = self.settings
        journal = JournalLimits(settings.ottla_journal_bytes, settings.ottla_journal_max_partition_bytes)
        partitions = Partitions(*shared, self.replication.kind, self.image.has_partition, self.log_directories, journal)
        partitions.sidecars = None if first_dialect is None else first_dialect.sidecars
        partitions.producers.most = lambda: self.settings_in_force.value.ottla_max_producer_ids_per_broker
        return partitions

    def _call_later(self, call: Callable[[], None]) -> None:
        self.scheduler.at(object(), self.scheduler.now().mono_ms, lambda now: call())

    def _change_metadata(self) -> None:
        """Create the objects that change topics, configs, quotas and ACLs when a client requests it."""
        image, settings, random_bytes = self.image, self.settings_in_force, self.random_bytes
        self._known_entries: set[str] = set()
        announce = alone if self.is_alone else notifications_of
        self.commits = commits = Commits(self.shared, image, self.changes, announce, self._known_entries)
        self.features = Features(image, commits)
        self.configs = DynamicConfigs(image, commits, settings, self.node_id, self.partitions.configure)
        self.quotas = ClientQuotas(image, settings, self.scheduler.now)
        self._quota_changes = QuotaChanges(image, commits, self.quotas.load)
        waits, holds = self.metadata_waits, self.partitions.holds
        self.topics = Topics(
            image, commits, settings, random_bytes, self.purgatory, waits, holds, self._cordoned_brokers, is_alone=self.is_alone
        )
        self.credentials = Credentials(image, commits, random_bytes)
        self.tokens = DelegationTokens(image, commits, settings, random_bytes, self._is_controller)

    def _learn_metadata(self, source: SourceFactory | None) -> None:
        """Create the publisher, which applies the cluster's metadata to this broker, and the source of the metadata."""
        registry, image, scheduler, replicas = self.shared, self.image, self.scheduler, self.replication.manager
        rooms = (image, replicas, self.configs, self.quotas, self.features, scheduler)
        callbacks = (
            self.groups.topics_changed,
            self._topics_deleted,
            self.metadata_waits.notify,
            self.controller.settings_changed,
        )
        self.publisher = MetadataPublisher(*rooms, *callbacks)
        self.notifications = Notifications(registry, image, scheduler, self.publisher, self._known_entries)
        self.source = self.notifications if source is None else source(self.publisher)
        self.updates = ImageUpdates(registry, image, replicas, scheduler, self.publisher, self.notifications.read_again)

    def _coordinate(self, assignors: tuple[Assignor, ...] | None) -> None:
        """Create the coordinators of groups and transactions, which move with the leadership of their partitions."""
        self.requester = requester = BrokerRequester(self.channels, self.settings_in_force)
        image, settings, scheduler = self.image, self.settings_in_force, self.scheduler
        self.by_name = TopicsByName(image, settings, requester, scheduler, self.metadata_waits, is_alone=self.is_alone)
        self.streams_topics = StreamsTopics(self.by_name, scheduler)
        blocks, epoch = ProducerIdBlocks(self.shared), lambda: self.membership.broker_epoch
        self.producer_ids = ProducerIds(image, blocks, requester, scheduler, self.node_id, epoch)
        rooms = CoordinatorRooms(image, self.by_name.create_internal, self.partitions, scheduler, self.changes)
        self.groups = GroupCoordinators(rooms, settings, self.random_bytes, assignors, self.rights)
        self.markers = MarkerAppender(self.partitions, self.groups.transaction_ended)
        transaction_markers = TransactionMarkers(self.markers, image, scheduler, requester, self.node_id)
        new_id = self.producer_ids.next
        self.transactions = TransactionCoordinators(
            rooms, settings, self.features, new_id, transaction_markers, is_alone=self.is_alone
        )
        self.share_states = ShareStateCoordinators(rooms, settings, requester, self.node_id, is_alone=self.is_alone)
        self.share_groups = ShareGroupStates(self.groups, self.share_states.persister, scheduler)
        coordinators = self.groups.coordinators, self.transactions.coordinators, self.share_states.coordinators
        self.moves = CoordinatorMoves(coordinators)
        self.additions = PartitionAdditions(self.transactions, requester, self.node_id)
        self.share_sessions, self.shares = ShareSessions(), self._shares()

    def _shares(self) -> SharePartitions:
        configs = ShareGroupConfigs(self.image, self.settings_in_force)
        rooms = (self.checks, self.scheduler, self.purgatory, self.changes)
        return SharePartitions(self.partitions, self.image, configs, self.share_states.persister, *rooms)

    def _topics_deleted(self, names: list[str], topic_ids: list[bytes], now: Now) -> None:
        """Remove the state of deleted topics from the coordinators."""
        self.groups.topics_deleted(names, now)
        self.share_states.topics_deleted(names, topic_ids, now)

    def _logins(self, proofs: Proofs | None) -> Logins:
        def offer_at(settings: BrokerSettings, listener: str) -> SaslListener:
            from ottla.broker.security.mechanisms import offer
            from ottla.broker.security.offers import Means
            from ottla.broker.security.proofs import NoProofs

            means = Means(self.random_bytes, self.credentials, self.tokens, proofs or NoProofs())
            return offer(means, settings, listener)

        return Logins(self.settings_in_force, offer_at, self.purgatory, self.checks)

    def _rights(self, authorizer: Authorizer | None) -> Rights:
        settings = self.settings
        if authorizer is None and not settings.authorizer_class_name:
            return Rights(AllowAll())
        answering: Answering
        if authorizer is not None:
            answering = UncachedAuthorizer(authorizer)
        else:
            allow_if_none = settings.allow_everyone_if_no_acl_found
            answering = AclAuthorizer(self.image.acls, settings.super_users, allow_if_none=allow_if_none)
        return Rights(TrustingItself(answering), has_rules=authorizer is None)

    def _make_router(self, routes: Sequence[Route]) -> Router:
        guard = None if self.rights.is_open else Guard(self.rights, self.image.name_of)
        self._addresses = Addresses(self._identity, self.settings_in_force, self.image)
        leaders = CurrentLeaders(self.partitions, self.image, self._addresses)
        self.quotas.told.append(self._throttle)
        contexts, more = self._contexts(), (self.changes, self.purgatory, self._is_controller, self.logins, leaders, guard)
        within = Served(apis(for_brokers=True), routes, self._is_on)
        self._within = Router(within, contexts | {Served: within}, *more)
        shown = Served(apis(for_brokers=not self.is_alone), routes, self._is_on)
        return Router(shown, contexts | {Served: shown}, *more)

    def _is_on(self, switch: str) -> bool:
        return bool(getattr(self.settings, switch))

    def _routers(self, first_dialect: FirstDialect | None) -> Routers:
        parts = DialectParts(
            self.partitions,
            self.image,
            self.settings_in_force,
            self.by_name,
            self.rights,
            self.purgatory,
            self.checks,
            self.metadata_waits,
            self.scheduler,
            self.changes,
            self.quotas,
            self.disk,
            self.random_bytes,
            self.node_id,
        )
        return Routers(self._router, first_dialect, parts)

    def _contexts(self) -> dict[object, object]:
        """Return the objects that handlers can take as parameters, by type."""
        identity = self._identity
        return {
            BrokerIdentity: identity,
            SettingsInForce: self.settings_in_force,
            Disk: self.disk,
            EmbeddedRegistry: self.embedded,
            Loggers: self._loggers,
            ClientMetrics: self.client_metrics,
            Purgatory: self.purgatory,
            LongChecks: self.checks,
            Partitions: self.partitions,
            LogDirectories: self.log_directories,
            ReplicaMoves: self.replica_moves,
            ClusterImage: self.image,
            Topics: self.topics,
            DynamicConfigs: self.configs,
            ClientQuotas: self.quotas,
            Changes: self.changes,
            QuotaChanges: self._quota_changes,
            Features: self.features,
            ProducerIds: self.producer_ids,
            TopicsByName: self.by_name,
            StreamsTopics: self.streams_topics,
            GroupShards: self.groups.coordinators,
            FetchSessions: self.fetch_sessions,
            SharePartitions: self.shares,
            ShareSessions: self.share_sessions,
            Addresses: self._addresses,
            MetadataWaits: self.metadata_waits,
            RegistryOffsets: RegistryOffsets(self.shared, self.image, self.settings_in_force, self.changes, self.purgatory),
            TransactionShards: self.transactions.coordinators,
            ShareStateShards: self.share_states.coordinators,
            SharePersister: self.share_states.persister,
            ShareGroupStates: self.share_groups,
            EndOffsets: EndOffsets(self.partitions, self.image, self.requester, self.node_id),
            MarkerAppender: self.markers,
            TransactionGuard: TransactionGuard(self.additions, self.settings_in_force),
            TransactionCoordinators: self.transactions,
            GroupCoordinators: self.groups,
            PartitionDescriber: self._describer,
            AllTopics: self.all_topics,
            Logins: self.logins,
            Credentials: self.credentials,
            DelegationTokens: self.tokens,
            Rights: self.rights,
            Commits: self.commits,
            Controller: self.controller,
            Followers: self.replication.followers,
            ReplicaManager: self.replication.manager,
            MetadataPublisher: self.publisher,
            ImageUpdates: self.updates,
            ProducerIdBlocks: self.producer_ids.blocks,
        }

    @property
    def settings(self) -> BrokerSettings:
        return self.settings_in_force.value

    def _throttle(self) -> None:
        """Measure and enforce client quotas in the router's responses, if any quotas exist."""
        is_exempt = RequestsOfBrokers(self.rights).have
        encode = self._router.encode
        self._router.encode_by(Throttling(self.quotas, encode, is_exempt).answer if self.quotas.is_on else encode)

    def _is_controller(self) -> bool:
        return self.controller.is_active

    def _on_partition_change(self, partition: Partition) -> None:
        if partition.offline is not None:
            self.all_topics.invalidate()
            self.moves.on_resignation(partition)
            self.shares.on_resignation(partition)
        self.purgatory.wake(partition.key)
        self.fetch_sessions.mark_changed(partition.key)
        self.shares.on_change(partition)
