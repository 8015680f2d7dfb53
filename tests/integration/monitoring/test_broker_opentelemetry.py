"""A broker's metrics in OpenTelemetry's SDK, and the setting that exports them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import ottla
from ottla.monitoring.opentelemetry import NEEDED, BrokerMetering


def values(reader: InMemoryMetricReader) -> dict[tuple[str, frozenset[tuple[str, Any]]], float]:
    """Return all collected values, by name and attributes."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (metric.name, frozenset((point.attributes or {}).items())): point.value  # type: ignore[union-attr]  # only sums and gauges
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def test_an_sdk_collects_the_metrics_of_a_broker_with_their_labels() -> None:
    reader = InMemoryMetricReader()
    with ottla.Broker(ottla_metrics_enable=True) as broker:
        BrokerMetering(broker.metrics(), MeterProvider([reader]))
        with ottla.Producer(broker.address) as producer:
            producer.send("observed", value=b"1").result(30)
        found = values(reader)
    assert found["kafka_server_brokertopicmetrics_messagesin", frozenset({("topic", "observed")})] == 1
    assert found["kafka_controller_kafkacontroller_activecontrollercount", frozenset()] == 1
    assert found["kafka_network_requestmetrics_totaltimems_count", frozenset({("request", "Produce")})] == 1
    assert found["kafka_network_requestmetrics_totaltimems", frozenset({("request", "Produce"), ("quantile", "0.99")})] > 0
    stage = {("request", "Produce"), ("stage", "total")}
    assert found["ottla_request_stage_seconds_bucket", frozenset({*stage, ("le", "+Inf")})] == 1
    assert found["ottla_request_stage_seconds_sum", frozenset(stage)] > 0


def test_a_broker_that_has_stopped_is_observed_no_more() -> None:
    reader = InMemoryMetricReader()
    with ottla.Broker() as broker:
        BrokerMetering(broker.metrics(), MeterProvider([reader]))
    data = reader.get_metrics_data()
    assert data is None or not data.resource_metrics


def test_the_setting_without_an_exporter_ends_the_start_with_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry")
    if not _lacks_exporter():
        pytest.skip("an exporter of OpenTelemetry is installed")
    command = (sys.executable, "-m", "ottla", "serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    setting = ("--set", "ottla.opentelemetry.enable=true")
    ended = subprocess.run((*command, *setting), capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (2, f"ottla: {NEEDED}\n")


def _lacks_exporter() -> bool:
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: F401 # only whether it is there
    except ImportError:
        return True
    return False
