"""How this broker joins its cluster at start-up: it reads the registry, checks that it is the right one, and registers."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.settings import SettingsInForce
from ottla.broker.topics.deletions import NOTES
from ottla.broker.topics.directories import PartitionDirectories, some
from ottla.cluster import layout
from ottla.cluster.brokers import BrokerSpec, register
from ottla.cluster.image import ClusterImage
from ottla.cluster.topics import lead_leaderless, leaderless
from ottla.ports import Change, Now, Registry, RegistryDamaged

META = "meta.properties"


class Registration:
    """Fills the image of the cluster and makes this broker a member and the controller."""

    def __init__(self, registry: Registry, image: ClusterImage, settings: SettingsInForce, node_id: int, cluster_id: str) -> None:
        self._registry = registry
        self._image = image
        self._settings = settings
        self._node_id = node_id
        self._cluster_id = cluster_id

    def join(self, directories: PartitionDirectories, now: Now) -> set[str]:
        """Read the registry and register; returns the names of partitions that were not made yet when the broker ended.

        Raises `StorageFailed`, and `RegistryDamaged` for a registry that can't be read, belongs to other data, or does not know all
        partitions of which there are directories.
        """
        self._image.load(self._registry)
        self._check_identity(directories)
        self._commit(register(self._described(), self._cluster_id, self._image.controller_epoch + 1, now.wall_ms))
        new = {f"{topic.name}-{one.index}" for topic, one in leaderless(self._image)}
        self._commit(lead_leaderless(self._image))
        return new

    def _check_identity(self, directories: PartitionDirectories) -> None:
        """Refuse the registry of another cluster, and one that lacks topics: damage must not look as if they had been deleted."""
        entry = self._registry.get(layout.CLUSTER_ID)
        if entry is not None and (other := layout.read(entry.value)["id"]) != self._cluster_id:
            raise RegistryDamaged(
                f"its registry belongs to the cluster {other}, but {META} to {self._cluster_id}: restore the wrong one"
            )
        strangers = directories.strangers(self._image.partition_names(), self._registry.children(NOTES))
        if strangers and entry is None:
            remedy = "`ottla registry restore` puts a copy back; if Apache Kafka wrote them, copy the records through a client"
            raise RegistryDamaged(f"it has partitions such as {strangers[0]}, and no registry with them: {remedy}")
        if strangers:
            remedy = "move them elsewhere, or adopt them or set them aside with `ottla registry restore`"
            raise RegistryDamaged(f"it has partitions without an entry in the registry, {some(strangers)}: {remedy}")

    def _described(self) -> BrokerSpec:
        settings = self._settings.value
        listeners = settings.advertised_listeners or ()
        _, host, port = listeners[0] if listeners else ("", "", -1)
        return BrokerSpec(self._node_id, host, port, [str(listener) for listener in listeners], settings.broker_rack)

    def _commit(self, changes: Sequence[Change]) -> None:
        self._registry.commit(changes)
        self._image.apply_all(changes)
