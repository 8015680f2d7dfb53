"""The data directory: who holds it, whose it is, and how it was left."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from ottla.net.disk.disk import RealDisk
from ottla.net.startup.data_directory import DataDirectory, DataDirectoryError, DirectoryInUse
from ottla.net.startup.old_registry import open_registry
from ottla.ports import Change

HOLD = """
import sys
from concurrent.futures import ThreadPoolExecutor
from ottla.net.startup.data_directory import DataDirectory
DataDirectory.open(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_ids_are_made_once_and_kept(tmp_path: Path) -> None:
    first = DataDirectory.open(str(tmp_path / "new" / "data"), node_id=7)
    first.close()
    again = DataDirectory.open(str(tmp_path / "new" / "data"))
    assert (again.cluster_id, again.node_id, again.directory_id) == (first.cluster_id, 7, first.directory_id)
    assert len(first.cluster_id) == 22
    assert first.cluster_id != first.directory_id
    again.close()


def test_only_an_orderly_stop_is_clean_and_only_once(tmp_path: Path) -> None:
    path = str(tmp_path)
    directory = DataDirectory.open(path)
    assert not directory.clean
    directory.close()
    directory = DataDirectory.open(path)
    assert directory.clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    directory.release()
    directory = DataDirectory.open(path)
    assert not directory.clean
    directory.close()


def test_a_kill_is_told_from_a_power_cut_by_the_boot_under_which_all_logs_were_good(tmp_path: Path) -> None:
    directory = DataDirectory.open(str(tmp_path))
    assert not directory.was_killed
    directory.release()
    directory = DataDirectory.open(str(tmp_path))
    assert not directory.was_killed, "nobody noted that the logs were good since the machine was started"
    directory.note_boot()
    directory.release()
    directory = DataDirectory.open(str(tmp_path))
    assert directory.was_killed
    directory.close()
    directory = DataDirectory.open(str(tmp_path))
    assert not directory.was_killed, "it was stopped in order"
    directory.release()
    (tmp_path / ".boot-id").write_text("of the boot before")
    directory = DataDirectory.open(str(tmp_path))
    assert not directory.was_killed
    directory.close()


def test_a_second_broker_of_this_process_is_refused(tmp_path: Path) -> None:
    held = DataDirectory.open(str(tmp_path))
    with pytest.raises(DataDirectoryError, match="in use by another broker: stop that broker, or choose another directory"):
        DataDirectory.open(f"{tmp_path}/.")
    held.close()
    DataDirectory.open(str(tmp_path)).close()


def test_another_process_keeps_it_until_it_ends(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DataDirectoryError, match="in use by another broker"):
            DataDirectory.open(str(tmp_path))
        holder.kill()
    DataDirectory.open(str(tmp_path)).close()


def test_a_file_in_its_place_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryError, match="cannot be used: it is a file; choose a directory"):
        DataDirectory.open(str(tmp_path / "file"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_is_not_writable_is_one_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DataDirectoryError, match="Permission denied"):
        DataDirectory.open(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("version=2\nnode.id=1\ncluster.id=x\n", "has format 2, newer than 1"),
        ("version=one\nnode.id=1\n", "cannot be parsed"),
        ("version=1\ncluster.id=x\n", "cannot be parsed"),
        ("version=1\nnode.id=3\ncluster.id=x\n", "belongs to node.id 3, not 5"),
    ],
)
def test_what_it_is_not_for_is_refused_and_left_alone(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(DataDirectoryError, match=sentence):
        DataDirectory.open(str(tmp_path), node_id=5)
    assert (tmp_path / "meta.properties").read_text() == text
    assert os.listdir(tmp_path) != []


@pytest.mark.parametrize("version", ["version=0\nbroker.id=4", "#Tue Jan 02\nversion=1\nnode.id=4\ndirectory.id=AAA"])
def test_directories_of_apache_kafka_keep_their_ids(tmp_path: Path, version: str) -> None:
    (tmp_path / "meta.properties").write_text(f"{version}\ncluster.id=theirs\n")
    directory = DataDirectory.open(str(tmp_path), node_id=4)
    assert (directory.cluster_id, directory.node_id) == ("theirs", 4)
    directory.close()


def test_nobody_else_reads_the_registry(tmp_path: Path) -> None:
    """It has credentials; directories that earlier versions made are closed, too."""
    path = str(tmp_path / "data")
    for _ in range(2):
        directory = DataDirectory.open(path)
        disk = RealDisk(path, lambda call: call())
        registry = open_registry(path, disk)
        registry.commit([Change("/config/users/alice", b"secret")])
        registry.close()
        disk.close()
        directory.close()
        for name in ("registry", "registry.copy"):
            assert stat.S_IMODE((tmp_path / "data" / name).stat().st_mode) == 0o700
            for file in (tmp_path / "data" / name).iterdir():
                assert stat.S_IMODE(file.stat().st_mode) == 0o600
                file.chmod(0o644)
            (tmp_path / "data" / name).chmod(0o755)


def test_of_several_threads_one_gets_it_and_keeps_other_processes_out(tmp_path: Path) -> None:
    path, threads = str(tmp_path), 8
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for _ in range(50):
                together = Barrier(threads)

                def take(_: int, together: Barrier = together) -> DataDirectory | None:
                    together.wait()
                    try:
                        return DataDirectory.open(path)
                    except DirectoryInUse:
                        return None

                [directory] = [found for found in pool.map(take, range(threads)) if found is not None]
                directory.release()
    finally:
        sys.setswitchinterval(before)
    directory = DataDirectory.open(path)
    with pytest.raises(DirectoryInUse):
        DataDirectory.open(path)
    other = subprocess.run([sys.executable, "-c", HOLD, path], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert b"is in use by another broker" in other.stderr, "a refused look released the lock"
    directory.close()


def test_it_is_released_wherever_the_process_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    directory = DataDirectory.open("data")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    directory.release()
    DataDirectory.open(str(tmp_path / "data")).release()
