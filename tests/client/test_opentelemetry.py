"""Spans and metrics of clients in OpenTelemetry's SDK: from `send` over the header `traceparent` to the processing of a record."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import ottla
from ottla.client.metrics.registry import Metric
from tests.support.peers import Peer


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def spans(exporter: InMemorySpanExporter, operation: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name.startswith(f"{operation} ")]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_record_carries_the_context_of_its_span_to_its_processing(
    broker: Peer, topic: str, exporter: InMemorySpanExporter, provider: TracerProvider, unique: Callable[[str], str]
) -> None:
    tracing = ottla.Tracing(provider, attributes={"messaging.consumer.group.name": "board"})
    with ottla.Producer(broker.address, interceptors=[tracing]) as producer:
        headers = [("traceparent", b"older"), ("source", b"tower")]
        written = producer.send(topic, b"value", key=b"JFK", headers=headers).result(20)
    (sent,) = spans(exporter, "send")
    assert (sent.name, sent.kind, sent.status.status_code) == (f"send {topic}", SpanKind.PRODUCER, StatusCode.UNSET)
    assert attributes(sent) == {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": "board",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(written.partition),
        "messaging.kafka.message.key": "JFK",
        "messaging.kafka.offset": 0,
        "messaging.message.body.size": 5,
    }
    with ottla.Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", interceptors=[tracing]) as consumer:
        (record,) = consumer.poll(20_000)
        names = [name for name, _ in record.headers]
        assert names == ["source", "traceparent"]
        with tracing.process(record) as span:
            span.set_attribute("gate", 12)
        with pytest.raises(ZeroDivisionError), provider.get_tracer("mine").start_as_current_span("batch"), tracing.process(record):
            raise ZeroDivisionError
    (polled,) = spans(exporter, "poll")
    assert (polled.kind, attributes(polled)["messaging.batch.message_count"]) == (SpanKind.CLIENT, 1)
    assert sent.context is not None
    assert [link.context.span_id for link in polled.links] == [sent.context.span_id]
    processed, failed = spans(exporter, "process")
    assert processed.parent is not None
    assert processed.parent.span_id == sent.context.span_id
    assert processed.context is not None
    assert processed.context.trace_id == sent.context.trace_id
    assert (processed.kind, attributes(processed)["gate"]) == (SpanKind.CONSUMER, 12)
    assert failed.parent is not None
    assert failed.parent.span_id != sent.context.span_id  # there was a current span
    assert [link.context.span_id for link in failed.links] == [sent.context.span_id]
    assert (failed.status.status_code, attributes(failed)["error.type"]) == (StatusCode.ERROR, "ZeroDivisionError")


def test_the_span_of_a_record_that_is_refused_has_its_error(
    broker: Peer, topic: str, exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    with (
        ottla.Producer(broker.address, interceptors=[ottla.Tracing(provider)], max_request_size=1_000) as producer,
        pytest.raises(ottla.BrokerError),
    ):
        producer.send(topic, b"v" * 2_000)
    (sent,) = spans(exporter, "send")
    assert (sent.status.status_code, attributes(sent)["error.type"]) == (StatusCode.ERROR, "BrokerError")
    assert sent.events[0].name == "exception"


def test_no_span_stays_open_when_the_headers_are_none(
    broker: Peer, topic: str, exporter: InMemorySpanExporter, provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    wrong: list[Any] = [[("a",)], [5], [(b"a", b"b")]]
    with ottla.Producer(broker.address, interceptors=[ottla.Tracing(provider)]) as producer:
        for headers in wrong:
            with pytest.raises(TypeError, match="headers are pairs"):
                producer.send(topic, b"v", headers=headers)
    assert [span.status.status_code for span in spans(exporter, "send")] == [StatusCode.ERROR] * len(wrong)
    assert "failed" not in caplog.text


def test_snapshots_become_counters_and_gauges() -> None:
    reader = InMemoryMetricReader()
    metering = ottla.Metering(MeterProvider([reader]))
    for sent in (3, 5):
        tags = {"client-id": "me", "topic": "flights"}
        metering(
            ottla.MetricsSnapshot(
                "me",
                0,
                [
                    Metric("producer-topic-metrics", "record-send-total", tags, sent, "sum"),
                    Metric("producer-metrics", "batch-size-avg", {"client-id": "me"}, sent * 10, "gauge"),
                    Metric("producer-metrics", "batch-size-max", {"client-id": "me"}, float("nan"), "gauge"),
                ],
            )
        )
    data = reader.get_metrics_data()
    assert data is not None
    metrics = {each.name: each for resource in data.resource_metrics for scope in resource.scope_metrics for each in scope.metrics}
    assert metrics.keys() == {"org.apache.kafka.producer.topic.record.send.total", "org.apache.kafka.producer.batch.size.avg"}
    (point,) = metrics["org.apache.kafka.producer.topic.record.send.total"].data.data_points
    assert (getattr(point, "value", None), dict(point.attributes or {})) == (5, {"client_id": "me", "topic": "flights"})
    (point,) = metrics["org.apache.kafka.producer.batch.size.avg"].data.data_points
    assert getattr(point, "value", None) == 50


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for kind in (ottla.Tracing, ottla.Metering):
        with pytest.raises(ImportError, match=r"ottla\[opentelemetry\]"):
            kind()
