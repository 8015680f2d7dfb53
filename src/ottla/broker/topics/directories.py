"""The directories of partitions in the log directories, and their removal. Depends on the disk port and their names."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection

from ottla.broker.partitions.log_directories import LogDirectories
from ottla.log.checkpoints import RECOVERY_POINTS, read_offsets
from ottla.log.name_places import joined
from ottla.log.names import DELETING, FUTURE, LOG, PARTITION_METADATA, STRAY, set_aside_name
from ottla.ports import Disk, StorageFailed, Syncable

log = logging.getLogger("ottla.broker")

_LEFTOVER = re.compile(rf".+-\d+\.[0-9a-f]{{32}}({DELETING}|{FUTURE})")


class PartitionDirectories:
    """The directories of partitions on this broker's disks.

    A directory is renamed before its removal, so that its name is free at once.
    """

    def __init__(self, disk: Disk, random_bytes: Callable[[int], bytes], places: LogDirectories | None = None) -> None:
        self.places = places or LogDirectories(disk)
        self._disk = disk
        self._random_bytes = random_bytes
        self._is_syncing = self._is_due = False

    def strangers(self, held: Collection[str], deleted: Collection[str]) -> list[str]:
        """Return the directories with a partition's files that are neither in `held` nor of a topic in `deleted`.

        Each was copied there, or the registry has lost its entries. Otherwise the registry has the topic before the directory
        exists, or a deletion request until the directory is renamed. Raises `StorageFailed`.
        """
        unknown = sorted(self._present().difference(held))
        return [name for name in unknown if name.rpartition("-")[0] not in deleted and self._holds_records(name)]

    def _present(self) -> set[str]:
        return {name for _, name in self.places.present()}

    def _holds_records(self, name: str) -> bool:
        try:
            files = self._disk.list(name)
            return any(file == PARTITION_METADATA or file.endswith(LOG) for file in files)
        except StorageFailed:  # it is a file, or belongs to no partition
            return False

    def clear(self, held: Collection[str], deleted: Collection[str], new: Collection[str]) -> None:
        """Delete the remaining directories of topics in `deleted`, at startup. Raises `StorageFailed`.

        Directories in `held` that are missing and not `new` are logged; unrelated directories are left unchanged.
        """
        for path in self.places.paths:
            for name in self._disk.list(path):
                if _LEFTOVER.fullmatch(name):
                    self._disk.remove_tree(joined(path, name))
        self.places.remove_outdated()
        present = self._present()
        for name in sorted(present.difference(held)):
            if name.rpartition("-")[0] in deleted:
                self.delete(name)
        missing = sorted(set(held).difference(present, new))
        if missing:
            log.warning("%d partitions have no directory: those that held no records begin empty: %s", len(missing), some(missing))

    def sync_soon(self) -> None:
        """Sync the names of new directories early, so that the first sync in each directory need not do it.

        Another sync follows a running one, which may have missed the newest names.
        """
        if self._is_syncing:
            self._is_due = True
            return
        self._is_syncing, self._is_due = True, False
        try:
            self._disk.sync_soon(self.to_sync(), self._names_are_synced)
        except StorageFailed as failure:
            self._names_are_synced(failure)

    def _names_are_synced(self, failure: StorageFailed | None) -> None:
        """Log a failed sync. A directory lost in a power failure is created again, and had no acknowledged records."""
        self._is_syncing = False
        if failure is not None:
            log.error("the names of new directories could not be synced: %s", failure)
        if self._is_due:
            self.sync_soon()

    def to_sync(self) -> list[Syncable]:
        """Return all log directories, whose sync makes the names of new and removed partitions durable."""
        return [self._disk.directory(path) for path in self.places.paths]

    def exists(self, name: str) -> bool:
        """Return whether a partition has a directory. Raises `StorageFailed`."""
        return self._disk.exists(name)

    def delete(self, name: str) -> None:
        """Delete the directory of a deleted topic's partition. Raises `StorageFailed`."""
        self._disk.remove_tree_soon(self._rename(name, DELETING))

    def set_aside(self, name: str) -> str:
        """Rename a directory that belongs to no partition, as Kafka does, to keep its records; return the new path."""
        return joined(self.places.place_of(name), self._rename(name, STRAY))

    def _rename(self, name: str, end: str) -> str:
        to = set_aside_name(name, self._random_bytes(16).hex(), end)
        self._disk.rename(name, to, sync=False)
        self.places.forget(name)
        return to

    def find_missing(self, deleted: Collection[str]) -> dict[str, int]:
        """Return partition -> recovery point for partitions that had records but have no directory. Skip topics in `deleted`.

        Raises `StorageFailed`.
        """
        noted = sorted(read_offsets(self._disk, RECOVERY_POINTS).items())
        return {
            f"{topic}-{index}": offset
            for (topic, index), offset in noted
            if offset and topic not in deleted and not self.exists(f"{topic}-{index}")
        }


def some(names: Collection[str]) -> str:
    """Return the first five names and the number of the remaining names, as text for a log line."""
    first = list(names)[:5]
    return ", ".join(first) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
