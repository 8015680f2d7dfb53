"""The directories of partitions in the data directory: which there are, and how they go. Knows the disk port and their names."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection

from ottla.log.checkpoints import RECOVERY_POINTS, read_offsets
from ottla.log.names import DELETING, LOG, PARTITION_METADATA, STRAY, set_aside_name
from ottla.ports import Disk, StorageFailed

log = logging.getLogger("ottla.broker")

_PARTITION = re.compile(r"(.+)-\d+")
_DELETED = re.compile(rf".+-\d+\.[0-9a-f]{{32}}{DELETING}")


class PartitionDirectories:
    """Every directory of a partition is renamed before it goes, so that its name is free at once."""

    def __init__(self, disk: Disk, random_bytes: Callable[[int], bytes]) -> None:
        self._disk = disk
        self._random_bytes = random_bytes

    def strangers(self, held: Collection[str], deleted: Collection[str]) -> list[str]:
        """Those that hold a partition's files, but are not in `held` and of no topic in `deleted`. Raises `StorageFailed`.

        A partition's directory is made when its topic is in the registry, and a deletion is noted there until the directory has
        another name: whatever else is there was put there, or the registry has lost something.
        """
        unknown = sorted(self._present().difference(held))
        return [name for name in unknown if name.rpartition("-")[0] not in deleted and self._holds_records(name)]

    def _present(self) -> set[str]:
        return {name for name in self._disk.list("") if _PARTITION.fullmatch(name)}

    def _holds_records(self, name: str) -> bool:
        try:
            return any(file == PARTITION_METADATA or file.endswith(LOG) for file in self._disk.list(name))
        except StorageFailed:  # it is a file, or nobody's business
            return False

    def clear(self, held: Collection[str], deleted: Collection[str], new: Collection[str]) -> None:
        """Delete what is left of the topics in `deleted`: at start-up. Raises `StorageFailed`.

        Those in `held` that are missing and not `new` are logged; those that are nobody's are left alone.
        """
        for name in self._disk.list(""):
            if _DELETED.fullmatch(name):
                self._disk.remove_tree(name)
        present = self._present()
        for name in sorted(present.difference(held)):
            if name.rpartition("-")[0] in deleted:
                self.delete(name)
        missing = sorted(set(held).difference(present, new))
        if missing:
            log.warning("%d partitions have no directory: those that held no records begin empty: %s", len(missing), some(missing))

    def make_room(self, name: str) -> None:
        """Set aside what has the name of a new partition. If that fails, the partition's log will be offline because of it."""
        if self._disk.exists(name):
            try:
                log.warning("%s is there though the partition is new; it is kept as %s", name, self.set_aside(name))
            except StorageFailed as failure:
                log.error("%s exists although the partition is new, and cannot be moved: %s", name, failure)

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


def gone(disk: Disk, deleted: Collection[str]) -> dict[str, int]:
    """Partitions that held records and have no directory, with the offset below which these were; none of a topic in `deleted`.

    Raises `StorageFailed`.
    """
    noted = sorted(read_offsets(disk, RECOVERY_POINTS).items())
    return {
        f"{topic}-{index}": offset
        for (topic, index), offset in noted
        if offset and topic not in deleted and not disk.exists(f"{topic}-{index}")
    }


def _names_are_synced(failure: StorageFailed | None) -> None:
    """A directory that a power cut takes is made again: nothing in it was promised."""
    if failure is not None:
        log.error("the names of new directories could not be synced: %s", failure)


def some(names: Collection[str]) -> str:
    """The first of these names, and how many more there are."""
    first = list(names)[:5]
    return ", ".join(first) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
