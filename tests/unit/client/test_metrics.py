"""Samples over windows as Kafka's clients take them, and snapshots of a client's metrics."""

from __future__ import annotations

from math import isnan

import pytest

from ottla.client.metrics.connections import ConnectionMetrics
from ottla.client.metrics.consumer import FetchMetrics, GroupMetrics, PartitionState, PollMetrics
from ottla.client.metrics.producer import ProducerMetrics
from ottla.client.metrics.registry import MetricsRegistry, event_names, extreme_names, sum_names
from ottla.client.metrics.samples import Samples, Sampling
from ottla.client.producer.partition_queue import Outgoing
from ottla.client.types import TopicPartition

WHERE = TopicPartition("flights", 1)


def registry(kind: str = "producer") -> MetricsRegistry:
    return MetricsRegistry("me", kind, Sampling(), 0)


def test_a_rate_counts_the_windows_that_are_not_over_as_whole_but_for_the_last() -> None:
    samples = Samples(Sampling(window_ms=30_000, windows=2), 0)
    samples.record(60, 0)
    assert samples.rate(0) == pytest.approx(2)  # over one whole window
    assert samples.rate(15_000) == pytest.approx(60 / 45)
    assert samples.rate(45_000) == pytest.approx(60 / 45)
    assert samples.frequency(45_000) == pytest.approx(1 / 45)


def test_values_count_until_their_window_is_two_windows_old() -> None:
    samples = Samples(Sampling(window_ms=30_000, windows=2), 0)
    samples.record(10, 1_000)
    samples.record(2, 31_000)
    assert (samples.average(31_000), samples.most(31_000), samples.least(31_000)) == (6, 10, 2)
    assert samples.rate(45_000) == pytest.approx(12 / 45)
    assert (samples.average(60_000), samples.most(60_000), samples.least(60_000)) == (2, 2, 2)
    assert isnan(samples.average(91_000))
    assert samples.rate(91_000) == 0
    assert (samples.total, samples.count, samples.last_ms) == (12, 2, 31_000)


def test_one_window_alone_is_as_long_as_it_has_lasted() -> None:
    samples = Samples(Sampling(window_ms=1_000, windows=1), 0)
    samples.record(5, 0)
    assert samples.rate(0) == 0
    assert samples.rate(500) == pytest.approx(10)


def test_a_snapshot_finds_metrics_by_name_group_and_tags() -> None:
    made = registry()
    made.samples("producer-metrics", sum_names("byte")).record(100, 0)
    made.samples("producer-topic-metrics", sum_names("byte"), topic="flights").record(70, 0)
    made.samples("producer-topic-metrics", sum_names("byte"), topic="gates").record(30, 0)
    made.samples("producer-metrics", extreme_names("latency"))
    snapshot = made.snapshot(0, 1_700_000_000_000)
    assert snapshot.time_ms == 1_700_000_000_000
    assert snapshot.value("byte-total") == 100
    assert snapshot.value("byte-total", topic="gates") == 30
    assert [metric.tags["topic"] for metric in snapshot.find("byte-total", group="producer-topic-metrics")] == ["flights", "gates"]
    assert {metric.tags["client-id"] for metric in snapshot} == {"me"}
    assert isnan(snapshot.value("latency-avg"))
    with pytest.raises(KeyError, match="no metric nothing"):
        snapshot.value("nothing")
    assert snapshot.as_dict() == {
        "producer-metrics": {"byte-rate": pytest.approx(100 / 30), "byte-total": 100},
        "producer-topic-metrics": {
            "byte-rate{topic=flights}": pytest.approx(70 / 30),
            "byte-total{topic=flights}": 70,
            "byte-rate{topic=gates}": 1.0,
            "byte-total{topic=gates}": 30,
        },
        "app-info": {"start-time-ms": 1_700_000_000_000},
        "kafka-metrics-count": {"count": len(snapshot)},
    }


def test_samples_of_one_name_are_registered_once() -> None:
    made = registry()
    assert made.samples("g", event_names("join")) is made.samples("g", event_names("join"))
    assert made.samples("g", event_names("join"), topic="a") is not made.samples("g", event_names("join"))


