"""What a first read checks is bounded: bytes and batches are counted, whatever the batches are and wherever they lie."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ottla.log.log import Damaged, Log, LogConfig
from ottla.log.recovery.gaps import note_joined, read_joined
from ottla.log.segments import soundness
from ottla.log.slice_reader import FirstPart
from ottla.ports import File, FileSlice
from ottla.records.batches.header import batches
from ottla.records.kernel_sound import sound
from ottla.sim.disk import SimDisk, SimFile
from tests.unit.log.batches import NOW, append, make_batch, sync
from tests.unit.records.conftest import uncompiled

CONFIG = LogConfig(index_interval_bytes=150)


def reopened(disk: SimDisk, *sizes: int) -> Log:
    """A log of batches with so many bytes behind their headers, that was closed in order and opened anew."""
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for size in sizes:
        append(log, make_batch(1, size))
    sync(log)
    log.close()
    return reopen(disk, len(sizes))


def reopen(disk: SimDisk, end: int) -> Log:
    return Log.open(disk, "t-0", CONFIG, NOW, clean=True, recovery_point=end, is_noted=True)


def read(log: Log, offset: int, max_bytes: int = 1 << 30, *, may_check: bool = True) -> FileSlice:
    found = log.read(offset, max_bytes, until_offset=log.log_end_offset, min_one_batch=True, may_check=may_check)
    assert found is not None
    return found


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soundness, "MOST_BYTES", 1000)
    monkeypatch.setattr(soundness, "PIECE_BYTES", 1000)
    monkeypatch.setattr(soundness, "MOST_BATCHES", 5)
    monkeypatch.setattr(soundness, "CHUNK_BYTES", 300)


@pytest.mark.usefixtures("small_steps")
def test_a_first_read_ends_where_enough_was_checked_and_the_next_goes_on() -> None:
    log = reopened(SimDisk(), *[39] * 30)
    got: list[int] = []
    while len(got) < 30:
        part = read(log, len(got))
        offsets = [header.base_offset for _, header in batches(part.read())]
        assert len(offsets) <= 5
        assert isinstance(part, FirstPart) == (offsets[-1] < 29)
        got += offsets
    assert got == list(range(30))
    assert read(log, 0).size == 3000
    assert not isinstance(read(log, 0), FirstPart)


@pytest.mark.usefixtures("small_steps")
def test_a_large_batch_is_checked_in_pieces_and_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    log = reopened(SimDisk(), 100, 5000, 100)
    assert read(log, 0).size == 161
    read_bytes = 0
    pread = SimFile.read

    def counted(self: SimFile, position: int, size: int) -> bytes:
        nonlocal read_bytes
        read_bytes += size
        return pread(self, position, size)

    monkeypatch.setattr(SimFile, "read", counted)
    empty = 0
    while not (part := read(log, 1, 300)).size:
        assert isinstance(part, FirstPart)
        assert read_bytes < 2000
        read_bytes = 0
        empty += 1
    assert empty == 4, "the first piece was checked with the batch before"
    assert part.size == 5061


@pytest.mark.expects_errors("cannot be read")
@pytest.mark.usefixtures("small_steps")
def test_damage_in_a_large_batch_is_found_in_its_last_piece() -> None:
    disk = SimDisk()
    log = reopened(disk, 5000, 100)
    disk.open("t-0/00000000000000000000.log").write(4500, b"?")
    for _ in range(5):
        assert not read(log, 0, 300).size
    with pytest.raises(Damaged, match="offsets 0 to 0 cannot be read"):
        read(log, 0, 300)
    assert read(log, 1).size == 161


def test_nothing_is_checked_for_a_request_that_has_cost_enough() -> None:
    log = reopened(SimDisk(), *[39] * 30)
    part = read(log, 0, may_check=False)
    assert (type(part), part.size, log.check_cost) == (FirstPart, 0, 0)
    read(log, 0, 1000)
    cost = log.check_cost
    assert cost > 0
    assert read(log, 0, 500, may_check=False).size == 500
    assert log.check_cost == cost


def passing_over_nothing(view: memoryview, at: int, end: int, left: int, offset: int, *_: int) -> tuple[int, ...]:
    return at, offset, left, at, offset, offset


def test_the_quick_walk_stops_in_front_of_whatever_the_careful_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are held against each other on batches with one bit flipped, joined or with gaps between them."""
    rng = random.Random(5)
    for _ in range(400):
        data, offset = bytearray(), 3
        for _ in range(6):
            batch = bytearray(make_batch(rng.randint(1, 4), 20))
            offset += rng.choice((0, 0, 0, 5))
            batch[0:8] = offset.to_bytes(8, "big")
            offset += int.from_bytes(batch[23:27], "big") + 1
            data += batch
        at = rng.randrange(len(data)) if rng.random() < 0.5 else rng.randrange(6) * len(batch) + rng.randrange(61)
        data[at] ^= 1 << rng.randrange(8)
        disk = SimDisk()
        file = disk.open("log", create=True)
        file.append([data])
        bounds = soundness.Bounds(offset + rng.choice((0, 0, 100)), 0)
        quick = soundness.walk(file, soundness.Place(0, 3), len(data), len(data), bounds)
        with monkeypatch.context() as patch:
            patch.setattr(
                soundness, "sound", lambda view, at, end, left, following, *_: (at, following, left, at, following, following)
            )
            assert soundness.walk(file, soundness.Place(0, 3), len(data), len(data), bounds) == quick
            patch.setattr(soundness, "sound", uncompiled("kernel_sound").sound)
            assert soundness.walk(file, soundness.Place(0, 3), len(data), len(data), bounds) == quick


