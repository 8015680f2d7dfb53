"""The sync of the names of new directories."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ottla.broker.topics.directories import PartitionDirectories
from ottla.ports import Done, StorageFailed, Syncable
from ottla.sim.disk import SimDisk


class SlowDisk(SimDisk):
    """A disk whose syncs end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.syncing: list[Done] = []

    def sync_soon(self, files: Iterable[Syncable], done: Done) -> None:
        self.syncing.append(done)


def test_names_that_come_during_a_sync_share_the_next_one() -> None:
    disk = SlowDisk()
    directories = PartitionDirectories(disk, bytes)
    for _ in range(5):
        directories.sync_soon()
    assert len(disk.syncing) == 1
    disk.syncing.pop()(None)
    assert len(disk.syncing) == 1
    disk.syncing.pop()(None)
    assert disk.syncing == []
    directories.sync_soon()
    assert len(disk.syncing) == 1


@pytest.mark.expects_errors("could not be synced")
def test_names_that_come_during_a_failed_sync_are_synced_again() -> None:
    disk = SlowDisk()
    directories = PartitionDirectories(disk, bytes)
    directories.sync_soon()
    directories.sync_soon()
    disk.syncing.pop()(StorageFailed("", "input/output error"))
    assert len(disk.syncing) == 1
