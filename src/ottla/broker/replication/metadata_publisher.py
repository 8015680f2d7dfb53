"""Metadata events applied to this broker's image and published to its parts: replicas, groups, logs, quotas and features.

Depends on the events, and not on their source.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.scheduler import Scheduler
from ottla.broker.topics.configs import DynamicConfigs
from ottla.broker.topics.features import Features
from ottla.cluster.image import BrokerImage, ClusterImage
from ottla.cluster.metadata import (
    BrokersChanged,
    ConfigKind,
    ConfigsChanged,
    Errors,
    FeaturesChanged,
    MetadataEvent,
    QuotasChanged,
    ReplicasStopped,
    RolesAssigned,
    Setting,
    TopicsRemoved,
    TopicsUpdated,
    TopicUpdate,
    UpToDate,
)
from ottla.cluster.metadata_updates import Noticed, apply_brokers, apply_setting, apply_topics, drop_topics
from ottla.ports import Now, Steps, StorageFailed


class MetadataPublisher:
    """Implements `ottla.cluster.metadata.MetadataSink`.

    Callbacks: `changed` for new, larger and deleted topics, `deleted` for deleted ones, `come` for `UpToDate`, `settings_changed`
    after changes of topic or broker configs. ACLs, credentials and tokens need none, because they are read from the image on each
    use.
    """

    def __init__(
        self,
        image: ClusterImage,
        replicas: ReplicaManager,
        configs: DynamicConfigs,
        quotas: ClientQuotas,
        features: Features,
        scheduler: Scheduler,
        changed: Callable[[list[str]], None],
        deleted: Callable[[list[str], list[bytes], Now], None],
        come: Callable[[], None],
        settings_changed: Callable[[], None],
    ) -> None:
        self._image = image
        self._replicas = replicas
        self._configs = configs
        self._quotas = quotas
        self._features = features
        self._scheduler = scheduler
        self._changed = changed
        self._deleted = deleted
        self._come = come
        self._settings_changed = settings_changed
        self._pending: list[Setting] = []
        """Settings in the image whose effects are pending."""
        self._soon: deque[MetadataEvent] = deque()

    def soon(self, *events: MetadataEvent) -> None:
        """Apply events after the events of earlier calls. If those are already applied, apply the events at once."""
        self._soon.extend(events)
        self._scheduler.begin("metadata", self._apply_queued())

    def _apply_queued(self) -> Steps[None]:
        while self._soon:
            yield from self.apply_events(self._soon.popleft())

    def learn(self, settings: Iterable[Setting]) -> None:
        """Apply settings to the cluster image at once. The broker uses them from the next application of events on."""
        for setting in settings:
            apply_setting(self._image, setting)
            self._pending.append(setting)

    def apply_events(self, *events: MetadataEvent) -> Steps[Errors]:
        """Apply events in order, and return the error codes of roles and stops."""
        errors: Errors = {}
        for event in events:
            match event:
                case BrokersChanged(controller_id, brokers):
                    yield from self._apply_brokers(controller_id, brokers)
                case TopicsUpdated(topics):
                    yield from self._apply_topics(topics)
                case TopicsRemoved(names):
                    self._notify(drop_topics(self._image, names))
                case RolesAssigned(roles):
                    errors |= yield from self._replicas.apply_roles(roles)
                case ReplicasStopped(replicas):
                    errors |= yield from self._replicas.stop_replicas(replicas)
                case UpToDate():
                    self._come()
                case _:
                    self.learn([event])
        if self._pending:
            yield from self._apply_settings()
        return errors

    def _apply_brokers(self, controller_id: int, brokers: Mapping[int, BrokerImage]) -> Steps[None]:
        has_lost = not self._image.brokers.keys() <= brokers.keys()
        apply_brokers(self._image, controller_id, brokers)
        if has_lost:
            yield from self._replicas.remove_followers()

    def _apply_topics(self, topics: Sequence[TopicUpdate]) -> Steps[None]:
        self._notify((yield from apply_topics(self._image, topics)))
        yield from self._replicas.part_with(topics)

    def _notify(self, noticed: Noticed) -> None:
        if noticed.changed or noticed.deleted:
            self._changed([*noticed.changed, *noticed.deleted])
        if noticed.deleted:  # coordinators remove the offsets and states of topics that are no longer in the image
            self._deleted(noticed.deleted, noticed.deleted_ids, self._scheduler.now())

    def _apply_settings(self) -> Steps[None]:
        pending, self._pending = self._pending, []
        if any(isinstance(one, QuotasChanged) for one in pending):
            self._quotas.load()
        if any(isinstance(one, FeaturesChanged) for one in pending):
            for tell in self._features.told:
                tell()
        configs = [one for one in pending if isinstance(one, ConfigsChanged)]
        topics = [one.name for one in configs if one.kind is ConfigKind.TOPIC]
        of_brokers = any(one.kind is ConfigKind.BROKER for one in configs)
        if topics or of_brokers:
            try:
                yield from self._configs.changed_elsewhere(topics, self._scheduler.now(), of_brokers=of_brokers)
            except StorageFailed:
                self._pending += pending  # they take effect when the source tries again
                raise
            self._settings_changed()
