"""/metrics, /health and /ready of a broker over HTTP, with real sockets."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import ottla
from ottla.broker.metrics.declaration import MetricRows
from ottla.monitoring.app import MonitoringPages
from ottla.monitoring.server import MetricsServer
from ottla.net.server.exception_boundary import BrokerFailed
from ottla.testing import BrokerProcess
from ottla.web.address import WebAddress
from ottla.web.server import WebServer
from tests.support.http_answers import request
from tests.support.waiting import eventually

pytest.importorskip("prometheus_client")
HERE = "127.0.0.1:0"
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(ottla_metrics_enable=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def url(broker: ottla.Broker) -> Iterator[str]:
    with MetricsServer(broker, HERE) as server:
        yield server.url


def test_metrics_are_text_of_prometheus_that_its_parser_reads(broker: ottla.Broker, url: str) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    with ottla.Producer(broker.address) as producer:
        producer.send("shown", value=b"1").result(30)
    eventually(lambda: '{topic="shown"}' in request(url, "/metrics").text)  # a snapshot is shared for half a second
    status, headers, text = request(url, "/metrics")
    assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    families = {each.name: each for each in text_string_to_metric_families(text)}
    (messages,) = [
        each for each in families["kafka_server_brokertopicmetrics_messagesin"].samples if each.labels == {"topic": "shown"}
    ]
    assert messages.value == 1
    times = families["kafka_network_requestmetrics_totaltimems"].samples
    quantiles = {each.labels.get("quantile") for each in times if each.labels.get("request") == "Produce"}
    assert quantiles == {"0.5", "0.75", "0.95", "0.98", "0.99", "0.999", None}


def test_names_that_clients_choose_are_labels_and_nothing_else(broker: ottla.Broker, url: str) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    chosen = {'a"b\\c\nd', "<script>alert(1)</script>", "}{,=\t\r ", "ключ 🗝"}
    with ottla.Producer(broker.address) as producer:
        producer.send("named", value=b"1").result(30)
    with ottla.Admin(broker.address) as admin:
        for group in chosen:
            admin.alter_group_offsets(group, {("named", 0): 1})

    def groups() -> set[str]:
        families = text_string_to_metric_families(request(url, "/metrics").text)
        return {sample.labels.get("consumergroup", "") for family in families for sample in family.samples}

    eventually(lambda: chosen <= groups())  # groups are read again after 5 s
    assert "<script>alert(1)</script>" in request(url, "/metrics").text, "nothing in a label is HTML there"


def test_all_that_ask_at_the_same_time_are_answered(url: str) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: request(url, "/metrics"), range(60)))
    assert {status for status, _, _ in answers} == {200}
    assert all(int(headers["content-length"]) == len(text.encode()) for _, headers, text in answers)


def test_a_client_that_prefers_openmetrics_gets_it(url: str) -> None:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    status, headers, text = request(
        url, "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
    )
    assert (status, headers["content-type"]) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert len(list(text_string_to_metric_families(text))) > 40  # type: ignore[no-untyped-call]  # prometheus_client has no annotation there


def test_health_and_readiness_are_json(url: str) -> None:
    status, _, text = request(url, "/health")
    assert (status, json.loads(text)["status"]) == (200, "up")
    answer = request(url, "/ready")
    status, found = answer.status, answer.json()
    assert (status, found["status"], found["offline"]) == (200, "ready", [])
    assert request(url, "/").status == 200
    assert request(url, "/other").status == 404


def test_a_page_of_another_site_cannot_read_metrics_by_a_name_that_leads_here(url: str) -> None:
    assert request(url, "/metrics", headers={"Host": "evil.example"}).status == 421


def test_a_broker_with_an_offline_partition_is_not_ready_and_names_it(broker: ottla.Broker, url: str) -> None:
    with ottla.Producer(broker.address) as producer:
        producer.send("broken", value=b"1").result(30)
    running = broker._running
    assert running is not None
    partition = running.broker.partitions.get("broken", 0)
    assert partition is not None
    running.server._loop.call_soon_threadsafe(partition.fail_offline, "a test")
    eventually(lambda: partition.offline is not None)
    answer = request(url, "/ready")
    status, found = answer.status, answer.json()
    assert (status, found["status"], found["offline"]) == (503, "not ready", ["broken-0"])
    assert "1 partitions are offline, such as broken-0" in found["reasons"][0]
    eventually(lambda: "kafka_server_replicamanager_offlinereplicacount 1\n" in request(url, "/metrics").text)
    with ottla.Admin(broker.address) as admin:
        admin.delete_topics("broken")
    eventually(lambda: request(url, "/ready").status == 200)


class Silent:
    """A source whose broker never answers, or has ended."""

    def __init__(self, failure: Exception | None = None) -> None:
        self._failure = failure

    def _future(self) -> Future[MetricRows]:
        future: Future[MetricRows] = Future()
        if self._failure is not None:
            future.set_exception(self._failure)
        return future

    snapshot = answer = readiness = _future


@pytest.mark.parametrize("path", ["/metrics", "/health", "/ready"])
@pytest.mark.parametrize(
    ("failure", "sentence"),
    [(None, "did not answer within 0.1 s"), (BrokerFailed(), "The broker has ended because of a bug in it")],
)
def test_a_broker_that_does_not_answer_costs_one_sentence(path: str, failure: Exception | None, sentence: str) -> None:
    from starlette.applications import Starlette

    pages = MonitoringPages(Silent(failure), patience_s=0.1, answer_s=0.1)  # type: ignore[arg-type]  # the same three methods
    with WebServer(Starlette(routes=pages.routes()), WebAddress("127.0.0.1", 0), name="metrics server") as server:
        status, _, text = request(server.url, path)
    assert status == 503
    assert sentence in text


def test_a_stopped_broker_leaves_a_server_that_says_so() -> None:
    broker = ottla.Broker()
    with broker:
        server = MetricsServer(broker, HERE)
        server.__enter__()
        assert request(server.url, "/health").status == 200
    try:
        assert request(server.url, "/health").status == 503
    finally:
        server.__exit__(None, None, None)


def test_serve_shows_metrics_and_stops_cleanly(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with BrokerProcess(str(tmp_path / "data"), arguments=("--metrics", f"127.0.0.1:{port}")) as process:
        url = f"http://127.0.0.1:{port}"
        assert eventually(lambda: is_there(url))
        assert request(url, "/ready").status == 200
        assert "kafka_controller_kafkacontroller_activecontrollercount 1" in request(url, "/metrics").text
        process.stop()
        assert not is_there(url)


def is_there(url: str) -> bool:
    try:
        return request(url, "/health").status == 200
    except ConnectionRefusedError:
        return False


def serve(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "ottla", "serve", "--data-dir", str(tmp_path / "data"), "--listen", HERE, *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_port_in_use_ends_the_start_with_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = serve(tmp_path, "--metrics", f"127.0.0.1:{taken.getsockname()[1]}")
    assert ended.returncode == 1
    assert "The metrics server cannot listen on 127.0.0.1:" in ended.stderr
    assert "choose another port with --metrics." in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_address_that_is_none_ends_the_start_with_one_sentence(tmp_path: Path) -> None:
    ended = serve(tmp_path, "--metrics", "9404")
    assert (ended.returncode, ended.stderr) == (
        2,
        "ottla: --metrics: '9404' is not an address: write HOST:PORT, such as 127.0.0.1:8080.\n",
    )
