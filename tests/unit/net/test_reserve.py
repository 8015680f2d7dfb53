"""The reserve: room that a full disk, or a user who may not have more, leaves to what must be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.net.disk import reserve as reserve_module
from ottla.net.disk.disk import RealDisk
from ottla.net.disk.reserve import LOAN_BYTES, RESERVE, Reserve
from ottla.ports import Buffer, StorageFailed

KEPT = 4 * LOAN_BYTES


class SmallSystem:
    """The system's calls on a disk that has room for `room` bytes, and nothing beside the reserve once these are written."""

    def __init__(self, root: Path, code: int, room: int = 0) -> None:
        self._reserve = root / RESERVE
        self._code = code
        self._room = room
        self._whole = KEPT

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def _take(self, size: int) -> None:
        left = self._room + self._whole - self._reserve.stat().st_size
        if size > left:
            raise OSError(self._code, os.strerror(self._code))

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        self._take(len(data))
        return os.pwrite(fd, data, offset)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        self._take(sum(map(len, buffers)))
        return os.pwritev(fd, buffers, offset)


@pytest.fixture(params=[errno.ENOSPC, errno.EDQUOT], ids=["full", "over quota"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, _small_disk: None) -> RealDisk:
    reserve = Reserve(str(tmp_path))
    reserve.keep(KEPT)
    reserve.refill(KEPT)
    assert reserve.size == KEPT
    return RealDisk(str(tmp_path), lambda call: call(), system=SmallSystem(tmp_path, request.param), reserve=reserve)  # type: ignore[arg-type]  # the rest is `os`


def test_a_checkpoint_is_written_into_the_reserve_which_is_taken_back(disk: RealDisk) -> None:
    disk.write_file("checkpoint", b"0\n0\n")
    assert disk.read_file("checkpoint") == b"0\n0\n"
    assert disk.reserve.size == KEPT


def test_more_than_one_loan_is_given_for_what_is_large(disk: RealDisk) -> None:
    disk.write_file("checkpoint", bytes(2 * LOAN_BYTES + 1))
    disk.make_dir("registry")
    file = disk.open("registry/1.journal", create=True)
    assert file.append([bytes(10)]) == 0
    file.write(0, b"changed")


def test_what_is_larger_than_the_reserve_is_refused(disk: RealDisk) -> None:
    with pytest.raises(StorageFailed):
        disk.write_file("checkpoint", bytes(KEPT + 1))
    assert not disk.exists("checkpoint")


def test_records_never_get_any(disk: RealDisk) -> None:
    disk.make_dir("t-0")
    file = disk.open("t-0/00000000000000000000.log", create=True)
    with pytest.raises(StorageFailed):
        file.append([b"records"])
    assert (file.size, disk.reserve.size) == (0, KEPT)


def test_a_partition_gets_no_more_than_half(disk: RealDisk) -> None:
    disk.make_dir("t-0")
    disk.write_file("t-0/leader-epoch-checkpoint", bytes(KEPT // 2))
    with pytest.raises(StorageFailed):
        disk.write_file("t-0/leader-epoch-checkpoint", bytes(KEPT // 2 + 1))
    assert disk.reserve.size == KEPT


@pytest.fixture(autouse=True)
def _small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever disk this runs on, it has little room."""
    monkeypatch.setattr(reserve_module, "PLENTY", 1 << 40)


def test_nothing_is_taken_of_a_disk_that_is_all_but_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserve_module, "PLENTY", 0)
    reserve = Reserve(str(tmp_path))
    reserve.keep(KEPT)
    reserve.refill(KEPT)
    assert (reserve.size, (tmp_path / RESERVE).exists()) == (0, False)


def test_it_is_no_larger_than_it_may_be_and_goes_if_none_is_wanted(tmp_path: Path) -> None:
    reserve = Reserve(str(tmp_path))
    reserve.keep(1 << 60)
    room = os.statvfs(tmp_path)
    assert reserve.wanted == room.f_blocks * room.f_frsize // 16
    reserve.keep(LOAN_BYTES)
    reserve.refill(KEPT)
    assert (tmp_path / RESERVE).stat().st_size == LOAN_BYTES
    again = Reserve(str(tmp_path))
    assert again.size == LOAN_BYTES
    again.keep(0)
    assert (tmp_path / RESERVE).stat().st_size == 0
