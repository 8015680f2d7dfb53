"""The real disk on a temporary directory: appends, failures, many files, and syncs that are shared."""

from __future__ import annotations

import errno
import gc
import os
import sys
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from queue import Queue
from types import FrameType
from typing import Any

import pytest

from ottla.log.log import Log, LogConfig
from ottla.net.disk import sync_workers
from ottla.net.disk.disk import LOOKS, RealDisk
from ottla.net.disk.real_file import LARGE_BYTES, RealFile
from ottla.net.disk.space_release import PIECE_BYTES
from ottla.net.disk.unsynced_names import at_or_below
from ottla.net.kernel_sync import NAMELESS, sync_each
from ottla.ports import Buffer, FileSlice, StorageFailed, SyncFailed
from tests.unit.log.batches import NOW, append, make_batch, read_all, sync

Calls = Queue[Callable[[], None]]


@pytest.fixture
def calls() -> Calls:
    return Queue()


@pytest.fixture
def disk(tmp_path: Path, calls: Calls) -> Iterator[RealDisk]:
    disk = RealDisk(str(tmp_path), calls.put, max_open_files=8)
    yield disk
    disk.close()


def test_appends_are_written_in_order_and_read_back(disk: RealDisk) -> None:
    file = disk.open("log", create=True)
    assert file.append([b"abc", bytearray(b"de")]) == 0
    assert file.append((memoryview(b"fgh"),)) == 5
    assert (file.size, file.read(3, 4), file.read(6, 100)) == (8, b"defg", b"gh")
    assert FileSlice(file, 2, 3).read() == b"cde"
    assert disk.size("log") == 8


def test_more_buffers_than_one_system_call_takes(disk: RealDisk) -> None:
    file = disk.open("log", create=True)
    buffers = [bytes([number % 256]) * 3 for number in range(3000)]
    file.append(buffers)
    assert file.read(0, 10_000) == b"".join(buffers)