def test_the_quick_walk_reads_nothing_outside_its_view() -> None:
    batch = bytes(make_batch(1, 39))
    for size in range(len(batch)):
        assert sound(memoryview(batch[:size]), 0, 1000, 10, 0, 1 << 40, 5)[:3] == (0, 0, 10)
    assert sound(memoryview(batch), -5, 1000, 10, 0, 1 << 40, 5)[0] == -5
    assert sound(memoryview(batch), 0, 1000, 10, 0, 1 << 40, 5)[:3] == (100, 1, 9)


def test_the_ends_of_many_segments_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", replace(CONFIG, segment_bytes=150), NOW)
    for number in range(40):
        append(log, make_batch(1, 39, NOW.wall_ms + number))
    sync(log)
    log.close()
    opened: list[str] = []
    file_opened = SimDisk.open

    def noted(self: SimDisk, path: str, *, create: bool = False) -> File:
        opened.append(path)
        return file_opened(self, path, create=create)

    monkeypatch.setattr(SimDisk, "open", noted)
    reopen(disk, 40).close()
    assert len(opened) > 39
    opened.clear()
    reopen(disk, 40)
    assert len(opened) < 10


@pytest.mark.expects_errors("are missing")
def test_a_segment_that_lost_its_end_since_its_end_was_noted_is_looked_at() -> None:
    disk = SimDisk()
    log = Log.open(disk, "t-0", replace(CONFIG, segment_bytes=200), NOW)
    for number in range(40):
        append(log, make_batch(1, 39, NOW.wall_ms + number))
    sync(log)
    log.close()
    reopen(disk, 40).close()
    disk.open("t-0/00000000000000000010.log").truncate(100)
    with pytest.raises(Damaged, match="offsets 11 to 11 are missing"):
        read(reopen(disk, 40), 11)


@pytest.mark.parametrize("position", [0, 4, 9, 40, 100, -3])
def test_a_note_of_ends_that_was_damaged_counts_for_nothing(position: int) -> None:
    disk = SimDisk()
    disk.make_dir("t-0")
    note_joined(disk, "t-0", [(each, 100, each + 10) for each in range(0, 100, 10)])
    name = "t-0/joined-segments-checkpoint"
    data = bytearray(disk.read_file(name))
    assert len(read_joined(disk, "t-0")) == 10
    data[position] ^= 2
    disk.write_file(name, bytes(data))
    assert read_joined(disk, "t-0") < {(each, 100, each + 10) for each in range(0, 100, 10)}
