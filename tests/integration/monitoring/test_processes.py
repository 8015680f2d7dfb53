"""Metrics of several brokers in processes of one host: each has a port of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.http_answers import request
from tests.support.ports import ports_in_a_row
from tests.support.waiting import eventually

pytest.importorskip("prometheus_client")


def read(port: int, path: str) -> str:
    """Return a page, empty while nobody answers or the answer is an error."""
    try:
        answer = request(f"http://127.0.0.1:{port}", path)
    except ConnectionRefusedError:
        return ""
    return answer.text if answer.status == 200 else ""


@pytest.mark.full(seconds=5)
def test_each_process_shows_its_own_metrics_and_one_is_the_controller(tmp_path: Path) -> None:
    port = ports_in_a_row()
    words = ("serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--processes", "2")
    command = (sys.executable, "-m", "ottla", *words, "--metrics", f"127.0.0.1:{port}")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for each in (port, port + 1):
                assert eventually(lambda each=each: read(each, "/ready"), timeout_s=60)  # type: ignore[misc]  # bound at once
            active = "kafka_controller_kafkacontroller_activecontrollercount "
            pages = [read(each, "/metrics") for each in (port, port + 1)]
            assert sorted(page.partition(f"\n{active}")[2][:1] for page in pages) == ["0", "1"]
            assert [f'node_id="{number}"' in page for number, page in enumerate(pages, 1)] == [True, True]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
