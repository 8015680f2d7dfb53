"""The directories of partitions in the data directory: which there are, and how they go. Knows the disk port and their names."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection

from ottla.log.names import DELETING, STRAY, set_aside_name
from ottla.ports import Disk, StorageFailed

log = logging.getLogger("ottla.broker")

_PARTITION = re.compile(r"(.+)-\d+")
_DELETED = re.compile(rf".+-\d+\.[0-9a-f]{{32}}{DELETING}")


class PartitionDirectories:
    """Every directory of a partition is renamed before it goes, so that its name is free at once."""

    def __init__(self, disk: Disk, random_bytes: Callable[[int], bytes]) -> None:
        self._disk = disk
        self._random_bytes = random_bytes

    def present(self) -> list[str]:
        """Those that have a partition's name. Raises `StorageFailed`."""
        return [name for name in self._disk.list("") if _PARTITION.fullmatch(name)]

    def clear(self, held: Collection[str], deleted: Collection[str]) -> None:
        """Leave only directories in `held`: at start-up. Raises `StorageFailed`.

        Those of the topics in `deleted` are deleted, all others are set aside. Those in `held` that are missing are logged.
        """
        for name in self._disk.list(""):
            if _DELETED.fullmatch(name):
                self._disk.remove_tree(name)
        present = set(self.present())
        for name in sorted(present.difference(held)):
            if name.rpartition("-")[0] in deleted:
                self.delete(name)
            else:
                log.warning("%s belongs to no topic; it is kept as %s", name, self.set_aside(name))
        missing = sorted(set(held) - present)
        if missing:
            log.warning("%d partitions have no directory: those that held no records begin empty: %s", len(missing), _some(missing))

    def make_room(self, name: str) -> None:
        """Set aside what has the name of a new partition. If that fails, the partition's log will be offline because of it."""
        if self._disk.exists(name):
            try:
                log.warning("%s is there though the partition is new; it is kept as %s", name, self.set_aside(name))
            except StorageFailed as failure:
                log.error("%s is there though the partition is new, and can't be moved: %s", name, failure)

    def sync_soon(self) -> None:
        """Start a sync of the names of new directories, or the first sync in each of them would have to do it."""
        try:
            self._disk.sync_soon([self._disk.directory("")], _names_are_synced)
        except StorageFailed as failure:
            _names_are_synced(failure)

    def delete(self, name: str) -> None:
        """Delete the directory of a partition whose topic was deleted. Raises `StorageFailed`."""
        gone = set_aside_name(name, self._random_bytes(16).hex(), DELETING)
        self._disk.rename(name, gone, sync=False)
        self._disk.remove_tree_soon(gone)

    def set_aside(self, name: str) -> str:
        """Rename a directory that belongs to no partition, as Kafka does, to keep its records; returns the new name."""
        stray = set_aside_name(name, self._random_bytes(16).hex(), STRAY)
        self._disk.rename(name, stray, sync=False)
        return stray


def _names_are_synced(failure: StorageFailed | None) -> None:
    """A directory that a power cut takes is made again: nothing in it was promised."""
    if failure is not None:
        log.error("the names of new directories could not be synced: %s", failure)


def _some(names: Collection[str]) -> str:
    first = list(names)[:5]
    return ", ".join(first) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
