"""A broker that measures its requests and syncs: what it counts, what it logs, and that others measure nothing."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from struct import pack

import pytest

import ottla
from ottla.broker.metrics.declaration import Distribution, MetricRows, Value
from ottla.net.server.measured_connection import MeasuredConnection
from ottla.net.server.metrics_source import MetricsSource
from tests.support.waiting import eventually

WAIT_S = 30


@pytest.fixture
def measured() -> Iterator[ottla.Broker]:
    with ottla.Broker(ottla_metrics_enable=True) as broker:
        yield broker


@pytest.fixture
def source(measured: ottla.Broker) -> MetricsSource:
    return measured.metrics()


def value(source: MetricsSource, name: str, *labels: str) -> Value:
    """Return a value of a new snapshot, 0 if there is none."""
    found: MetricRows = source.snapshot().result(WAIT_S)
    return next((value for metric, rows in found.rows.items() if metric.name == name for row, value in rows if row == labels), 0)


def number(source: MetricsSource, name: str, *labels: str) -> float:
    found = value(source, name, *labels)
    assert not isinstance(found, Distribution)
    return found


def count(source: MetricsSource, api: str, stage: str) -> int:
    found = value(source, "ottla_request_stage_seconds", api, stage)
    return found.count if isinstance(found, Distribution) else 0


def syncs(source: MetricsSource, kind: str) -> int:
    found = value(source, "ottla_sync_seconds", kind)
    return found.count if isinstance(found, Distribution) else 0


def produce(broker: ottla.Broker, topic: str, count: int) -> None:
    with ottla.Producer(broker.address, linger_ms=0) as producer:
        for number in range(count):
            producer.send(topic, value=b"%d" % number).result(WAIT_S)


def test_records_and_bytes_of_a_topic_are_counted_in_and_out(measured: ottla.Broker, source: MetricsSource) -> None:
    produce(measured, "counted", 7)
    consumer = ottla.Consumer("counted", bootstrap_servers=measured.address, group_id="counters", auto_offset_reset="earliest")
    with consumer:
        assert len([record for _, record in zip(range(7), consumer, strict=False)]) == 7
        consumer.commit()
    topics = "kafka_server_brokertopicmetrics_"
    eventually(lambda: number(source, f"{topics}messagesin_total", "counted") == 7)
    size = number(source, f"{topics}bytesin_total", "counted")
    assert size == number(source, "kafka_log_log_size", "counted", "0") > 0
    assert number(source, f"{topics}bytesout_total", "counted") >= size
    assert number(source, f"{topics}totalproducerequests_total", "counted") == 7
    assert number(source, f"{topics}messagesin_total") >= 7
    assert number(source, "kafka_topic_partition_current_offset", "counted", "0") == 7
    eventually(lambda: number(measured.metrics(), "kafka_consumergroup_current_offset", "counters", "counted", "0") == 7)
    produce(measured, "counted", 3)
    eventually(lambda: number(measured.metrics(), "kafka_consumergroup_lag", "counters", "counted", "0") == 3)
    eventually(lambda: number(measured.metrics(), "kafka_consumergroup_lag_sum", "counters", "counted") == 3)


def test_a_deleted_topic_stays_in_the_sums_of_all_topics(measured: ottla.Broker, source: MetricsSource) -> None:
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    produce(measured, "short-lived", 5)
    eventually(lambda: number(source, name, "short-lived") == 5)
    before = number(source, name)
    with ottla.Admin(measured.address) as admin:
        admin.delete_topics("short-lived")
    eventually(lambda: number(source, name, "short-lived") == 0)
    assert number(source, name) == before


def test_a_request_is_counted_in_each_of_its_stages(measured: ottla.Broker, source: MetricsSource) -> None:
    before = {stage: count(source, "Produce", stage) for stage in ("queue", "local", "sync", "remote", "total", "send")}
    produce(measured, "staged", 4)
    eventually(lambda: count(source, "Produce", "total") == before["total"] + 4)
    found = {stage: count(source, "Produce", stage) - before[stage] for stage in before}
    assert found["queue"] == found["local"] == found["sync"] == 4
    assert found["remote"] == 0
    assert 1 <= found["send"] <= 4
    total = value(source, "kafka_network_requestmetrics_totaltimems", "Produce")
    assert isinstance(total, Distribution)
    assert total.sum_s > 0
    assert total.quantiles[-1][1] >= total.quantiles[0][1] > 0
    eventually(lambda: syncs(source, "file") > 0)  # there is no journal before the first acks=all


def test_writes_into_the_journal_are_measured(measured: ottla.Broker, source: MetricsSource) -> None:
    def is_written() -> bool:
        produce(measured, "journaled", 1)
        return syncs(source, "journal") > 0

    eventually(is_written)
    assert syncs(source, "file") > 0  # of the records before the journal was there


def meters(source: MetricsSource) -> set[tuple[str, ...]]:
    """Return the APIs and versions of all requests so far."""
    found = source.snapshot().result(WAIT_S).rows.items()
    return {row for metric, rows in found if metric.name == "kafka_network_requestmetrics_requests_total" for row, _ in rows}


def test_a_client_with_numbers_of_its_own_gets_no_meters(measured: ottla.Broker, source: MetricsSource) -> None:
    host, port = measured.address.split(":")
    before = {
        row for metric, rows in source.snapshot().result(WAIT_S).rows.items() for row, _ in rows if "requests_total" in metric.name
    }
    for key, version in ((0x0103, 1), (200, 3), (3, 200), (3, -1), (-1, 0)):
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as client:
            frame = pack(">hhih", key, version, 7, -1)
            client.sendall(pack(">i", len(frame)) + frame)
            assert client.recv(1) == b""
    for frame in (b"", b"\0", b"\0\3\0"):
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as client:
            client.sendall(pack(">i", len(frame)) + frame)
            assert client.recv(1) == b""
    eventually(lambda: number(source, "kafka_network_requestmetrics_requests_total", "other", "0") >= 8)
    after = {
        row for metric, rows in source.snapshot().result(WAIT_S).rows.items() for row, _ in rows if "requests_total" in metric.name
    }
    assert after - before <= {("other", "0")}


def test_connections_and_idle_time_are_shown(measured: ottla.Broker, source: MetricsSource) -> None:
    host, port = measured.address.split(":")
    before = number(source, "kafka_server_socket_server_metrics_connection_creation_total")
    with socket.create_connection((host, int(port)), timeout=WAIT_S):
        eventually(lambda: number(source, "kafka_server_socket_server_metrics_connection_creation_total") > before)
        assert number(source, "kafka_server_socket_server_metrics_connection_count", "PLAINTEXT") >= 1
    assert 0 <= number(source, "kafka_network_socketserver_networkprocessoravgidle_percent") <= 1
    assert number(source, "ottla_broker_thread_cpu_seconds_total") > 0
    assert number(source, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert number(source, "kafka_server_kafkaserver_brokerstate") == 3


def test_two_brokers_of_one_process_count_for_themselves(measured: ottla.Broker, source: MetricsSource) -> None:
    with ottla.Broker(ottla_metrics_enable=True) as other:
        produce(other, "elsewhere", 2)
        name = "kafka_server_brokertopicmetrics_messagesin_total"
        eventually(lambda: number(other.metrics(), name, "elsewhere") == 2)
        assert number(source, name, "elsewhere") == 0
        assert count(other.metrics(), "Produce", "total") == 2


def test_a_broker_without_the_setting_measures_no_request_and_counts_records_all_the_same() -> None:
    with ottla.Broker() as broker:
        produce(broker, "plain", 2)
        source = broker.metrics()
        assert number(source, "kafka_server_brokertopicmetrics_messagesin_total", "plain") == 2
        assert count(source, "Produce", "total") == 0
        running = broker._running
        assert running is not None
        assert not any(isinstance(each, MeasuredConnection) for each in running.server._connections)


def test_readiness_names_what_is_missing(measured: ottla.Broker, source: MetricsSource) -> None:
    assert source.readiness().result(WAIT_S).is_ready
    assert source.answer().result(WAIT_S) < WAIT_S


def test_a_source_of_a_stopped_broker_fails_with_one_sentence() -> None:
    with ottla.Broker() as broker:
        source = broker.metrics()
        source.snapshot().result(WAIT_S)
    with pytest.raises(Exception, match="broker"):
        source.snapshot().result(WAIT_S)


def test_a_snapshot_is_taken_while_clients_keep_the_broker_busy(measured: ottla.Broker, source: MetricsSource) -> None:
    stop = threading.Event()

    def write() -> None:
        with ottla.Producer(measured.address) as producer:
            while not stop.is_set():
                producer.send("busy", value=bytes(1000))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            assert source.snapshot().result(WAIT_S).rows
    finally:
        stop.set()
        writer.join(WAIT_S)


def test_a_slow_request_is_logged_with_its_stages(caplog: pytest.LogCaptureFixture) -> None:
    with ottla.Broker(ottla_slow_request_ms=1) as broker, caplog.at_level(logging.WARNING, "ottla.net"):
        running = broker._running
        assert running is not None
        assert running.server.meters is not None
        running.server.meters.slow_ns = 1  # every request is slow
        with ottla.Producer(broker.address, client_id="snail") as producer:
            producer.send("slow", value=b"1").result(WAIT_S)
        eventually(lambda: any("Produce version" in each.getMessage() for each in caplog.records))
        (line, *_) = [each.getMessage() for each in caplog.records if "Produce version" in each.getMessage()]
    assert "slow request: Produce version" in line
    assert "of client 'snail', 127.0.0.1:" in line
    assert "as User:ANONYMOUS, took" in line
    assert "queue" in line
    assert "local" in line
    assert "remote 0.0, sync" in line
