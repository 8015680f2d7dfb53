"""`ottla log check` and `ottla log dump` on real directories: sentences and exit codes, never a traceback."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.cluster import layout
from ottla.coord.records import OffsetCommitted, encode_record
from ottla.log.checkpoints import RECOVERY_POINTS, write_offsets
from ottla.log.log import Log, LogConfig
from ottla.log.names import KNOWN_GAPS
from ottla.log.recovery.gaps import note_gaps
from ottla.net.disk.disk import RealDisk
from ottla.net.startup.data_directory import DataDirectory
from ottla.ports import Change, Now
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header
from ottla.registry.journal import JournalRegistry

NOW = Now(1_700_000_000_000, 0)
LOG = "t-0/00000000000000000000.log"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with one partition of three batches, and no broker on it."""
    path = tmp_path / "data"
    directory = DataDirectory.open(str(path))
    disk = RealDisk(str(path), lambda call: call())
    log = Log.open(disk, "t-0", LogConfig(), NOW)
    for number in range(3):
        batch = build([b"key"], [b"value %d" % number], NOW.wall_ms, [[("name", b"\xff")]])
        log.append(batch, (read_header(batch),), 0, NOW)
    log.close()
    write_offsets(disk, RECOVERY_POINTS, {("t", 0): 3})
    disk.close()
    directory.close()
    return path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["log", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def damage(data_dir: Path) -> int:
    """Change a byte in the second batch; returns where that batch begins."""
    file = data_dir / LOG
    data = bytearray(file.read_bytes())
    begins = len(data) // 3
    data[begins + 70] ^= 1
    file.write_bytes(data)
    return begins


def test_everything_is_in_order(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    before = {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}
    for directory in (data_dir, data_dir / "t-0"):
        assert run(capsys, "check", directory) == (0, "Nothing is damaged.\n", "")
        assert run(capsys, "check", "--json", directory) == (0, "", "")
    assert {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("was_killed", [False, True])
def test_a_leader_epoch_that_changed_is_written_again_where_the_checkpoint_is_no_older(
    capsys: pytest.CaptureFixture[str], data_dir: Path, was_killed: bool
) -> None:
    (data_dir / RECOVERY_POINTS).unlink()
    directory = DataDirectory.open(str(data_dir))
    if was_killed:
        directory.note_boot()
    directory.release()
    before = (data_dir / LOG).read_bytes()
    data = bytearray(before)
    last = len(data) * 2 // 3
    data[last + 15] ^= 64
    (data_dir / LOG).write_bytes(data)
    code, out, _ = run(capsys, "check", data_dir)
    if not was_killed:  # a power cut may have taken the newest epoch from the checkpoint
        assert (code, out) == (0, "Nothing is damaged.\n")
        return
    said = f"damaged: {LOG}, byte {last}: this batch has leader epoch 64, but 0 in leader-epoch-checkpoint."
    assert (code, out.splitlines()[0]) == (1, said)
    assert run(capsys, "check", "--repair", data_dir)[0] == 0
    assert (data_dir / LOG).read_bytes() == before


@pytest.mark.parametrize("is_known", [False, True])
def test_a_directory_that_is_gone_is_missed_and_nothing_is_given_up_for_it(
    capsys: pytest.CaptureFixture[str], data_dir: Path, is_known: bool
) -> None:
    if is_known:
        with closing(RealDisk(str(data_dir), lambda call: call())) as disk, closing(JournalRegistry.open(disk)) as registry:
            registry.commit([Change(layout.topic_path("t"), layout.topic_json(bytes(16), {0: (1,)}))])
    shutil.rmtree(data_dir / "t-0")
    before = (data_dir / RECOVERY_POINTS).read_bytes()
    for words in (("check",), ("check", "--repair")):
        code, out, _ = run(capsys, *words, data_dir)
        assert code == int(is_known)
        if is_known:
            assert out.startswith(
                "damaged: t-0: its directory is missing, and it had records below offset 3: restore it, or delete the"
            )
        else:
            assert out.startswith(
                "note: t-0: its directory is missing, and it had records below offset 3: restore it, unless the topic"
            )
        code, out, _ = run(capsys, *words, data_dir / "t-0")
        assert (code, out.partition(":")[0]) == (int(is_known), "damaged" if is_known else "note")
    assert (data_dir / RECOVERY_POINTS).read_bytes() == before


def test_a_directory_of_another_topic_is_not_in_order_and_not_repaired(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    metadata = data_dir / "t-0" / "partition.metadata"
    for topic_id, is_right in ((bytes(range(16)), True), (bytes(range(1, 17)), False)):
        with closing(RealDisk(str(data_dir), lambda call: call())) as disk, closing(JournalRegistry.open(disk)) as registry:
            registry.commit([Change(layout.topic_path("t"), layout.topic_json(topic_id, {0: (1,)}))])
            if is_right:
                Log.open(disk, "t-0", LogConfig(), NOW, topic_id=topic_id).close()
        before = metadata.read_bytes()
        for words in (("check",), ("check", "--repair")):
            code, out, _ = run(capsys, *words, data_dir)
            assert code == int(not is_right)
            assert is_right or out.startswith("refused: t-0/partition.metadata: the directory belongs to the topic with id AAEC")
        assert metadata.read_bytes() == before


def test_a_directory_that_never_was_is_not_in_order(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    code, out, err = run(capsys, "check", data_dir / "u-0")
    assert (code, out) == (1, "")
    assert "u-0 does not exist: name a data directory, or a partition's directory in it." in err


@pytest.mark.parametrize("of_the_partition", [False, True])
def test_damage_is_told_and_repaired(capsys: pytest.CaptureFixture[str], data_dir: Path, of_the_partition: bool) -> None:
    begins = damage(data_dir)
    directory = data_dir / "t-0" if of_the_partition else data_dir
    code, out, _ = run(capsys, "check", directory)
    assert code == 1
    assert out.startswith(f"damaged: {LOG}, byte {begins}: no whole batch with the right CRC-32C begins here")
    code, out, _ = run(capsys, "check", "--json", directory)
    assert (code, json.loads(out)["position"]) == (1, begins)
    code, out, _ = run(capsys, "check", "--repair", directory)
    assert (code, out.splitlines()[-1]) == (0, "Nothing is damaged.")
    assert f"kept as {LOG}.damaged." in out
    assert (data_dir / f"{LOG}.damaged").stat().st_size == begins
    assert run(capsys, "check", directory)[0] == 0


def test_a_directory_that_a_broker_holds_is_refused(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    directory = DataDirectory.open(str(data_dir))
    code, _, err = run(capsys, "check", "--repair", data_dir)
    directory.release()
    assert (code, err.count("\n")) == (1, 1)
    assert "is in use by another broker" in err


def test_what_is_no_data_directory_or_of_a_newer_format_is_refused(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    code, _, err = run(capsys, "check", data_dir.parent)
    assert (code, "is no data directory" in err) == (1, True)
    assert sorted(path.name for path in data_dir.parent.iterdir()) == ["data"]
    meta = data_dir / "meta.properties"
    meta.write_text(meta.read_text().replace("version=1", "version=9"))
    code, _, err = run(capsys, "check", data_dir)
    assert (code, "has format 9, newer than 1" in err) == (1, True)


def test_batches_and_records_are_printed(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    code, out, _ = run(capsys, "dump", data_dir / LOG)
    assert (code, out.count("base_offset: ")) == (0, 3)
    code, out, _ = run(capsys, "dump", "--deep", data_dir / LOG)
    assert "    offset: 2, timestamp: 1700000000000, key: key, value: value 2, headers: [['name', {'hex': 'ff'}]]" in out
    code, out, _ = run(capsys, "dump", "--json", "--deep", data_dir / LOG)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["records"][0]["value"] for row in rows] == ["value 0", "value 1", "value 2"]
    code, out, _ = run(capsys, "dump", data_dir)
    assert (code, RECOVERY_POINTS in out, "topic: t, partition: 0, offset: 3" in out) == (0, True, True)


def test_the_room_of_a_journal_and_the_gaps_of_a_log_are_not_taken_for_what_they_are_not(
    capsys: pytest.CaptureFixture[str], data_dir: Path
) -> None:
    with closing(RealDisk(str(data_dir), lambda call: call())) as disk:
        JournalRegistry.open(disk).close()
        note_gaps(disk, "t-0", [(3, 5)])
    code, out, _ = run(capsys, "dump", data_dir)
    assert code == 0
    assert "\0" not in out
    assert "room_bytes: 65536" in out
    code, out, _ = run(capsys, "dump", data_dir / "t-0" / KNOWN_GAPS)
    assert code == 0
    assert "line: 3 5 " in out


def test_what_can_be_read_is_printed_before_the_damage(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    begins = damage(data_dir)
    code, out, _ = run(capsys, "dump", "--json", data_dir / LOG)
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, len(rows), rows[1]["position"]) == (1, 2, begins)
    code, _, err = run(capsys, "dump", data_dir / "nothing")
    assert (code, err.endswith("nothing does not exist: name a file of a log, or a directory.\n")) == (2, True)


def test_records_of_an_internal_topic_are_printed_by_their_fields(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    disk = RealDisk(str(data_dir), lambda call: call())
    log = Log.open(disk, "__consumer_offsets-0", LogConfig(), NOW)
    key, value = encode_record(OffsetCommitted("readers", "t", 0, 3, 0, "", NOW.wall_ms))
    batch = build([key], [value], NOW.wall_ms)
    log.append(batch, (read_header(batch),), 0, NOW)
    log.close()
    disk.close()
    code, out, _ = run(capsys, "dump", "--deep", data_dir / "__consumer_offsets-0" / "00000000000000000000.log")
    assert code == 0
    assert 'key: {"message": "OffsetCommitKey", "group": "readers", "topic": "t", "partition": 0}' in out
    code, out, _ = run(capsys, "dump", "--deep", "--json", data_dir / "__consumer_offsets-0")
    [record] = [record for line in out.splitlines() for record in json.loads(line).get("records", [])]
    assert (record["key"]["group"], record["value"]["offset"]) == ("readers", 3)
