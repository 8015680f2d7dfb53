"""A real Prometheus scrapes a broker under load: each expression of the Grafana board has data."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.monitoring.server import MetricsServer
from tests.support.http_answers import request
from tests.support.waiting import eventually
from tools.grafana_board import ROWS

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
needs_prometheus = pytest.mark.skipif(PROMETHEUS is None, reason="Debian's package prometheus is not installed")

CONFIG = """\
global:
  scrape_interval: 1s
  scrape_timeout: 1s
scrape_configs:
  - job_name: ottla
    static_configs:
      - targets: ["{target}"]
"""


@contextmanager
def prometheus(directory: Path, target: str) -> Iterator[str]:
    """Run Prometheus with one target, and yield its address."""
    assert PROMETHEUS is not None
    config = directory / "prometheus.yml"
    config.write_text(CONFIG.format(target=target))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = (
        PROMETHEUS,
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address={address}",
    )
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield address
    finally:
        process.terminate()
        process.wait(30)


def ask(address: str, path: str, **parameters: str) -> Any:
    """Return the data of an answer of Prometheus's API; None while it does not answer."""
    try:
        answer = request(f"http://{address}", f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}").json()
    except (ConnectionRefusedError, json.JSONDecodeError):
        return None
    assert answer["status"] == "success", answer
    return answer["data"]


@contextmanager
def load(address: str) -> Iterator[None]:
    """Write and read records, with a group and a transaction, until the end of the `with`."""
    stop = threading.Event()

    def write() -> None:
        with ottla.Producer(address, transactional_id="loader") as producer:
            while not stop.is_set():
                with producer.transaction():
                    for _ in range(10):
                        producer.send("loaded", value=bytes(100))

    def read() -> None:
        with ottla.Consumer("loaded", bootstrap_servers=address, group_id="readers", auto_offset_reset="earliest") as consumer:
            while not stop.is_set():
                consumer.poll(100)
                consumer.commit()

    threads = [threading.Thread(target=work) for work in (write, read)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def filled(expression: str) -> str:
    """Return an expression with values for Grafana's variables."""
    for name in ("instance", "topic", "group", "request"):
        expression = expression.replace(f"${name}", ".*")
    return expression.replace("$__rate_interval", "5s")


@needs_prometheus
@pytest.mark.full(seconds=15)
def test_each_panel_of_the_board_has_data_of_a_broker_under_load(tmp_path: Path) -> None:
    expressions = [filled(expression) for _, panels in ROWS for panel in panels for expression, _ in panel.targets]
    missing = dict.fromkeys(expressions)

    def has_all() -> bool:
        for expression in list(missing):
            data = ask(address, "query", query=expression)
            if any(row["value"][1] != "NaN" for row in data["result"]):
                del missing[expression]
        return not missing

    with (
        ottla.Broker(ottla_metrics_enable=True) as broker,
        MetricsServer(broker, "127.0.0.1:0") as server,
        load(broker.address),
        prometheus(tmp_path, server.url.removeprefix("http://")) as address,
    ):
        eventually(lambda: ask(address, "targets") is not None, timeout_s=60)
        with suppress(AssertionError):
            eventually(has_all, timeout_s=40)
        (target,) = ask(address, "targets")["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
    assert not list(missing), "these have no data"


@pytest.mark.skipif(PROMTOOL is None, reason="Debian's package prometheus is not installed")
def test_promtool_reads_the_text_and_warns_only_of_names_that_kafka_has(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    with ottla.Broker(ottla_metrics_enable=True) as broker, MetricsServer(broker, "127.0.0.1:0") as server:
        with ottla.Producer(broker.address) as producer:
            producer.send("checked", value=b"1").result(30)
        text = request(server.url, "/metrics").text
    checked = subprocess.run((PROMTOOL, "check", "metrics"), input=text.encode(), capture_output=True, timeout=60, check=False)
    warnings = [line for line in checked.stderr.decode().splitlines() if not line.startswith("kafka_")]
    assert (warnings, checked.returncode) in (([], 0), ([], 3))
