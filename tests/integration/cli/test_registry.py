"""`ottla registry check` and `ottla registry restore` on real directories: sentences, exit codes, and a broker that starts."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

import ottla
from ottla.cli.main import main
from ottla.log.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS, read_offsets, write_offsets
from ottla.net.disk.disk import RealDisk
from ottla.net.startup.data_directory import OLD_REGISTRY, DataDirectoryError
from ottla.registry import lines
from ottla.registry.count import COUNT
from ottla.registry.generations import DIRECTORIES, FIRST

JOURNAL = "00000000000000000000.journal"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Topics t and u with records, and a committed offset; stopped in order."""
    path = tmp_path_factory.mktemp("good") / "data"
    with ottla.Broker(str(path), num_partitions=2) as broker, ottla.Producer(broker.address) as producer:
        for topic in ("t", "u"):
            for index in range(2):
                producer.send(topic, b"%d" % index, partition=index).result(20)
    return path


@pytest.fixture
def data_dir(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "data"))


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["registry", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def damage_both(data_dir: Path) -> int:
    """Flip a bit in the commit that made topic u, in both journals; returns where its line begins."""
    for name in DIRECTORIES:
        data = (data_dir / name / JOURNAL).read_bytes()
        flip(data_dir / name / JOURNAL, data.index(b"/brokers/topics/u") + 5)
    return data.rindex(b"\n", 0, data.index(b"/brokers/topics/u")) + 1


def ends(data_dir: Path, topic: str) -> list[int]:
    """Where the next record of each partition goes, in a broker that is started on the directory."""
    with ottla.Broker(str(data_dir)) as broker, ottla.Producer(broker.address) as producer:
        return [producer.send(topic, b"more", partition=index).result(20).offset for index in range(2)]


def test_everything_is_in_order_and_nothing_is_changed(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    before = {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}
    code, out, _ = run(capsys, "check", data_dir)
    assert code == 0
    assert out.splitlines()[0].startswith(f"whole: registry/{JOURNAL}: ")
    assert out.splitlines()[-1] == "Nothing is damaged."
    assert {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()} == before


def test_damage_of_one_half_is_named_with_its_position(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    flip(data_dir / FIRST / JOURNAL, 10)
    code, out, _ = run(capsys, "check", data_dir)
    assert code == 1
    assert f"damaged: registry/{JOURNAL}: it cannot be read from byte 0 on; no part of it is usable." in out
    code, out, _ = run(capsys, "check", data_dir, "--json")
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["damaged", "whole"]
    assert ends(data_dir, "t") == [1, 1]
    assert run(capsys, "check", data_dir)[0] == 0, "the start mended it"


def test_damage_of_both_is_restored_up_to_it_and_lost_topics_are_adopted(
    capsys: pytest.CaptureFixture[str], data_dir: Path
) -> None:
    position = damage_both(data_dir)
    with pytest.raises(DataDirectoryError, match=r"the registry is damaged twice .*`ottla registry restore`"):
        ottla.Broker(str(data_dir)).start()
    code, out, _ = run(capsys, "check", data_dir)
    assert code == 1
    assert f"cannot be read from byte {position} on; usable up to commit " in out
    code, out, _ = run(capsys, "restore", data_dir)
    assert code == 1
    assert "the damaged files are kept as registry.damaged.1 and registry.copy.damaged.1." in out
    assert "u-1 belongs to no topic of the registry: call `ottla registry restore` with --adopt or --set-aside" in out
    with pytest.raises(DataDirectoryError, match="without an entry in the registry, u-0, u-1"):
        ottla.Broker(str(data_dir)).start()
    code, out, _ = run(capsys, "restore", data_dir, "--adopt")
    assert code == 0
    assert "u is a topic of 2 partitions again; its settings are lost: it keeps all records (retention.ms=-1)" in out
    assert ends(data_dir, "t") == [1, 1]
    assert ends(data_dir, "u") == [1, 1]
    assert run(capsys, "check", data_dir)[0] == 0


@pytest.mark.parametrize("was_tried", [False, True])
@pytest.mark.parametrize("is_counted", [False, True])
def test_a_registry_of_which_nothing_is_left_is_made_again_of_the_directories(
    capsys: pytest.CaptureFixture[str], data_dir: Path, is_counted: bool, was_tried: bool
) -> None:
    for name in DIRECTORIES:
        shutil.rmtree(data_dir / name)
    if not is_counted:
        (data_dir / COUNT).unlink()
    code, out, _ = run(capsys, "check", data_dir)
    assert code == 1
    if is_counted:
        assert "refused: there is no journal in registry and registry.copy, but registry.commits counts " in out
    else:
        assert "missing: registry: it does not exist, although there are partitions: `ottla registry restore` creates it." in out
        assert "unknown: t-0: the registry has no entry for this partition: " in out
    if was_tried:
        sentence = "there is no journal in registry" if is_counted else "no registry with them"
        with pytest.raises(DataDirectoryError, match=sentence):
            ottla.Broker(str(data_dir)).start()
    code, out, _ = run(capsys, "restore", data_dir, "--adopt")
    assert code == 0, out
    if is_counted:
        assert "A start would be refused: there is no journal in registry and registry.copy, but registry.commits counts " in out
        assert "No part of it is readable: creating an empty one.\n" in out
    elif not was_tried:
        assert "There is no copy of the registry: creating an empty one." in out
    assert ends(data_dir, "t") == [1, 1]
    assert run(capsys, "check", data_dir)[0] == 0


def test_what_both_halves_have_lost_is_refused_told_and_restored(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    """Settings alone: no directory would miss them."""
    with ottla.Broker(str(data_dir)) as broker, ottla.Admin(broker.address) as admin:
        admin.alter_configs(ottla.ConfigResource.topic("t"), set={"retention.ms": -1})
    for name in DIRECTORIES:
        path = data_dir / name / JOURNAL
        data = path.read_bytes()
        begin = data.rindex(b"\n", 0, data.rindex(b"retention.ms")) + 1
        path.write_bytes(data[:begin] + bytes(len(data) - begin))
    with pytest.raises(DataDirectoryError, match=r"end at commit \d+, but registry.commits counts \d+: run `ottla registry check`"):
        ottla.Broker(str(data_dir)).start()
    code, out, _ = run(capsys, "check", data_dir)
    assert code == 1
    assert out.splitlines()[-1].startswith(f"refused: registry/{JOURNAL} and its copy end at commit ")
    code, out, _ = run(capsys, "restore", data_dir)
    assert code == 0, out
    assert ends(data_dir, "t") == [1, 1]
    assert run(capsys, "check", data_dir)[0] == 0


def test_a_damaged_count_of_commits_is_told(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    flip(data_dir / COUNT, 20)
    code, out, _ = run(capsys, "check", data_dir)
    assert code == 1
    assert "damaged: registry.commits: it was changed since it was written; the next start rewrites it" in out
    assert ends(data_dir, "t") == [1, 1]
    assert run(capsys, "check", data_dir)[0] == 0


def test_partitions_that_held_records_and_are_gone_are_named(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    shutil.rmtree(data_dir / "t-1")
    code, out, _ = run(capsys, "check", data_dir)
    assert code == 1
    assert "missing: t-1: it had records below offset 1, and its directory is missing: put it back, or delete the topic." in out


@pytest.mark.parametrize("clean", [True, False])
def test_recovery_points_of_neither_a_topic_nor_a_directory_are_named(
    capsys: pytest.CaptureFixture[str], data_dir: Path, clean: bool
) -> None:
    """After a kill they may be of a topic that was deleted after they were noted."""
    with closing(RealDisk(str(data_dir), lambda call: call())) as disk:
        points = read_offsets(disk, RECOVERY_POINTS)
        write_offsets(disk, RECOVERY_POINTS, points | {("lost", 0): 5, ("empty", 0): 0})
    if not clean:
        (data_dir / CLEAN_SHUTDOWN).unlink()
    code, out, _ = run(capsys, "check", data_dir)
    assert "empty" not in out
    told = "missing: lost-0: it had records below offset 5, and has neither a topic nor a directory: if nobody deleted it, "
    perhaps = "gone: lost-0: it had records below offset 5; it was deleted since then, or is lost: if nobody deleted it, "
    assert (told if clean else perhaps) in out
    assert code == (1 if clean else 0)


def test_directories_are_set_aside_where_that_is_asked_for(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    shutil.copytree(data_dir / "u-1", data_dir / "x-3")
    assert "unknown: x-3: the registry has no entry for this partition: " in run(capsys, "check", data_dir)[1]
    code, out, _ = run(capsys, "restore", data_dir, "--set-aside")
    assert (code, len(list(data_dir.glob("x-3.*-stray")))) == (0, 1), out
    assert ends(data_dir, "u") == [1, 1]


def test_directories_that_cannot_be_one_topic_are_not_adopted(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    shutil.copytree(data_dir / "t-0", data_dir / "u-2")
    shutil.copytree(data_dir / "t-0", data_dir / "notes-20240101")
    code, out, _ = run(capsys, "restore", data_dir, "--adopt")
    assert code == 1
    assert "The directories of u are of several topics of that name: move those that do not belong elsewhere." in out
    assert "The directories of notes go up to notes-20240101, and those below are missing: move them elsewhere." in out


def test_an_older_copy_is_put_back_by_name(capsys: pytest.CaptureFixture[str], data_dir: Path, tmp_path: Path) -> None:
    shutil.copy(data_dir / FIRST / JOURNAL, tmp_path / "backup")
    with ottla.Broker(str(data_dir)) as broker, ottla.Producer(broker.address) as producer:
        producer.send("new", b"v").result(20)
    code, out, _ = run(capsys, "restore", data_dir, "--from", tmp_path / "backup", "--adopt")
    assert code == 0, out
    assert "new is a topic of 1 partition again" in out
    assert ends(data_dir, "t") == [1, 1]


def test_what_is_no_copy_is_told_and_changes_nothing(capsys: pytest.CaptureFixture[str], data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"no journal")
    for source in ("other", "nothing"):
        code, _, err = run(capsys, "restore", data_dir, "--from", tmp_path / source)
        assert code == 1
        assert "with --from" in err
    assert run(capsys, "check", data_dir)[0] == 0


def test_the_registry_of_an_earlier_version_is_left_to_the_next_start(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    """It is no journal, so that what a restore made beside it would be without its settings."""
    for name in DIRECTORIES:
        shutil.rmtree(data_dir / name)
    (data_dir / OLD_REGISTRY).write_bytes(b"entries")
    code, out, _ = run(capsys, "check", data_dir)
    assert code == 0
    assert out == "older: registry.sqlite: the registry of an earlier version: the next start of a broker takes it over.\n"
    code, _, err = run(capsys, "restore", data_dir, "--adopt")
    assert code == 1
    assert "registry.sqlite is the registry of an earlier version: start a broker, which takes it over; if" in err
    assert not any((data_dir / name).exists() for name in DIRECTORIES)


def test_a_registry_of_a_newer_format_is_not_given_up(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    newer = lines.write({"registry": lines.FORMAT + 1}, 0)[0]
    for name in DIRECTORIES:
        (data_dir / name / JOURNAL).write_bytes(newer)
    for command in ("check", "restore"):
        code, out, err = run(capsys, command, data_dir)
        assert code == 1
        assert f"registry/{JOURNAL} has format 2, newer than 1: start the newer version that wrote it." in out + err
    assert (data_dir / FIRST / JOURNAL).read_bytes() == newer


def test_no_producer_is_taken_for_another_one_after_a_loss(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    """A producer id that is given out again would make new records duplicates of old ones."""
    for name in DIRECTORIES:
        path = data_dir / name / JOURNAL
        path.write_bytes(path.read_bytes()[:100])
    run(capsys, "restore", data_dir, "--adopt")
    for end in (1, 2):
        assert ends(data_dir, "t") == [end, end]


def test_a_directory_that_a_broker_holds_is_left_alone(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    with ottla.Broker(str(data_dir)):
        for command in ("check", "restore"):
            code, _, err = run(capsys, command, data_dir)
            assert code == 1
            assert "is in use by another broker" in err


@pytest.mark.parametrize("command", [["check"], ["restore"]])
def test_a_directory_whose_properties_are_empty_is_refused(
    capsys: pytest.CaptureFixture[str], data_dir: Path, command: list[str]
) -> None:
    (data_dir / "meta.properties").write_bytes(b"")
    assert main(["registry", *command, str(data_dir)]) == 1
    assert "meta.properties is missing or empty" in capsys.readouterr().err
