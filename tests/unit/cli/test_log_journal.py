"""`ottla log check` and `ottla log dump` about a journal: what waits, what is lost, and how a loss is accepted."""

from __future__ import annotations

import errno
import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.log.checkpoints import RECOVERY_POINTS, write_offsets
from ottla.log.journal.contents import Damage, begin_anew, read_journal
from ottla.log.journal.kept_file import keep_unapplied
from ottla.log.log import Log
from ottla.net.disk.disk import RealDisk
from ottla.net.startup import data_directory
from ottla.net.startup.data_directory import DataDirectory
from ottla.records.batches.header import batches
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, read_all
from tests.unit.log.journals import CONFIG, DIRECTORY, TOPIC, Driver, Partition, contents, key


def copy_out(disk: SimDisk, name: str, to: Path) -> None:
    """Copy a directory of a simulated disk."""
    (to / name).mkdir(exist_ok=True)
    for each in disk.list(name):
        (to / name / each).write_bytes(disk.read_file(f"{name}/{each}"))


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A killed broker's directory: both partitions have 3 records in their own files, and 5 with those in the journal."""
    path = tmp_path / "data"
    DataDirectory.open(str(path)).close()
    driver = Driver(SimDisk())
    driver.begin()
    partitions = [Partition(driver, 0), Partition(driver, 1)]
    for partition in partitions:
        for _ in range(3):
            partition.append(size=100)
        partition.sync()
        copy_out(driver.disk, partition.path, path)
    for _ in range(2):
        for partition in partitions:
            partition.append(size=100)
            partition.write()
    copy_out(driver.disk, DIRECTORY, path)
    with closing(RealDisk(str(path), lambda call: call())) as disk:
        write_offsets(disk, RECOVERY_POINTS, {("t", 0): 3, ("t", 1): 3})
    return path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[str]]:
    code = main(["log", *map(str, words)])
    out, err = capsys.readouterr()
    assert not err
    return code, out.splitlines()


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def end_offset(data_dir: Path, number: int) -> list[int]:
    with closing(RealDisk(str(data_dir), lambda call: call())) as disk:
        log = Log.open(disk, f"t-{number}", CONFIG, NOW, topic_id=TOPIC, recovery_point=3, is_noted=True)
        return [header.base_offset for header, _ in read_all(log)]


