"""`ottla doctor disk` on real directories: what it prints, what it refuses, and that it leaves no file behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ottla.cli.doctor import disk_costs
from ottla.cli.doctor.disk_costs import APPEND, DIRECT, WAYS, DiskTrial
from ottla.cli.main import main

Outcome = tuple[int, str, str]
Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(path: object, *options: str) -> Outcome:
        code = main(["doctor", "disk", str(path), "--seconds", "0.1", *options])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def refuse_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def open_(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return opened(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", open_)


def test_each_way_has_its_line_and_no_file_remains(run: Run, tmp_path: Path) -> None:
    code, out, err = run(tmp_path)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["WAY", "P50", "MS", "P99", "MS", "REPETITIONS"]
    assert [line.split("  ")[0] for line in lines[1:-1]] in (list(WAYS), [way for way in WAYS if way != DIRECT])
    assert lines[-1].split()[:2] in (["ok", "disk"], ["warn", "disk"])
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_syncs_at_once_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda handle: None)
    monkeypatch.setattr(disk_costs, "sync_each", lambda handles, outcomes: None)
    with ExitStack() as held:
        trial = DiskTrial(str(tmp_path), threading.Event(), held)
        for _, work in trial.ways():
            for number in range(1000):
                work(number)
        for number in range(5000):
            next(work for way, work in trial.ways() if way == APPEND)(number)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 24 << 20


def test_a_file_system_without_direct_writes_has_no_line_for_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_direct(monkeypatch)
    code, out, _ = run(tmp_path, "--json")
    *ways, end = map(json.loads, out.splitlines())
    assert (code, [row["way"] for row in ways]) == (0, [way for way in WAYS if way != DIRECT])
    assert all(0 < row["p50_ms"] <= row["p99_ms"] and row["repetitions"] > 0 for row in ways)
    assert end["check"] == "disk"


def test_json_before_the_command_is_meant_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "disk", str(tmp_path), "--seconds", "0.1"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["way"] == APPEND


def test_a_path_that_is_no_directory_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert run(tmp_path / "none") == (
        1,
        "",
        f"ottla: {tmp_path}/none does not exist: name an existing directory on the disk.\n",
    )
    assert run(tmp_path / "file") == (1, "", f"ottla: {tmp_path}/file is a file: name a directory on the disk.\n")


def test_a_directory_that_cannot_be_written_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mkdtemp(**named: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path))

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    code, out, err = run(tmp_path)
    assert (code, out) == (1, "")
    assert err.startswith(f"ottla: {tmp_path} cannot be measured (Read-only file system): name a directory that this user")


def test_a_directory_of_the_system_is_refused(run: Run) -> None:
    code, out, err = run("/proc")
    assert (code, out, "cannot be measured" in err) == (1, "", True)


@pytest.mark.parametrize("is_early", [True, False])
def test_a_full_disk_is_refused_and_left_as_it_was(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_early: bool
) -> None:
    def statvfs(path: str) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 10_000, 1000, 1000, 10, 10, 10, 0, 255))

    def write(handle: int, data: bytes) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, *(("statvfs", statvfs) if is_early else ("write", write)))
    code, out, err = run(tmp_path)
    monkeypatch.undo()
    assert (code, out) == (1, "")
    assert err.startswith(f"ottla: {tmp_path} is on a disk that is nearly full (")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_it_without_a_trace(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla", "doctor", "disk", str(tmp_path), "--seconds", "60"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not list(tmp_path.glob("ottla-doctor-*/log-49")) and time.monotonic() < end:
        time.sleep(0.02)
    assert list(tmp_path.glob("ottla-doctor-*/log-49"))
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []
