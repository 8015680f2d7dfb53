"""Checks of a single broker's registry against its data directory at startup: both must contain the same partitions."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.broker.partitions.checkpoints import Checkpoints
from ottla.broker.topics.directories import PartitionDirectories, some
from ottla.cluster import layout
from ottla.cluster.controller_rules.entries import DELETIONS
from ottla.ports import Change, Registry, RegistryDamaged

log = logging.getLogger("ottla.broker")

META = "meta.properties"
UNREADABLE = "its registry's entry {} cannot be read ({}): run `ottla registry check` for the details"


class RegistryCheck:
    """The partitions in a registry (`held`), and its requested topic deletions, at startup."""

    def __init__(self, registry: Registry, cluster_id: str) -> None:
        """Read the registry to check it later. Raises `RegistryDamaged`."""
        self._registry = registry
        self._cluster_id = cluster_id
        self.deleted = frozenset(registry.children(DELETIONS))
        self._topics = registry.children(layout.TOPICS)
        self._held = {(name, int(index)): None for name in self._topics for index in self._indexes(layout.topic_path(name))}

    def identity(self, directories: PartitionDirectories) -> None:
        """Check that the registry belongs to this cluster, and has all topics that have directories.

        Raises `RegistryDamaged` if not. Otherwise damage would look like a deletion. Raises `StorageFailed`.
        """
        entry = self._registry.get(layout.CLUSTER_ID)
        if entry is not None and (other := layout.read(entry.value)["id"]) != self._cluster_id:
            raise RegistryDamaged(
                f"its registry belongs to the cluster {other}, but {META} to {self._cluster_id}: restore the wrong one"
            )
        strangers = directories.strangers(self._names(), self.deleted)
        if strangers and entry is None:
            remedy = "`ottla registry restore` puts a copy back; if Apache Kafka wrote them, copy the records through a client"
            raise RegistryDamaged(f"it has partitions such as {strangers[0]}, and no registry with them: {remedy}")
        if strangers:
            remedy = "move them elsewhere, or adopt them or set them aside with `ottla registry restore`"
            raise RegistryDamaged(f"it has partitions without an entry in the registry, {some(strangers)}: {remedy}")
        if entry is None:
            self._registry.commit([Change(layout.CLUSTER_ID, layout.cluster_id_json(self._cluster_id))])

    def clear(self, directories: PartitionDirectories, checkpoints: Checkpoints, *, clean: bool) -> None:
        """Delete the remaining files of deleted topics. Raises `StorageFailed`.

        The controller finishes requested deletions of topics that still have an entry.
        """
        gone = self.deleted.difference(self._topics)
        going = {f"{name}-{index}" for name, index in self._held if name in self.deleted}
        directories.clear(self._names(), gone, self._never_led() | going)
        forgotten = checkpoints.keep_only(set(self._held))
        lost = [f"{name}-{index}" for name, index in forgotten if name not in self.deleted]
        if lost and clean:  # after a crash, these files may name partitions deleted since they were written
            log.warning("partitions that held records have neither a topic nor a directory any more: %s", some(lost))
        checkpoints.remove_deleted()

    def _names(self) -> list[str]:
        return [f"{name}-{index}" for name, index in self._held]

    def _never_led(self) -> set[str]:
        """Return the names of partitions that never had a leader, whose directories may not exist yet."""
        led = {(name, index) for name in self._topics for index in self._registry.children(layout.partitions_path(name))}
        return {f"{name}-{index}" for name, index in self._held if (name, str(index)) not in led}

    def _indexes(self, path: str) -> Iterable[str]:
        entry = self._registry.get(path)
        assert entry is not None, "it is one of the children"
        try:
            return list(layout.read(entry.value)["partitions"])
        except layout.NOT_UNDERSTOOD as error:
            raise RegistryDamaged(UNREADABLE.format(path, layout.why(error))) from error