def test_what_waits_in_the_journal_is_no_damage(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    before = {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}
    note = "offsets 3 to 4 are in the journal only; the next start of a broker appends them to this log."
    blocks = "the next start of a broker reads 4 blocks with 2048 bytes, which it has to compare with the logs."
    assert run(capsys, "check", data_dir) == (
        0,
        [f"note: {DIRECTORY}: {blocks}", f"note: t-0: {note}", f"note: t-1: {note}", "Nothing is damaged."],
    )
    assert run(capsys, "check", data_dir / "t-1") == (0, [f"note: t-1: {note}", "Nothing is damaged."])
    _, rows = run(capsys, "check", "--json", data_dir / "t-1")
    assert [json.loads(row) for row in rows] == [{"kind": "note", "path": "t-1", "position": -1, "sentence": note}]
    assert run(capsys, "check", "--repair", data_dir)[0] == 0
    assert {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()} == before


def test_a_journal_whose_entries_all_logs_have_is_not_mentioned(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    with closing(RealDisk(str(data_dir), lambda call: call())) as disk:
        begin_anew(disk, DIRECTORY, 2)
    assert run(capsys, "check", data_dir) == (0, ["Nothing is damaged."])


def test_a_lost_entry_is_damage_of_its_partition_until_the_loss_is_accepted(
    capsys: pytest.CaptureFixture[str], data_dir: Path
) -> None:
    """The records behind the loss are appended; the other partition keeps all."""
    flip(data_dir / DIRECTORY / "0", 200)
    code, out = run(capsys, "check", data_dir)
    loss = "journal/0: the block at byte 0 is damaged, with the acknowledged offsets 3 to 3."
    assert (code, out[1], out[2].partition(":")[0]) == (1, f"damaged: t-0: {loss}", "note")
    assert run(capsys, "check", data_dir / "t-1")[0] == 0
    code, out = run(capsys, "check", "--repair", data_dir / "t-1")
    assert not any("repaired" in line for line in out)
    code, out = run(capsys, "check", "--repair", data_dir)
    assert "repaired: t-0: offsets 3 to 3 are lost." in out
    assert "repaired: journal/0: it is kept as journal/0.damaged." in out
    assert code == 0
    code, out = run(capsys, "check", data_dir)
    assert code == 0
    assert not any(line.startswith("note: t-0: offsets") for line in out)
    assert end_offset(data_dir, 0) == [0, 1, 2, 4]
    with closing(RealDisk(str(data_dir), lambda call: call())) as disk:
        found = read_journal(disk, DIRECTORY)
        assert found.is_whole
        assert found.incarnation == 2
        assert list(found.entries) == [key(1)]
        assert [header.base_offset for entry in found.entries[key(1)] for _, header in batches(entry.read())] == [3, 4]


def test_a_loss_at_the_end_is_accepted(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    for position in (200, 1024 + 250):
        flip(data_dir / DIRECTORY / "0", position)
    assert run(capsys, "check", data_dir / "t-0")[0] == 1
    code, out = run(capsys, "check", "--repair", data_dir / "t-0")
    assert (code, "repaired: t-0: offsets 3 to 4 are lost." in out) == (0, True)
    assert end_offset(data_dir, 0) == [0, 1, 2]
    assert run(capsys, "check", data_dir)[0] == 0


def test_a_loss_that_no_partition_can_be_named_for_is_damage_of_the_journal(
    capsys: pytest.CaptureFixture[str], data_dir: Path
) -> None:
    flip(data_dir / DIRECTORY / "incarnation", 9)
    flip(data_dir / DIRECTORY / "incarnation", 512 + 9)
    code, out = run(capsys, "check", data_dir)
    assert (code, out[0].partition("is missing")[0]) == (1, "damaged: journal: journal/incarnation ")
    assert run(capsys, "check", "--repair", data_dir)[0] == 0
    assert run(capsys, "check", data_dir) == (0, ["Nothing is damaged."])


def test_damage_of_another_partition_stays_noted(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    with closing(RealDisk(str(data_dir), lambda call: call())) as disk:
        found = read_journal(disk, DIRECTORY)
        damaged = {key(0): Damage(9, "records were lost."), key(1): Damage(7, "more records were lost.")}
        keep_unapplied(disk, DIRECTORY, found.entries, damaged)
        begin_anew(disk, DIRECTORY, 2)
    code, out = run(capsys, "check", "--repair", data_dir / "t-0")
    assert (code, "repaired: t-0: offsets 5 to 8 are lost." in out) == (0, True)
    code, out = run(capsys, "check", data_dir)
    assert (code, [line for line in out if "t-1" in line]) == (1, ["damaged: t-1: more records were lost."])


def test_entries_of_a_topic_without_a_directory_are_named_by_its_id(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    for name in ("t-0", "t-1"):
        (data_dir / name / "partition.metadata").unlink()
    code, out = run(capsys, "check", data_dir)
    named = "note: journal: it has records of partition 1 of the topic with id AAECAwQFBgcICQoLDA0ODw, which has no directory."
    assert (code, out[2]) == (0, named)


def test_a_torn_last_block_is_mentioned(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    flip(data_dir / DIRECTORY / "0", 3 * 512 + 300)
    code, out = run(capsys, "check", data_dir)
    torn = (
        "note: journal: journal/0: the last block, at byte 1536, is incomplete: its write never ended. It was never acknowledged."
    )
    assert (code, out[0]) == (0, torn)


def test_blocks_and_entries_are_dumped(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    code, out = run(capsys, "dump", data_dir / DIRECTORY)
    assert code == 0
    assert out[0] == f"{data_dir / DIRECTORY / '0'}:"
    assert out[1] == "  position: 0, size: 512, incarnation: 1, sequence: 1, oldest: 1, data_bytes: 161"
    assert out[2] == (
        "    kind: batches, topic_id: AAECAwQFBgcICQoLDA0ODw, partition: 0, base_offset: 3, next_offset: 4, leader_epoch: 0, "
        "position: 121, size: 161, is_whole: True"
    )
    assert out[-1] == "  incarnation: 1"
    code, rows = run(capsys, "dump", "--json", data_dir / DIRECTORY / "0")
    assert [json.loads(row)["sequence"] for row in rows] == [1, 2, 3, 4]
    assert run(capsys, "dump", data_dir)[1][: len(out)] != out


def test_damage_is_dumped(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    flip(data_dir / DIRECTORY / "0", 200)
    flip(data_dir / DIRECTORY / "incarnation", 9)
    code, out = run(capsys, "dump", data_dir / DIRECTORY)
    assert code == 1
    assert "error: 1 of its entries do not have the right CRC-32C" in out[1]
    assert out[-1] == "  incarnation: 1"
    flip(data_dir / DIRECTORY / "incarnation", 512 + 9)
    assert run(capsys, "dump", data_dir / DIRECTORY / "incarnation")[1][-1] == "  error: both copies of the number are damaged"


def test_voids_and_kept_entries_are_dumped(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    driver = Driver(SimDisk())
    driver.begin()
    driver.put(driver.entry(0))
    driver.void(0)
    driver.put(driver.entry(1))
    keep_unapplied(driver.disk, DIRECTORY, contents(driver.disk).entries, {key(7): Damage(4, "they were lost.")})
    copy_out(driver.disk, DIRECTORY, tmp_path)
    code, rows = run(capsys, "dump", "--json", tmp_path / DIRECTORY)
    blocks = [json.loads(row) for row in rows]
    assert code == 0
    kinds = [entry["kind"] for block in blocks for entry in block.get("entries", [])]
    assert kinds == ["batches", "void", "batches", "batches", "damage"]
    assert [entry.get("sentence") for entry in blocks[4]["entries"]] == [None, "they were lost."]


def test_the_journal_alone_is_not_checked(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    assert main(["log", "check", str(data_dir / "journal")]) == 1
    assert capsys.readouterr().err == (
        f"ottla: {data_dir}/journal is the journal of {data_dir}, which is checked with its logs: name {data_dir}.\n"
    )


def test_a_directory_in_a_files_place_is_an_error_that_says_what_to_do(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    (data_dir / "journal/0").unlink()
    (data_dir / "journal/0").mkdir()
    assert main(["log", "check", str(data_dir)]) == 1
    remedy = "move that directory away, since a file belongs there"
    assert capsys.readouterr().err == (
        f"ottla: {data_dir}/journal/0: Is a directory: the rest was not checked; {remedy}, and run this command again.\n"
    )


def test_a_directory_that_cannot_be_entered_is_an_error_that_says_what_to_do(
    capsys: pytest.CaptureFixture[str], data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(data_directory, "_exists", refuse)  # root may enter everything
    assert main(["log", "check", str(data_dir)]) == 1
    assert capsys.readouterr().err == (
        f"ottla: The data directory {data_dir} cannot be used (Permission denied): let this user write there, or choose another.\n"
    )


def test_a_damaged_header_has_a_row_of_its_own(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    flip(data_dir / "journal/0", 20)
    code, lines = run(capsys, "dump", data_dir / "journal/0")
    assert code == 1
    assert lines[1] == "  position: 0, error: the header of this block is damaged, or its write did not end"
    assert lines[2].startswith("  position: 512,")


def test_a_dump_needs_no_permission_to_write(
    capsys: pytest.CaptureFixture[str], data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def open_(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", open_)
    code, lines = run(capsys, "dump", data_dir)
    assert code == 0
    assert {f"{data_dir}/journal/0:", f"{data_dir}/t-0/{0:020}.log:"} <= set(lines)


@pytest.mark.parametrize("killed", [True, False])
def test_a_missing_file_is_a_loss_only_after_a_power_cut(
    capsys: pytest.CaptureFixture[str], data_dir: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    (data_dir / "journal/0").unlink()
    monkeypatch.setattr(data_directory, "was_killed", lambda path: killed)
    code, lines = run(capsys, "check", data_dir)
    assert code == (0 if killed else 1)
    kind = "note" if killed else "damaged"
    assert any(line.startswith(f"{kind}: journal: ") and "missing or has another size" in line for line in lines)


def test_a_kept_copy_of_a_damaged_journal_is_dumped_like_its_original(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    flip(data_dir / "journal/0", 20)
    original = run(capsys, "dump", data_dir / "journal/0")
    (data_dir / "journal/0").rename(data_dir / "journal/0.2.damaged")
    code, lines = run(capsys, "dump", data_dir / "journal/0.2.damaged")
    assert (code, lines[1:]) == (original[0], original[1][1:])
