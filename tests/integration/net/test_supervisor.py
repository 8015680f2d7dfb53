"""Brokers of one host as processes: what is stopped stays stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import eventually

RUN = """
import asyncio, sys
from ottla.net.process.supervisor import supervise
asyncio.run(supervise([["sh", "-c", script] for script in sys.argv[1:]], lambda: print("up", flush=True)))
"""


@pytest.mark.parametrize("dies_first", [True, False])
def test_a_stop_within_the_pause_of_a_restart_leaves_no_broker_running(tmp_path: Path, dies_first: bool) -> None:
    starts = tmp_path / "starts"
    dies = f"echo $$ >> {starts}; echo up; sleep 0.3"
    stops_slowly = "trap 'sleep 1.5; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    scripts = [dies, stops_slowly] if dies_first else [stops_slowly, dies]
    with subprocess.Popen([sys.executable, "-c", RUN, *scripts], stderr=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stderr is not None
        try:
            eventually(lambda: starts.exists() and starts.read_text().endswith("\n"))  # the shell creates it, and writes later
            first = int(starts.read_text().split()[0])
            eventually(lambda: not _is_there(first))
            supervisor.send_signal(signal.SIGTERM)
            assert supervisor.wait(30) == 0
        finally:
            supervisor.kill()
    started = [int(word) for word in starts.read_text().split()]
    assert not any(map(_is_there, started))
    assert len(started) == 1


def _is_there(process_id: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
