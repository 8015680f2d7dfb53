"""`ottla log check`: what is the matter is said in a sentence, and a repair loses nothing that could still be of use."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.log.check import check, repairs
from ottla.log.check.dump import dump
from ottla.log.check.findings import DAMAGED, DERIVED, LEFTOVER, NOTE, REFUSED, TORN, Known
from ottla.log.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, format_checkpoint, read_offsets, write_offsets
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.ports import StorageFailed
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, append, make_batch, read_all

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=200)
FIRST = "t-0/00000000000000000000"
LAST = "t-0/00000000000000000018"


@pytest.fixture
def disk() -> SimDisk:
    """Segments of 6 records each, three times, and one record more; closed in order."""
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for number in range(19):
        append(log, make_batch(1, 90, producer_id=5, epoch=0, sequence=number))
    log.close()
    write_offsets(disk, RECOVERY_POINTS, {("t", 0): 19, ("u", 0): 3})
    write_offsets(disk, HIGH_WATERMARKS, {("t", 0): 19})
    return disk


def found(disk: SimDisk) -> list[tuple[str, str, int]]:
    return [finding[:3] for finding in check.check_partition(disk, "t-0", check.load_known(disk, "t-0"))]


def repair(disk: SimDisk) -> list[str]:
    return repairs.repair_partition(disk, "t-0", NOW, check.load_known(disk, "t-0"))


def offsets(disk: SimDisk, *, clean: bool = False) -> list[int]:
    recovery_point = check.load_known(disk, "t-0").recovery_point
    log = Log.open(disk, "t-0", CONFIG, NOW, clean=clean, recovery_point=recovery_point, is_noted=True)
    return [header.base_offset for header, _ in read_all(log)]


def flip(disk: SimDisk, path: str, byte: int) -> None:
    disk.flip_bit(path, 8 * byte)


def test_a_log_that_was_closed_in_order_is_in_order(disk: SimDisk) -> None:
    assert found(disk) == []
    assert repair(disk) == []
    assert check.partitions(disk) == ["t-0"]
    assert list(check.check_directory(disk)) == []


def test_damage_is_named_by_file_and_byte_and_nothing_is_changed(disk: SimDisk) -> None:
    flip(disk, FIRST[:-1] + "6.log", 151 + 100)
    before = {name: disk.read_file(f"t-0/{name}") for name in disk.list("t-0")}
    assert found(disk) == [(DAMAGED, "t-0/00000000000000000006.log", 151)]
    assert {name: disk.read_file(f"t-0/{name}") for name in disk.list("t-0")} == before


def test_a_repair_cuts_out_what_is_damaged_and_keeps_it(disk: SimDisk) -> None:
    name = "t-0/00000000000000000006.log"
    flip(disk, name, 151 + 100)
    whole = disk.read_file(name)
    done = repair(disk)
    assert done[0] == f"{name}: 151 bytes from byte 151 on were cut out and are kept as {name}.damaged."
    assert disk.read_file(f"{name}.damaged") == whole[151:302]
    assert [kind for kind, _, _ in found(disk)] == [NOTE]
    assert offsets(disk) == offsets(disk, clean=True) == [offset for offset in range(19) if offset != 7]
    assert read_offsets(disk, RECOVERY_POINTS) == {("t", 0): 19, ("u", 0): 3}


@pytest.mark.parametrize("number", [5, 4])
def test_a_repair_of_a_segments_end_leaves_a_gap_that_is_known(disk: SimDisk, number: int) -> None:
    name = "t-0/00000000000000000006.log"
    disk.open(name).write(number * 151, bytes((6 - number) * 151))
    repair(disk)
    assert [kind for kind, _, _ in found(disk)] == [NOTE]
    assert offsets(disk) == offsets(disk, clean=True) == [offset for offset in range(19) if not 6 + number <= offset < 12]


def test_a_base_offset_that_changed_is_cut_out(disk: SimDisk) -> None:
    flip(disk, f"{FIRST}.log", 151 * 2 + 6)
    repair(disk)
    assert offsets(disk) == [offset for offset in range(19) if offset != 2]


def test_a_second_repair_does_not_overwrite_what_the_first_one_kept(disk: SimDisk) -> None:
    for byte in (151 * 4 + 100, 151 * 2 + 100):
        flip(disk, f"{FIRST}.log", byte)
        repair(disk)
    assert disk.exists(f"{FIRST}.log.damaged")
    assert disk.exists(f"{FIRST}.log.2.damaged")
    assert offsets(disk) == [offset for offset in range(19) if offset not in (2, 4)]


@pytest.mark.parametrize("batch", [0, 2, 4])
def test_batches_that_are_gone_from_a_segment_are_named_and_given_up_by_a_repair(disk: SimDisk, batch: int) -> None:
    name = "t-0/00000000000000000006.log"
    data = disk.read_file(name)
    disk.write_file(name, data[: batch * 151] + data[batch * 151 + 151 :])
    assert (DAMAGED, name, batch * 151) in found(disk)
    assert f"t-0: offsets {6 + batch} to {6 + batch} are lost." in repair(disk)
    assert found(disk) == []
    assert offsets(disk) == offsets(disk, clean=True) == [offset for offset in range(19) if offset != 6 + batch]


@pytest.mark.parametrize("after", range(60))
def test_a_repair_that_is_interrupted_can_be_repeated(disk: SimDisk, after: int) -> None:
    name = "t-0/00000000000000000006.log"
    flip(disk, name, 151 + 100)
    lost = disk.read_file(name)[151:302]
    disk.fail(after, count=1000)
    try:
        repair(disk)
    except StorageFailed:
        disk.heal()
        disk.kill()
        repair(disk)
    disk.heal()
    disk.kill()
    kept = [disk.read_file(f"t-0/{name}") for name in disk.list("t-0") if name.endswith(".damaged")]
    assert lost in kept
    assert offsets(disk) == [offset for offset in range(19) if offset != 7]


def test_a_tail_that_was_never_synced_is_no_damage(disk: SimDisk) -> None:
    file = disk.open(f"{LAST}.log")
    file.append([b"torn" * 30])
    assert found(disk) == [(TORN, f"{LAST}.log", 151)]
    repair(disk)
    assert disk.read_file(f"{LAST}.log.damaged") == b"torn" * 30
    assert offsets(disk) == list(range(19))


def test_a_log_that_ends_too_early_is_damage_and_the_way_out_is_to_believe_it(disk: SimDisk) -> None:
    disk.open(f"{LAST}.log").truncate(0)
    assert found(disk)[0] == (DAMAGED, f"{LAST}.log", 0)
    repair(disk)
    assert offsets(disk) == list(range(18))


@pytest.mark.parametrize("bit", [0, 5, 12, 40])
@pytest.mark.parametrize("records", [1, 3])
def test_a_last_batch_that_says_that_the_log_ends_later_begins_again_where_it_did(disk: SimDisk, bit: int, records: int) -> None:
    log = Log.open(disk, "t-0", CONFIG, NOW, clean=True, recovery_point=19)
    append(log, make_batch(records, 90))
    log.close()
    write_offsets(disk, RECOVERY_POINTS, {("t", 0): 19 + records})
    whole = disk.read_file(f"{LAST}.log")
    disk.flip_bit(f"{LAST}.log", 8 * (151 + 7 - bit // 8) + bit % 8)
    said = int.from_bytes(disk.read_file(f"{LAST}.log")[151:159], "big")
    if said < 19 + records:
        return  # it overlaps what it could follow
    assert (DAMAGED, f"{LAST}.log", 151) in found(disk)
    with pytest.raises(StorageFailed, match="ottla log check --repair"):
        offsets(disk, clean=True)
    assert any("the batch at byte 151 begins with offset 19 again" in sentence for sentence in repair(disk))
    assert disk.read_file(f"{LAST}.log") == whole
    assert [kind for kind, _, _ in found(disk)] == [NOTE]
    assert offsets(disk, clean=True) == list(range(20))


def test_a_last_batch_that_fits_nowhere_is_cut_off_and_kept(disk: SimDisk) -> None:
    write_offsets(disk, RECOVERY_POINTS, {("t", 0): 30})
    file = disk.open(f"{LAST}.log")
    file.write(0, (40).to_bytes(8, "big"))
    assert found(disk)[0] == (DAMAGED, f"{LAST}.log", 0)
    assert repair(disk)
    assert disk.size(f"{LAST}.log.damaged") == 151
    assert offsets(disk) == list(range(18))


def test_what_follows_a_cut_is_not_taken_for_a_batch_that_was_moved(disk: SimDisk) -> None:
    """A gap that a repair left is as wide as the batch that follows it: that one must keep its offset."""
    log = Log.open(disk, "t-0", CONFIG, NOW, clean=True, recovery_point=19)
    for number in range(19, 22):
        append(log, make_batch(1, 90, producer_id=5, epoch=0, sequence=number))
    log.close()
    for recovery_point in (21, 22):
        write_offsets(disk, RECOVERY_POINTS, {("t", 0): recovery_point})
        if recovery_point == 21:
            flip(disk, f"{LAST}.log", 151 * 2 + 100)
        repair(disk)
        assert [kind for kind, _, _ in found(disk)] == [NOTE]
        assert offsets(disk) == [*range(20), 21]


@pytest.mark.parametrize("base_offset", [0, 6, 12])
def test_a_missing_segment_is_named_and_given_up_by_a_repair(disk: SimDisk, base_offset: int) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        disk.remove(f"t-0/{base_offset:020d}{suffix}")
    place = (DAMAGED, "t-0/00000000000000000006.log", 0) if not base_offset else (DAMAGED, f"t-0/{base_offset - 6:020d}.log", 906)
    assert found(disk) == [place]
    repair(disk)
    assert found(disk) == []
    assert offsets(disk, clean=True) == [offset for offset in range(19) if not base_offset <= offset < base_offset + 6]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (f"{FIRST}.index", lambda data: data[:-3]),
        (f"{FIRST}.index", lambda data: data[:8] + b"\0\0\0\5\0\0\0\7" + data[16:]),
        (f"{FIRST}.index", lambda data: b"\0\0\0\1\0\0\0\7"),
        (f"{FIRST}.timeindex", lambda data: data + b"x"),
        (f"{FIRST[:-2]}18.snapshot", lambda data: data[:-1]),
        ("t-0/leader-epoch-checkpoint", lambda data: b"0\n7\n"),
    ],
)
def test_what_is_derived_is_built_anew(disk: SimDisk, name: str, change: Callable[[bytes], bytes]) -> None:
    if not disk.exists(name):
        disk.write_file(name, b"")
    disk.write_file(name, change(disk.read_file(name)))
    assert found(disk) == [(DERIVED, name, -1)]
    assert repair(disk) == [f"{name}: rebuilt."]
    assert found(disk) == []
    assert offsets(disk, clean=True) == list(range(19))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_room_that_an_index_takes_ahead_is_no_fault(disk: SimDisk, suffix: str) -> None:
    disk.write_file(FIRST + suffix, disk.read_file(FIRST + suffix) + bytes(8 * 12 * 10))
    disk.write_file(LAST + suffix, bytes(8 * 12 * 10))
    assert found(disk) == []


def test_the_number_of_moves_is_of_a_log(disk: SimDisk) -> None:
    disk.write_file("t-0/moves-checkpoint", b"1\n")
    assert found(disk) == []


def test_files_that_are_not_of_a_log_are_told_and_left_alone(disk: SimDisk) -> None:
    disk.write_file("t-0/notes.txt", b"mine")
    disk.write_file("t-0/00000000000000000099.index", b"")
    disk.write_file("t-0/00000000000000000000.log.deleted", b"")
    flip(disk, f"{FIRST}.log", 100)
    assert {kind for kind, _, _ in found(disk)} == {NOTE, LEFTOVER, DAMAGED}
    repair(disk)
    assert disk.read_file("t-0/notes.txt") == b"mine"


def test_a_newer_format_is_refused_and_not_touched(disk: SimDisk) -> None:
    disk.write_file("t-0/partition.metadata", b"version: 1\ntopic_id: x\n")
    flip(disk, f"{FIRST}.log", 100)
    assert found(disk) == [(REFUSED, "t-0/partition.metadata", -1)]
    assert repair(disk) == []


def test_a_directory_on_its_way_out_and_an_unreadable_checkpoint_are_told(disk: SimDisk) -> None:
    disk.make_dir(f"u-0.{'0' * 32}-delete")
    disk.make_dir(f"u-1.{'0' * 32}-stray")
    disk.write_file(RECOVERY_POINTS, b"0\n5\n")
    assert [finding.kind for finding in check.check_directory(disk)] == [DERIVED, LEFTOVER, NOTE]
    assert check.partitions(disk) == ["t-0"]
    assert check.load_known(disk, "t-0") == Known()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
def test_an_index_that_somebody_emptied_is_built_anew_at_the_start(disk: SimDisk, suffix: str, clean: bool) -> None:
    before = disk.read_file(FIRST + suffix)
    disk.write_file(FIRST + suffix, b"")
    assert offsets(disk, clean=clean) == list(range(19))
    assert disk.read_file(FIRST + suffix) == before


EPOCHS = "t-0/leader-epoch-checkpoint"


@pytest.fixture
def epochs() -> SimDisk:
    """Segments of 6 records each, twice, and one record more, of epochs that begin at offsets 0, 4 and 8; closed in order."""
    disk = SimDisk()
    log = Log.open(disk, "t-0", CONFIG, NOW)
    for number in range(13):
        append(log, make_batch(1, 90), leader_epoch=3 + number // 4)
    log.close()
    write_offsets(disk, RECOVERY_POINTS, {("t", 0): 13})
    return disk


def place(offset: int) -> tuple[str, int]:
    """The file and the byte where the batch of this offset begins."""
    return f"t-0/{offset // 6 * 6:020d}.log", offset % 6 * 151


def set_epoch(disk: SimDisk, offset: int, epoch: int) -> bytes:
    """Change the epoch of a batch on disk; returns what its file was."""
    name, position = place(offset)
    before = disk.read_file(name)
    disk.open(name).write(position + 12, epoch.to_bytes(4, "big", signed=True))
    return before


def read_after_a_kill(disk: SimDisk) -> list[int]:
    log = Log.open(disk, "t-0", CONFIG, NOW, recovery_point=0, is_noted=True, was_killed=True)
    return [header.base_offset for header, _ in read_all(log)]


@pytest.mark.parametrize("was_killed", [False, True])
@pytest.mark.parametrize("offset", [0, 3, 4, 7, 11, 12])
@pytest.mark.parametrize("epoch", [0, 2, 64, 2**31 - 1, -1, -2, -(2**31)])
def test_a_repair_writes_the_epoch_that_the_checkpoint_says(epochs: SimDisk, was_killed: bool, offset: int, epoch: int) -> None:
    name, position = place(offset)
    before, noted = set_epoch(epochs, offset, epoch), 3 + offset // 4
    changed = epochs.read_file(name)
    known = Known(0, 0, was_killed=True) if was_killed else check.load_known(epochs, "t-0")
    if was_killed:
        epochs.remove(RECOVERY_POINTS)
        with pytest.raises(StorageFailed, match=f"has leader epoch {epoch}, but {noted} in leader-epoch-checkpoint"):
            read_after_a_kill(epochs)
    elif offset == 12 and -1 <= epoch <= 6:
        assert found(epochs) == []
        assert offsets(epochs, clean=True) == list(range(13))
        return
    sentence = f"this batch has leader epoch {epoch}, but {noted} in leader-epoch-checkpoint."
    assert check.check_partition(epochs, "t-0", known) == [(DAMAGED, name, position, sentence)]
    done = repairs.repair_partition(epochs, "t-0", NOW, known)
    noted_again = "got the leader epoch again that leader-epoch-checkpoint says"
    assert done == [f"{name}: 1 of its batches {noted_again}; what they were is kept as {name}.damaged."]
    assert epochs.read_file(name) == before
    assert epochs.read_file(f"{name}.damaged") == changed[position : position + 151]
    assert [finding.kind for finding in check.check_partition(epochs, "t-0", known)] == [NOTE]
    assert read_after_a_kill(epochs) == list(range(13))
    write_offsets(epochs, RECOVERY_POINTS, {("t", 0): 13})
    assert offsets(epochs, clean=True) == list(range(13))


@pytest.mark.parametrize("epoch", [7, 64, -2])
@pytest.mark.expects_errors("the leader epoch of this batch is unknown to the log")
def test_a_batch_that_no_read_gets_for_its_epoch_is_read_after_a_repair(epochs: SimDisk, epoch: int) -> None:
    set_epoch(epochs, 7, epoch)
    with pytest.raises(StorageFailed, match="is unknown to the log: offsets 7 to 7 cannot be read"):
        offsets(epochs, clean=True)
    repair(epochs)
    assert offsets(epochs, clean=True) == list(range(13))


def test_a_repair_writes_epochs_beside_what_it_cuts_out(epochs: SimDisk) -> None:
    for offset in (1, 2, 5, 9):
        set_epoch(epochs, offset, 77)
    flip(epochs, place(3)[0], place(3)[1] + 100)
    flip(epochs, place(9)[0], place(9)[1] + 100)
    repair(epochs)
    assert [kind for kind, _, _ in found(epochs)] == [NOTE] * 3
    assert epochs.size(f"{FIRST}.log.damaged") == 3 * 151
    assert offsets(epochs, clean=True) == read_after_a_kill(epochs) == [each for each in range(13) if each not in (3, 9)]
    assert disk_epochs(epochs) == [[3, 0], [4, 4], [5, 8], [6, 12]]


def disk_epochs(disk: SimDisk) -> list[list[int]]:
    return [[row["leader_epoch"], row["start_offset"]] for row in dump(disk, EPOCHS)]


@pytest.mark.parametrize("offset", [4, 12])
@pytest.mark.parametrize("end", [b"\n", b"\t \n"])
def test_a_checkpoint_without_its_seal_is_not_believed(epochs: SimDisk, offset: int, end: bytes) -> None:
    epochs.write_file(EPOCHS, epochs.read_file(EPOCHS).rstrip() + end)
    set_epoch(epochs, offset, 64)
    changed = epochs.read_file(place(offset)[0])
    assert found(epochs) == ([] if end == b"\n" else [(DERIVED, EPOCHS, -1)])
    repair(epochs)
    assert epochs.read_file(place(offset)[0]) == changed


def test_offsets_before_those_of_the_checkpoint_are_not_held_against_it(epochs: SimDisk) -> None:
    epochs.write_file(EPOCHS, format_checkpoint(["4 4", "5 8", "6 12"]))
    set_epoch(epochs, 1, -1)
    assert found(epochs) == []


@pytest.mark.parametrize("last", [6, 77, 3, -5])
def test_a_checkpoint_older_than_the_log_after_a_power_cut_is_not_believed_of_newer_batches(epochs: SimDisk, last: int) -> None:
    """Nobody knows which is right then; but what is synced, and what batches of a known epoch follow, is told."""
    epochs.write_file(EPOCHS, format_checkpoint(["3 0", "4 4"]))
    set_epoch(epochs, 12, last)
    set_epoch(epochs, 5, 77)
    before = epochs.read_file(place(12)[0])
    known = Known(3)
    first = next(finding[:3] for finding in check.check_partition(epochs, "t-0", known))
    assert first == (DAMAGED, *place(5))
    if last >= 0:
        repairs.repair_partition(epochs, "t-0", NOW, known)
        assert epochs.read_file(place(12)[0]) == before
        assert check.check_partition(epochs, "t-0", known)[0].kind == NOTE
        assert [header.base_offset for header, _ in read_all(Log.open(epochs, "t-0", CONFIG, NOW))] == list(range(13))
    epochs.write_file(EPOCHS, format_checkpoint(["3 0", "4 4"]))
    is_right = Known(3, was_killed=True)
    assert (DAMAGED, *place(12)) in [finding[:3] for finding in check.check_partition(epochs, "t-0", is_right)]


@pytest.mark.parametrize("after", range(30))
def test_a_repair_of_epochs_that_is_interrupted_can_be_repeated(epochs: SimDisk, after: int) -> None:
    before = {offset: set_epoch(epochs, offset, 64) for offset in (2, 7)}
    epochs.fail(after, count=1000)
    try:
        repair(epochs)
    except StorageFailed:
        epochs.heal()
        epochs.kill()
        repair(epochs)
    epochs.heal()
    epochs.kill()
    assert all(epochs.read_file(place(offset)[0]) == data for offset, data in before.items())
    assert read_after_a_kill(epochs) == list(range(13))


def test_every_file_of_a_log_can_be_printed(disk: SimDisk) -> None:
    rows = list(dump(disk, f"{FIRST}.log"))
    assert [(row["base_offset"], row["position"]) for row in rows] == [(at, 151 * at) for at in range(6)]
    assert [row["offset"] for row in dump(disk, f"{FIRST}.index")] == [2, 4]
    assert next(dump(disk, f"{FIRST}.timeindex"))["timestamp"] == NOW.wall_ms
    assert [(row["producer_id"], row["last_sequence"]) for row in dump(disk, "t-0/00000000000000000019.snapshot")] == [(5, 18)]
    assert list(dump(disk, RECOVERY_POINTS)) == [
        {"topic": "t", "partition": 0, "offset": 19},
        {"topic": "u", "partition": 0, "offset": 3},
    ]
    assert list(dump(disk, "t-0/leader-epoch-checkpoint")) == [{"leader_epoch": 0, "start_offset": 0}]
    disk.write_file("t-0/leader-epoch-checkpoint", b"torn")
    assert list(dump(disk, "t-0/leader-epoch-checkpoint"))[-1] == {"error": "the checkpoint is damaged, or of an unknown version"}
    assert "error" in next(dump(disk, f"{FIRST}.log", deep=True)), "the records of these batches are opaque bytes"
    flip(disk, f"{FIRST}.log", 151 + 100)
    assert list(dump(disk, f"{FIRST}.log"))[-1] == {
        "position": 151,
        "error": "no whole batch with the right CRC-32C begins here; 755 bytes follow",
    }
