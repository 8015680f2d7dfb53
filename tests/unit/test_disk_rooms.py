"""What every `Disk` does with rooms, the real one and the simulated one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.ports import Disk, Done, Room, StorageFailed, SyncFailed
from ottla.sim.disk import IO_ERROR, NO_SPACE
from tests.support.disk_subjects import Subject, written

BLOCK = 4096
SIZE = 16 * BLOCK


def outcome(subject: Subject, start: Callable[[Done], object]) -> StorageFailed | None:
    outcomes: list[StorageFailed | None] = []
    start(outcomes.append)
    assert outcomes == [], "never from within the call"
    subject.settle(outcomes)
    return outcomes[0]


def made(subject: Subject, path: str = "journal/0", size: int = SIZE) -> Room:
    rooms: list[Room] = []
    assert outcome(subject, lambda done: rooms.append(subject.disk.make_room(path, size, done))) is None
    return rooms[0]


def write(subject: Subject, room: Room, position: int, *buffers: bytes | bytearray | memoryview) -> StorageFailed | None:
    return outcome(subject, lambda done: room.write_soon(position, buffers, done))


def test_a_new_room_is_full_of_zeros_and_has_its_name(disk: Disk, subject: Subject) -> None:
    room = made(subject)
    assert (room.path, room.size, disk.size("journal/0")) == ("journal/0", SIZE, SIZE)
    assert disk.read_file("journal/0") == bytes(SIZE)
    assert disk.list("journal") == ["0"]
    subject.assert_stable("journal/0")
    room.close()


def test_a_room_can_be_in_another_directory_of_logs(disk: Disk, subject: Subject) -> None:
    path = f"{subject.elsewhere()}/journal/0"
    room = made(subject, path)
    assert write(subject, room, 0, b"block") is None
    assert disk.open(path).read(0, 6) == b"block\0"
    room.close()


def test_buffers_are_written_in_order_and_padded_with_zeros(disk: Disk, subject: Subject) -> None:
    room = made(subject)
    assert room.alignment in (512, 4096)
    assert write(subject, room, BLOCK, b"x" * BLOCK * 2) is None
    changed = bytearray(b"de")
    outcomes: list[StorageFailed | None] = []
    room.write_soon(BLOCK, (b"abc", changed, memoryview(b"fgh")), outcomes.append)
    changed[:] = b"??"
    subject.settle(outcomes)
    assert outcomes == [None]
    padded = b"abcdefgh".ljust(room.alignment, b"\0")
    contents = disk.read_file("journal/0")
    assert contents[BLOCK:].startswith(padded + b"x" * (2 * BLOCK - room.alignment) + b"\0")
    assert contents[:BLOCK] == bytes(BLOCK)
    room.close()


def test_a_write_can_fill_the_whole_room_and_no_more(disk: Disk, subject: Subject) -> None:
    room = made(subject)
    assert write(subject, room, 0, bytes(range(256)) * (SIZE // 256)) is None
    assert disk.read_file("journal/0") == bytes(range(256)) * (SIZE // 256)
    for position, data in ((0, b"x" * (SIZE + 1)), (SIZE, b"x"), (SIZE - BLOCK, b"x" * (BLOCK + 1)), (1, b"x")):
        with pytest.raises(AssertionError):
            room.write_soon(position, [data], print)
    assert write(subject, room, SIZE - BLOCK, b"end") is None
    room.close()


def test_a_room_has_one_write_at_a_time(disk: Disk, subject: Subject) -> None:
    outcomes: list[StorageFailed | None] = []
    early = disk.make_room("journal/1", SIZE, outcomes.append)
    with pytest.raises(AssertionError):
        early.write_soon(0, [b"x"], print)
    subject.settle(outcomes)
    early.write_soon(0, [b"x"], outcomes.append)
    with pytest.raises(AssertionError):
        early.write_soon(BLOCK, [b"y"], print)
    outcomes.clear()
    subject.settle(outcomes)
    early.close()
    with pytest.raises(AssertionError):
        early.write_soon(0, [b"x"], print)


def test_closing_leaves_the_write_under_way_its_outcome(disk: Disk, subject: Subject) -> None:
    room = made(subject)
    outcomes: list[StorageFailed | None] = []
    room.write_soon(0, [b"last"], outcomes.append)
    room.close()
    subject.settle(outcomes)
    assert outcomes == [None]
    assert disk.open("journal/0").read(0, 5) == b"last\0"


def test_a_room_that_is_closed_before_it_is_ready_is_never_ready(disk: Disk, subject: Subject) -> None:
    rooms: list[Room] = []

    def make(done: Done) -> None:
        rooms.append(disk.make_room("journal/0", SIZE, done))
        rooms[0].close()

    assert "was closed" in str(outcome(subject, make))
    made(subject).close()


def test_a_room_of_the_same_size_keeps_its_contents_and_another_size_begins_with_zeros(subject: Subject) -> None:
    room = made(subject)
    assert write(subject, room, 0, b"kept") is None
    room.close()
    subject.kill()
    assert subject.disk.open("journal/0").read(0, 4) == b"kept"
    made(subject).close()
    assert subject.disk.open("journal/0").read(0, 4) == b"kept"
    other = made(subject, size=2 * SIZE)
    assert subject.disk.read_file("journal/0") == bytes(2 * SIZE)
    assert write(subject, other, 2 * SIZE - BLOCK, b"end") is None
    assert subject.disk.open("journal/0").read(2 * SIZE - BLOCK, 4) == b"end\0"
    other.close()


@pytest.mark.parametrize("reason", [IO_ERROR, NO_SPACE])
def test_a_failed_write_is_followed_by_failed_ones(subject: Subject, reason: str) -> None:
    room, other = made(subject), made(subject, "journal/1")
    assert write(subject, room, 0, b"one") is None
    subject.fail(0, reason)
    failure = write(subject, room, BLOCK, b"two")
    assert isinstance(failure, SyncFailed)
    assert reason in str(failure)
    assert "journal/0" in str(failure)
    again = write(subject, room, 2 * BLOCK, b"three")
    assert isinstance(again, SyncFailed)
    assert reason in str(again)
    assert write(subject, other, 0, b"one") is None, "the other room goes on"
    room.close()
    other.close()


@pytest.mark.parametrize("reason", [IO_ERROR, NO_SPACE])
def test_a_room_that_cannot_be_made_leaves_the_former_file(subject: Subject, reason: str) -> None:
    """Whichever call fails, and the next attempt succeeds."""
    room = made(subject)
    assert write(subject, room, 0, b"kept") is None
    room.close()
    for after in range(40):
        subject.fail(after, reason)
        failure = outcome(subject, lambda done: subject.disk.make_room("journal/0", 2 * SIZE, done))
        subject.heal()
        if failure is None:
            assert after > 3
            return
        assert reason in str(failure)
        if isinstance(failure, SyncFailed):  # of its name
            assert subject.disk.size("journal/0") in (SIZE, 2 * SIZE)
            subject.kill()
            continue
        assert subject.disk.read_file("journal/0")[:5] in (b"kept\0", bytes(5))
        assert subject.disk.list("journal") == ["0"]
    raise AssertionError("a room takes fewer than 40 calls")


def test_what_a_killed_process_left_of_a_new_room_is_removed(subject: Subject) -> None:
    made(subject).close()
    written(subject.disk, "journal/0.new", b"some zeros")
    subject.kill()
    made(subject).close()
    assert subject.disk.list("journal") == ["0"]


def test_a_room_needs_no_file_object_of_its_name(disk: Disk, subject: Subject) -> None:
    disk.make_dir("journal")
    before = written(disk, "journal/0", b"another file")
    room = made(subject)
    assert write(subject, room, 0, b"block") is None
    assert before.read(0, 7) == b"another"
    assert disk.open("journal/0").read(0, 7) == b"block\0\0"
    room.close()
