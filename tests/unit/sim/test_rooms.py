"""Rooms of the simulated disk: what a power cut or a killed process leaves of a write, before it is done and afterwards."""

from __future__ import annotations

from random import Random

import pytest

from ottla.ports import StorageFailed, SyncFailed
from ottla.sim.disk import IO_ERROR
from ottla.sim.power import CutDisk, FaultyDisk, PowerCut
from ottla.sim.rooms import SimRoom
from ottla.sim.storage import SECTOR_BYTES

SIZE = 4096
PATH = "journal/0"
SECTORS = 4
OLD, NEW = b"o" * SECTORS * SECTOR_BYTES, b"n" * SECTORS * SECTOR_BYTES


def made(disk: CutDisk) -> SimRoom:
    outcomes: list[StorageFailed | None] = []
    room = disk.make_room(PATH, SIZE, outcomes.append)
    disk.run_syncs()
    assert outcomes == [None]
    return room


def with_pending_write(disk: CutDisk) -> list[StorageFailed | None]:
    """Leave a room with a durable write, and another one over it that is not done."""
    room, outcomes = made(disk), list[StorageFailed | None]()
    room.write_soon(0, [OLD], outcomes.append)
    disk.run_syncs()
    assert outcomes == [None]
    room.write_soon(0, [NEW], outcomes.append)
    return outcomes


def write_twice(disk: CutDisk) -> None:
    with_pending_write(disk)
    disk.run_syncs()


def sectors(disk: CutDisk) -> list[bytes]:
    contents = disk.read_file(PATH)
    assert len(contents) == SIZE
    assert contents[SECTORS * SECTOR_BYTES :] == bytes(SIZE - SECTORS * SECTOR_BYTES)
    return [contents[at : at + SECTOR_BYTES] for at in range(0, SECTORS * SECTOR_BYTES, SECTOR_BYTES)]


@pytest.mark.parametrize("power_cut", [True, False])
def test_a_write_under_way_leaves_any_sectors(power_cut: bool) -> None:
    seen: set[str] = set()
    for seed in range(200):
        disk, random = FaultyDisk(), Random(seed)
        outcomes = with_pending_write(disk)
        if power_cut:
            disk.crash(random)
        else:
            disk.kill(random)
        left = sectors(disk)
        assert all(set(sector) <= set(b"on") for sector in left)
        seen.add("".join({b"o": "o", b"n": "n"}.get(bytes(sorted(set(sector))), "t") for sector in left))
        disk.run_syncs()
        assert outcomes == [None], "nobody is left who could be told"
    assert {"oooo", "nnnn", "nono", "onon", "ooon", "nooo"} <= seen
    assert any("t" in kinds for kinds in seen) == power_cut


def test_a_write_that_is_done_is_stable() -> None:
    for seed in range(20):
        disk = CutDisk()
        outcomes = with_pending_write(disk)
        disk.run_syncs()
        assert outcomes == [None, None]
        disk.crash(Random(seed))
        assert b"".join(sectors(disk)) == NEW


def test_the_power_fails_before_each_operation_of_a_room() -> None:
    """Until the room is ready, there is none or one of zeros; a write is there, is not, or is torn."""
    whole = CutDisk()
    write_twice(whole)
    for at in range(whole.operations):
        disk = CutDisk()
        disk.cut_at = at
        with pytest.raises(PowerCut):
            write_twice(disk)
        disk.crash(Random(at))
        if disk.exists(PATH):
            sectors(disk)
        made(disk)
        sectors(disk)
        assert disk.list("journal") == ["0"]


@pytest.mark.parametrize("after", [0, 1])
def test_a_failed_write_may_have_left_something_and_no_later_one_is_made(after: int) -> None:
    disk = FaultyDisk()
    room, outcomes = made(disk), list[StorageFailed | None]()
    disk.fail(after, IO_ERROR)
    for data in (OLD, NEW):
        room.write_soon(0, [data], outcomes.append)
        assert disk.run_syncs() == 1
    assert [type(failure) for failure in outcomes] == [SyncFailed, SyncFailed]
    assert disk.faults == 1
    disk.kill()
    assert b"n" not in disk.read_file(PATH)
    assert made(disk).size == SIZE


def test_rooms_of_a_disk_that_crashed_cannot_be_used() -> None:
    disk = CutDisk()
    room = made(disk)
    disk.crash(Random(1))
    with pytest.raises(StorageFailed, match="when the disk crashed"):
        room.write_soon(0, [OLD], print)


def test_a_full_disk_has_no_space_for_a_room() -> None:
    disk, outcomes = CutDisk(capacity_bytes=SIZE - 1), list[StorageFailed | None]()
    disk.make_room(PATH, SIZE, outcomes.append)
    disk.run_syncs()
    assert [str(failure) for failure in outcomes] == ["journal/0.new: No space left on device"]
    assert disk.list("journal") == []


def test_a_room_can_be_held_back_as_files_are() -> None:
    disk, outcomes = CutDisk(), list[StorageFailed | None]()
    disk.make_room(PATH, SIZE, outcomes.append)
    disk.run_syncs(lambda files: [file.path for file in files] == [PATH])
    assert outcomes == []
    disk.run_syncs()
    assert outcomes == [None]
