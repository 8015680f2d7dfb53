"""A kill is no power cut: the page cache outlives the process, so nothing that was written can be missing but an append's end."""

from __future__ import annotations

from random import Random

import pytest

from ottla.log.log import Damaged, Log, LogConfig
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch, read_all, sync

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)
BATCH_BYTES = 100
COUNT = 25
LAST = "t-0/00000000000000000020.log"


def written(disk: SimDisk) -> list[bytes]:
    """Batches of one record, ten to a segment; the last epoch begins at offset 22. Everything below 12 is known as synced."""
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for number in range(COUNT):
        append(log, make_batch(1, BATCH_BYTES - 61), leader_epoch=number // 22 + 4)
        if number == 11:
            sync(log)
            assert log.checkpoint() == 12
    found = [data for _, data in read_all(log)]
    disk.kill()
    return found


def reopen(disk: SimDisk, config: LogConfig = CONFIG, *, was_killed: bool = True) -> Log:
    return Log.open(disk, "t-0", config, NOW, recovery_point=12, is_noted=True, was_killed=was_killed)


def change(disk: SimDisk, path: str, position: int, data: bytes) -> None:
    disk.open(path).write(position, data)


def test_everything_is_there_after_a_kill() -> None:
    disk = SimDisk()
    before = written(disk)
    log = reopen(disk)
    assert [data for _, data in read_all(log)] == before
    assert log.epochs.entries == [(4, 0), (5, 22)]


@pytest.mark.parametrize("left", range(BATCH_BYTES))
def test_the_end_of_an_append_may_be_missing(left: int) -> None:
    disk = SimDisk()
    before = written(disk)
    disk.open(LAST).truncate(4 * BATCH_BYTES + left)
    assert [data for _, data in read_all(reopen(disk))] == before[:-1]


@pytest.mark.parametrize("batch", [12, 17, 19, 20, 22, 24])
@pytest.mark.parametrize("field", [6, 7, 12, 14, 15, 17, 23, 26, 40, 99])
def test_a_batch_that_changed_is_damage_wherever_it_is(batch: int, field: int) -> None:
    disk = SimDisk()
    written(disk)
    name, position = f"t-0/{batch // 10 * 10:020d}.log", batch % 10 * BATCH_BYTES
    disk.flip_bit(name, 8 * (position + field))
    before = disk.read_file(name)
    with pytest.raises(Damaged, match=rf"{batch // 10 * 10:020d}\.log: at byte {position}: "):
        reopen(disk)
    assert disk.read_file(name) == before
    if field not in (12, 14, 15):  # after a power cut nobody knows it of an epoch
        assert reopen(disk, was_killed=False).log_end_offset == batch


@pytest.mark.parametrize("batch", [8, 17, 24])
@pytest.mark.parametrize("preallocate", [False, True])
def test_of_a_leader_epoch_that_changed_both_are_named_and_not_the_crc(batch: int, preallocate: bool) -> None:
    disk = SimDisk()
    written(disk)
    disk.flip_bit(f"t-0/{batch // 10 * 10:020d}.log", 8 * (batch % 10 * BATCH_BYTES + 15) + 6)
    noted = batch // 22 + 4
    config = LogConfig(segment_bytes=1000, index_interval_bytes=2000, preallocate=preallocate)
    with pytest.raises(Damaged, match=f"has leader epoch {noted + 64}, but {noted} in leader-epoch-checkpoint"):
        Log.open(disk, "t-0", config, NOW, recovery_point=7, is_noted=True, was_killed=True)


def test_a_length_that_leads_beyond_the_end_is_damage_where_batches_follow() -> None:
    disk = SimDisk()
    written(disk)
    change(disk, LAST, 2 * BATCH_BYTES + 8, b"\0\1")
    with pytest.raises(Damaged, match="at byte 200"):
        reopen(disk)


@pytest.mark.parametrize("batch", [13, 20, 23])
def test_a_batch_that_is_gone_is_damage(batch: int) -> None:
    disk = SimDisk()
    written(disk)
    name, position = f"t-0/{batch // 10 * 10:020d}.log", batch % 10 * BATCH_BYTES
    data = disk.read_file(name)
    disk.write_file(name, data[:position] + data[position + BATCH_BYTES :])
    with pytest.raises(Damaged, match=f"at byte {position}"):
        reopen(disk)


def test_a_segment_that_is_missing_is_damage_and_nothing_is_cut_off() -> None:
    disk = SimDisk()
    written(disk)
    disk.open("t-0/00000000000000000010.log").truncate(500)
    with pytest.raises(Damaged, match=r"00000000000000000010\.log"):
        reopen(disk)
    assert disk.exists(LAST)


@pytest.mark.parametrize("left", [0, 30, 70])
def test_the_room_behind_a_torn_append_is_no_damage(left: int) -> None:
    config = LogConfig(segment_bytes=1000, index_interval_bytes=200, preallocate=True)
    disk = SimDisk()
    log = Log.open(disk, "t-0", config, NOW)
    for _ in range(3):
        append(log, make_batch(1, BATCH_BYTES - 61))
    disk.kill()
    name = "t-0/00000000000000000000.log"
    data = disk.read_file(name)
    disk.write_file(name, data[: 200 + left] + bytes(800 - left))
    log = Log.open(disk, "t-0", config, NOW, is_noted=True, was_killed=True)
    assert log.log_end_offset == 2


def test_lost_epochs_are_read_from_the_batches_after_a_kill() -> None:
    disk = SimDisk()
    written(disk)
    disk.remove("t-0/leader-epoch-checkpoint")
    assert reopen(disk).epochs.entries == [(4, 0), (5, 22)]


def test_a_power_cut_behind_a_kill_may_take_what_was_not_synced() -> None:
    disk = SimDisk()
    before = written(disk)
    disk.crash(Random(3))
    found = [data for _, data in read_all(reopen(disk, was_killed=False))]
    assert len(found) >= 12
    assert found == before[: len(found)]
