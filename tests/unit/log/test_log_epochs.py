"""Leader epochs outlive a disk that refuses to note them for a while."""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.log import Log, LogConfig
from ottla.ports import StorageFailed
from ottla.sim.disk import NO_SPACE, SimDisk
from tests.unit.log.batches import NOW, append, make_batch, sync

EPOCHS = "t-0/leader-epoch-checkpoint"
WANTED = [(3, 0), (7, 1)]


def written() -> tuple[SimDisk, Log]:
    disk = SimDisk()
    log = Log.open(disk, "t-0", LogConfig(), NOW)
    append(log, make_batch(1), leader_epoch=3)
    append(log, make_batch(1), leader_epoch=7)
    sync(log)
    return disk, log


def after_a_power_cut(disk: SimDisk, recovery_point: int) -> list[tuple[int, int]]:
    disk.crash(Random(1))
    return Log.open(disk, "t-0", LogConfig(), NOW, recovery_point=recovery_point).epochs.entries


@pytest.mark.parametrize("after", range(4))
def test_a_checkpoint_that_failed_is_made_up_for_by_the_next(after: int) -> None:
    disk, log = written()
    disk.fail(after)
    try:
        log.checkpoint()
    except StorageFailed:
        disk.heal()
    assert after_a_power_cut(disk, log.checkpoint()) == WANTED


def test_epochs_that_found_no_room_at_the_start_are_noted_later() -> None:
    disk, _ = written()
    disk.remove(EPOCHS)
    disk.capacity_bytes = 0
    log = Log.open(disk, "t-0", LogConfig(), NOW)
    assert not disk.exists(EPOCHS)
    with pytest.raises(StorageFailed, match=NO_SPACE):
        append(log, make_batch(1), leader_epoch=7)
    disk.capacity_bytes = None
    recovery_point = log.checkpoint()
    assert recovery_point == 2
    assert after_a_power_cut(disk, recovery_point) == WANTED


@pytest.mark.parametrize("left", [b"", b"0\n1\n", b"no epochs"])
def test_epochs_that_were_torn_are_written_anew_also_where_there_are_none(left: bytes) -> None:
    disk = SimDisk()
    Log.open(disk, "t-0", LogConfig(), NOW).close()
    disk.write_file(EPOCHS, left)
    Log.open(disk, "t-0", LogConfig(), NOW)
    assert disk.read_file(EPOCHS) == b"0\n0\n"