def test_connections_count_requests_of_each_broker_and_of_all() -> None:
    made = registry()
    connections = ConnectionMetrics(made)
    meter, other = connections.meter(1), connections.meter(-1)
    connections.on_opened(meter, 0, is_secured=True)
    connections.on_opened(other, 0, is_secured=False)
    meter.on_request(50, "a", 10)
    meter.on_request(30, None, 11)
    other.on_request(20, "b", 12)
    assert connections.unanswered == 2
    meter.on_bytes(500, 30)
    meter.on_response("a", 30)
    meter.on_response("unknown", 30)
    snapshot = made.snapshot(30, 0)
    assert snapshot.value("request-total") == 3
    assert snapshot.value("request-total", node_id="node-1") == 2
    assert snapshot.value("outgoing-byte-total", node_id="node--1") == 20
    assert snapshot.value("request-latency-avg", node_id="node-1") == 20
    assert snapshot.value("response-total") == 1
    assert snapshot.value("incoming-byte-total") == 500
    assert snapshot.value("network-io-total") == 4
    assert snapshot.value("successful-authentication-total") == 1
    assert connections.unanswered == 1
    connections.on_closed(meter, 40)
    connections.on_closed(meter, 41)
    snapshot = made.snapshot(40, 0)
    assert (snapshot.value("connection-count"), snapshot.value("connection-close-total")) == (1, 1)


def test_a_producer_counts_batches_by_topic_and_repeated_ones_as_retries() -> None:
    made = registry()
    metrics = ProducerMetrics(made, delivery_timeout_ms=1_000, in_flight=lambda: 3)
    batch = Outgoing(WHERE, bytearray(200), 10, 1_500)
    metrics.on_encoded(batch, 400, 520)
    metrics.on_request([batch], 530)
    batch.last_refusal = OSError()  # type: ignore[assignment]  # any refusal
    metrics.on_request([batch], 540)
    metrics.on_failed("flights", 10, 550)
    snapshot = made.snapshot(550, 0)
    assert snapshot.value("compression-rate-avg") == 0.5
    assert snapshot.value("record-queue-time-max") == 20
    assert snapshot.value("record-send-total", topic="flights") == 20
    assert snapshot.value("record-retry-total") == 10
    assert snapshot.value("record-error-total", topic="flights") == 10
    assert (snapshot.value("batch-size-avg"), snapshot.value("record-size-avg")) == (200, 20)
    assert snapshot.value("requests-in-flight") == 3


def test_a_consumer_knows_the_largest_lag_of_all_partitions_and_of_each() -> None:
    made = registry("consumer")
    metrics = FetchMetrics(made)
    metrics.on_fetch(7, 0, {"flights": 1_000}, 0)
    metrics.on_chunk(WHERE, 10, 900, PartitionState(90, 10, -1), 1)
    metrics.on_chunk(WHERE, 20, 100, PartitionState(70, 30, 2), 2)
    snapshot = made.snapshot(3, 0)
    assert snapshot.value("records-consumed-total") == 30
    assert snapshot.value("bytes-consumed-total", topic="flights") == 1_000
    assert (snapshot.value("records-lag-max"), snapshot.value("records-lead-min")) == (90, 10)
    assert snapshot.value("fetch-size-avg", topic="flights") == 1_000
    found = {metric.name: metric.value for metric in metrics.of_partition(WHERE, PartitionState(60, 40, 2), 3)}
    assert found == {
        "records-lag": 60,
        "records-lag-avg": 80,
        "records-lag-max": 90,
        "records-lead": 40,
        "records-lead-avg": 20,
        "records-lead-min": 10,
        "preferred-read-replica": 2,
    }
    metrics.remove([WHERE])
    found = {metric.name: metric.value for metric in metrics.of_partition(WHERE, PartitionState(None, None, -1), 3)}
    assert isnan(found["records-lag-max"])
    assert isnan(found["records-lag"])


def test_a_rebalance_lasts_from_its_first_request_to_the_assignment() -> None:
    made = registry("consumer")
    metrics = GroupMetrics(made, lambda: 2)
    metrics.begin_rebalance(100)
    metrics.begin_rebalance(200)
    metrics.end_rebalance(350)
    metrics.fail_rebalance(400)
    metrics.begin_rebalance(500)
    metrics.fail_rebalance(600)
    snapshot = made.snapshot(1_350, 0)
    assert (snapshot.value("rebalance-total"), snapshot.value("rebalance-latency-max")) == (1, 250)
    assert (snapshot.value("failed-rebalance-total"), snapshot.value("assigned-partitions")) == (1, 2)
    assert snapshot.value("last-rebalance-seconds-ago") == 1


def test_polls_know_how_long_the_user_takes_between_them() -> None:
    made = registry("consumer")
    metrics = PollMetrics(made)
    metrics.begin(0)
    metrics.end(30)
    metrics.begin(100)
    metrics.end(100)
    snapshot = made.snapshot(300, 0)
    assert snapshot.value("time-between-poll-max") == 100
    assert snapshot.value("poll-idle-ratio-avg") == pytest.approx(0.3)
    assert snapshot.value("last-poll-seconds-ago") == pytest.approx(0.2)
