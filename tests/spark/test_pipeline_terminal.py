"""`ottla pipeline` as people run it: on a terminal, ended by Ctrl-C, or by SIGTERM, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.spark.java import NoJava, java_home
from tests.spark.conftest import Topics

dataset = pytest.importorskip("pyarrow.dataset", reason="pyarrow is absent: pip install 'ottla[spark]'")
CTRL_C = b"\x03"
ON_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Makes what follows the leader of the terminal that is its input: Ctrl-C there interrupts it, and what it has started."""


class Terminal:
    """What a person sees on a terminal."""

    def __init__(self, side: int) -> None:
        self._side = side
        self.shown = ""

    def wait_for(self, words: str) -> None:
        """Raises `OSError` if nothing more will be shown."""
        while words not in self.shown:
            self.shown += os.read(self._side, 65536).decode()

    def type(self, keys: bytes) -> None:
        os.write(self._side, keys)

    def rest(self) -> str:
        """What is shown until the last one has closed the terminal."""
        try:
            self.wait_for("what nobody says")
        except OSError:
            return self.shown
        raise AssertionError


@contextmanager
def on_terminal(words: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], Terminal]]:
    ours, theirs = os.openpty()
    try:
        with subprocess.Popen([sys.executable, "-c", ON_TERMINAL, *words], stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            try:
                yield process, Terminal(ours)
            finally:
                process.kill()
    finally:
        os.close(ours)


@pytest.mark.full(seconds=40)
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_pipeline_shows_one_changing_line_on_a_terminal_and_signals_end_it_well(topics: Topics, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
    try:
        java_home()
    except NoJava as missing:
        pytest.skip(str(missing))
    topic = topics.make(1)
    words = [sys.executable, "-m", "ottla.cli.main", "pipeline", "archive", topic, str(tmp_path), "--every", "0.2"]
    words += ["--bootstrap-server", topics.address]
    topics.produce(topic, [{"value": str(number)} for number in range(20)])
    with on_terminal(words) as (process, terminal):
        terminal.wait_for("20 in all   lag 0")
        topics.produce(topic, [{"value": str(number)} for number in range(20, 30)])
        terminal.wait_for("30 in all   lag 0")
        terminal.type(CTRL_C)
        shown = terminal.rest()
        assert process.wait() == 0, shown
    changing, last = shown.strip().split("\r\n")
    first, second = changing.split("\r")
    assert first.startswith("archive      0          20 rows")
    assert second.startswith("archive      1          10 rows")
    assert last.startswith("Done: 30 rows in ")

    topics.produce(topic, [{"value": "30"}])
    piped = subprocess.PIPE
    with subprocess.Popen([*words, "--json"], stdout=piped, stderr=piped, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["rows"] == 1
        os.killpg(process.pid, signal.SIGTERM)  # as systemd and timeout(1) do: its Java gets it, too
        assert (process.stderr.read(), process.wait()) == ("", 0)
    files = sorted(map(str, tmp_path.glob("topic=*/date=*/*.parquet")))
    values = dataset.dataset(files, format="parquet").to_table(["value"]).column(0).to_pylist()
    assert sorted(map(int, values)) == list(range(31))