def test_a_short_write_is_continued(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwritev

    def short(fd: int, buffers: Sequence[Buffer], position: int) -> int:
        return whole(fd, [memoryview(buffers[0])[:3]], position)

    monkeypatch.setattr(os, "pwritev", short)
    file = disk.open("log", create=True)
    file.append([b"abcdefgh", b"ijk"])
    assert file.read(0, 20) == b"abcdefghijk"


def test_a_failed_append_leaves_the_file_as_it_was(disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("log", create=True)
    file.append([b"kept"])
    whole = os.pwritev

    def full(fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if position > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(fd, [memoryview(buffers[0])[:3]], position)

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(StorageFailed, match="log: No space left on device"):
        file.append([b"too much"])
    assert (file.size, (tmp_path / "log").read_bytes()) == (4, b"kept")
    monkeypatch.undo()
    assert file.append([b" on"]) == 4
    assert file.read(0, 10) == b"kept on"


def test_handles_are_bounded_and_files_open_again(disk: RealDisk, tmp_path: Path) -> None:
    files = [disk.open(f"file-{number}", create=True) for number in range(50)]
    for number, file in enumerate(files):
        file.append([b"%d" % number])
    opened = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert sum(name.startswith(str(tmp_path)) for name in opened) <= 9
    assert [file.read(0, 9) for file in files] == [b"%d" % number for number in range(50)]


def test_opening_a_file_looks_at_few_others_though_all_wait_for_their_sync(disk: RealDisk) -> None:
    held = [disk.open(f"log-{number}", create=True) for number in range(200)]
    for file in held:
        assert isinstance(file, RealFile)
        file.pin()
    looks = 0

    def entered(frame: FrameType, event: str, _: object) -> None:
        nonlocal looks
        looks += event == "call" and frame.f_code.co_name == "is_pinned"

    sys.setprofile(entered)
    try:
        disk.open("another", create=True)
    finally:
        sys.setprofile(None)
    assert looks <= LOOKS
    for file in held:
        assert isinstance(file, RealFile)
        file.unpin()
    for number in range(30):
        disk.open(f"later-{number}", create=True)
    assert sum(file.is_open for file in held if isinstance(file, RealFile)) <= 8, "once they are synced they are closed"


def test_a_file_that_nobody_holds_gives_its_handle_back(disk: RealDisk) -> None:
    fd = disk.open("log", create=True).fileno()
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_slice_stays_readable_when_its_file_is_renamed_and_removed(disk: RealDisk) -> None:
    file = disk.open("log", create=True)
    file.append([b"data"])
    disk.rename("log", "log.deleted")
    file.close()
    assert FileSlice(file, 1, 2).read() == b"at"
    disk.remove("log.deleted")
    assert FileSlice(file, 1, 2).read() == b"at"
    assert not disk.exists("log.deleted")


def test_a_directory_that_is_removed_some_time_is_gone_when_the_disk_is_closed(disk: RealDisk) -> None:
    disk.make_dir("t-0")
    held = disk.open("t-0/log", create=True)
    held.append([bytes(LARGE_BYTES)])
    disk.open("t-0/index", create=True)
    disk.rename("t-0", "t-0.gone", sync=False)
    disk.remove_tree_soon("t-0.gone")
    disk.remove_tree_soon("none")
    disk.make_dir("t-0")
    disk.close()
    assert disk.list("") == ["t-0"]
    assert len(held.read(0, LARGE_BYTES)) == LARGE_BYTES


def test_a_large_file_is_freed_in_pieces_by_another_thread(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, real = list[int](), os.ftruncate

    def cut(fd: int, size: int) -> None:
        assert threading.current_thread().name == "ottla-janitor"
        sizes.append(size)
        real(fd, size)

    disk.open("large", create=True).append([bytes(5 * PIECE_BYTES)])
    disk.make_dir("t-0")
    disk.open("t-0/large", create=True).append([bytes(3 * PIECE_BYTES)])
    monkeypatch.setattr(os, "ftruncate", cut)
    disk.remove_soon("large")
    disk.remove_tree_soon("t-0")
    disk.close()
    assert sizes == [count * PIECE_BYTES for count in (4, 3, 2, 1, 2, 1)]
    assert disk.list("") == []


def test_a_large_file_that_is_read_stays_whole_until_it_is_closed(disk: RealDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, real = dict[int, str](), os.close

    def close(fd: int) -> None:
        threads[fd] = threading.current_thread().name
        real(fd)

    monkeypatch.setattr(os, "close", close)
    for name, remove in (("removed", disk.remove), ("removed-soon", disk.remove_soon)):
        held = disk.open(name, create=True)
        held.append([b"x" * LARGE_BYTES])
        remove(name)
        assert not disk.exists(name)
        assert held.read(LARGE_BYTES - 1, 1) == b"x"
        fd = held.fileno()
        held.close()
        with pytest.raises(StorageFailed, match="deleted"):
            held.read(0, 1)
        while fd not in threads:
            threading.Event().wait(0.001)
        assert threads.pop(fd) == "ottla-janitor"


def test_a_file_that_has_another_name_keeps_what_it_holds(disk: RealDisk, tmp_path: Path) -> None:
    disk.open("log", create=True).append([bytes(LARGE_BYTES)])
    root = Path(disk.root)
    os.link(root / "log", tmp_path / "copy")
    disk.remove_soon("log")
    disk.close()
    assert not (root / "log").exists()
    assert (tmp_path / "copy").stat().st_size == LARGE_BYTES


def test_what_is_removed_some_time_is_looked_for_where_its_directory_is_then(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, real = threading.Event(), os.ftruncate

    def cut(fd: int, size: int) -> None:
        assert go_on.wait(10)
        real(fd, size)

    monkeypatch.setattr(os, "ftruncate", cut)
    disk.open("large", create=True).append([bytes(LARGE_BYTES)])
    disk.remove_soon("large")
    disk.make_dir("t-0")
    disk.write_file("t-0/index", b"old")
    disk.remove_soon("t-0/index")
    disk.rename("t-0", "t-0.gone")
    disk.make_dir("t-0")
    disk.write_file("t-0/index", b"new")
    go_on.set()
    disk.close()
    assert disk.read_file("t-0/index") == b"new"
    assert disk.list("t-0.gone") == []


def test_syncs_of_names_wait_for_one_another_and_no_other_sync_does(
    disk: RealDisk, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_workers, "GATHER_S", 3600)
    done = list[str]()
    for name in ("t-0", "t-1"):
        disk.make_dir(name)
        disk.sync_soon([disk.directory(name)], lambda failure, name=name: done.append(name))  # type: ignore[misc]  # of each
    disk.sync_soon([disk.open("t-0/log", create=True)], lambda failure: done.append("log"))
    calls.get(timeout=10)()
    assert done == ["t-0", "t-1", "log"]


def test_freeing_large_files_keeps_no_sync_waiting(disk: RealDisk, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, real = threading.Event(), os.close

    def close(fd: int) -> None:
        if threading.current_thread().name == "ottla-janitor":
            assert go_on.wait(10)
        real(fd)

    monkeypatch.setattr(os, "close", close)
    disk.open("large", create=True).append([bytes(LARGE_BYTES)])
    disk.remove("large")
    assert not disk.exists("large")
    done = list[object]()
    disk.sync_soon([disk.open("log", create=True), disk.directory("")], done.append)
    calls.get(timeout=10)()
    assert done == [None]
    go_on.set()


def test_a_directory_that_cannot_be_synced_is_told(disk: RealDisk) -> None:
    with pytest.raises(StorageFailed, match="none: No such file or directory"):
        disk.sync_soon([disk.directory("none"), disk.directory("none")], lambda failure: None)


def test_a_directory_made_anew_holds_new_files(disk: RealDisk) -> None:
    disk.make_dir("t-0")
    old = disk.open("t-0/log", create=True)
    old.append([b"old"])
    disk.rename("t-0", "t-0.gone")
    assert old.path == "t-0.gone/log"
    disk.make_dir("t-0")
    new = disk.open("t-0/log", create=True)
    assert (new is old, new.size, old.read(0, 9)) == (False, 0, b"old")
    disk.remove_tree("t-0")
    disk.make_dir("t-0")
    assert disk.open("t-0/log", create=True) is not new


def test_a_log_on_it_is_there_again_after_a_restart(disk: RealDisk) -> None:
    log = Log.open(disk, "t-0", LogConfig(segment_bytes=500), NOW)
    for _ in range(40):
        append(log, make_batch(2, 60))
    sync(log)
    before = read_all(log)
    for clean in (False, True):
        log.close()
        log = Log.open(disk, "t-0", LogConfig(segment_bytes=500), NOW, clean=clean, recovery_point=80)
        assert read_all(log) == before
    log.delete()
    disk.close()  # what may take long is done by then
    assert disk.list("") == []


def test_one_pass_of_syncs_serves_everybody_who_asked(disk: RealDisk, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    started, go_on, synced = threading.Event(), threading.Event(), list[int]()

    def fdatasync(fd: int) -> None:
        synced.append(fd)
        started.set()
        assert go_on.wait(10)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    file, done = disk.open("log", create=True), list[object]()
    file.append([b"1"])
    disk.sync_soon([file], done.append)
    assert started.wait(10)
    for _ in range(100):
        file.append([b"2"])
        disk.sync_soon([file], done.append)
    assert done == []
    go_on.set()
    for _ in range(2):
        calls.get(timeout=10)()
    assert done == [None] * 101
    assert len(synced) == 2


def test_a_sync_that_fails_is_told_and_never_taken_back(disk: RealDisk, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    def fdatasync(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file, other, done = disk.open("log", create=True), disk.open("other", create=True), list[StorageFailed | None]()
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    file.append([b"1"])
    disk.sync_soon([file], done.append)
    calls.get(timeout=10)()
    monkeypatch.undo()
    disk.sync_soon([other, file], done.append)
    disk.sync_soon([other], done.append)
    while len(done) < 3:
        calls.get(timeout=10)()
    assert [str(failure) for failure in done] == ["log: Input/output error"] * 2 + ["None"]


def test_what_is_written_to_a_file_that_somebody_removed_is_not_on_stable_storage(
    disk: RealDisk, calls: Calls, tmp_path: Path
) -> None:
    removed, kept, done = disk.open("removed", create=True), disk.open("kept", create=True), list[StorageFailed | None]()
    for file in (removed, kept):
        file.append([b"1"])
        file.sync()
        file.append([b"2"])
    (tmp_path / "removed").unlink()
    kept.sync()
    with pytest.raises(SyncFailed, match="removed: it was removed by another program"):
        removed.sync()
    disk.sync_soon([removed], done.append)
    calls.get(timeout=10)()
    assert [str(failure) for failure in done] == ["removed: it was removed by another program"]


def test_a_file_that_somebody_removed_fails_its_own_sync_alone(disk: RealDisk, calls: Calls, tmp_path: Path) -> None:
    removed, kept = (disk.open(name, create=True) for name in ("removed", "kept"))
    done: list[StorageFailed | None] = []
    for file in (removed, kept):
        file.append([b"1"])
        file.sync()
        file.append([b"2"])
    (tmp_path / "removed").unlink()
    for file in (removed, kept):
        disk.sync_soon([file], done.append)
    while len(done) < 2:
        calls.get(timeout=10)()
    assert [str(failure) for failure in done] == ["removed: it was removed by another program", "None"]
    with pytest.raises(SyncFailed, match="removed: it was removed by another program"):
        removed.sync()


def test_a_file_removed_on_purpose_while_it_is_synced_does_not_fail_that(disk: RealDisk) -> None:
    file = disk.open("log", create=True)
    file.append([b"1"])
    file.sync()
    file.append([b"2"])
    file.pin()
    handle = file.begin_sync()
    disk.remove("log")
    outcomes = array("i", [0])
    sync_each(array("i", [handle]), outcomes)
    assert outcomes[0] == NAMELESS
    file.end_sync(outcomes[0])
    file.unpin()


def test_closing_a_file_waits_for_its_sync(disk: RealDisk, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    started, go_on, done = threading.Event(), threading.Event(), list[object]()
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        started.set()
        assert go_on.wait(10)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    file = disk.open("log", create=True)
    file.append([b"1"])
    disk.sync_soon([file], done.append)
    assert started.wait(10)
    file.close()
    go_on.set()
    calls.get(timeout=10)()
    assert done == [None]
    assert not file.is_open


def test_whole_files_are_replaced_and_listed(disk: RealDisk) -> None:
    disk.make_dir("a/b")
    disk.make_dir("a/b")
    disk.write_file("a/b/meta", b"1")
    disk.write_file("a/b/meta", b"22", sync=False)
    assert disk.read_file("a/b/meta") == b"22"
    assert (disk.list("a"), disk.list("a/b"), disk.list("none")) == (["b"], ["meta"], [])
    assert disk.modified_ms("a/b/meta") > 1_600_000_000_000
    disk.remove_tree("a")
    disk.remove_tree("a")
    assert not disk.exists("a/b")


@pytest.mark.parametrize(
    "call",
    [
        lambda disk: disk.open("none"),
        lambda disk: disk.open("none/log", create=True),
        lambda disk: disk.size("none"),
        lambda disk: disk.remove("none"),
        lambda disk: disk.rename("none", "some"),
        lambda disk: disk.read_file("none"),
        lambda disk: disk.write_file("none/file", b""),
        lambda disk: disk.sync_dir("none"),
        lambda disk: disk.modified_ms("none"),
    ],
)
def test_what_is_not_there_is_one_kind_of_error(disk: RealDisk, call: Callable[[RealDisk], object]) -> None:
    with pytest.raises(StorageFailed, match="No such file or directory"):
        call(disk)


def test_cutting_and_overwriting(disk: RealDisk) -> None:
    file = disk.open("log", create=True)
    file.append([b"abcdef"])
    file.truncate(4)
    file.write(2, b"XY")
    assert (file.size, file.read(0, 9)) == (4, b"abXY")
    file.write(4, b"Z")
    file.sync()
    assert (file.size, disk.read_file("log")) == (5, b"abXYZ")


def test_what_a_killed_process_left_in_the_page_cache_is_synced_when_asked(
    disk: RealDisk, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = RealDisk(disk.root, calls.put)
    killed.open("a", create=True).append([b"written and never synced"])
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    file = disk.open("a")
    file.sync()
    file.sync()
    assert synced == [file.fileno()]


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_name_that_the_disk_refuses_to_look_up_is_not_taken_for_one_that_is_not_there(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    disk.open("log", create=True)

    def refused(path: str) -> os.stat_result:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refused)
        with pytest.raises(StorageFailed):
            disk.exists("log")
    assert disk.exists("log")
    assert not disk.exists("log/below")
    assert not disk.exists("nothing")


def test_a_file_that_is_collected_while_its_directory_is_removed_ends_nothing(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.make_dir("t-0")
    held = [disk.open("t-0/log", create=True)]

    def collecting(names: Iterable[str], path: str) -> list[str]:
        found = at_or_below(names, path)
        held.clear()
        return found

    monkeypatch.setattr("ottla.net.disk.disk.at_or_below", collecting)
    disk.remove_tree("t-0")
    assert not disk.exists("t-0")


class CountingSystem:
    """The system's calls; `syncs` counts those of directories."""

    syncs = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, fd: int) -> None:
        self.syncs += 1
        os.fsync(fd)


def test_an_open_file_knows_whether_it_has_a_name(tmp_path: Path, calls: Calls) -> None:
    file = RealDisk(str(tmp_path), calls.put).open("a", create=True)
    assert file.has_name
    (tmp_path / "a").unlink()
    assert not file.has_name


def test_new_files_of_one_directory_share_a_sync_of_it(tmp_path: Path, calls: Calls) -> None:
    system = CountingSystem()
    disk = RealDisk(str(tmp_path), calls.put, max_open_files=20, system=system)
    disk.make_dir("t-0")
    disk.sync_dir("t-0")
    system.syncs = 0
    for turn in range(2):
        disk.sync_soon([disk.open(f"t-0/{turn}-{number}", create=True) for number in range(10)], lambda failure: None)
        calls.get(timeout=20)()
    assert system.syncs == 2
    disk.open("t-0/one", create=True).sync()
    assert system.syncs == 3
    disk.close()


def test_what_became_of_many_syncs_is_told_in_parts(disk: RealDisk, calls: Calls) -> None:
    told: list[str] = []

    def asked(name: str) -> Callable[[StorageFailed | None], None]:
        return lambda failure: told.append(name) if failure is None else None

    names = [f"file-{number}" for number in range(3 * sync_workers.TOLD_AT_ONCE)]
    for name in names:
        file = disk.open(name, create=True)
        file.append([b"x"])
        disk.sync_soon([file], asked(name))
    while len(told) < len(names):
        before = len(told)
        calls.get(timeout=20)()
        assert len(told) - before <= sync_workers.TOLD_AT_ONCE
    assert sorted(told) == sorted(names)
