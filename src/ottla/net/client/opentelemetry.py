"""OpenTelemetry for clients: `Tracing` is an interceptor, and `Metering` a statistics callback.

A program passes both to its clients. So nothing is patched, and other clients pay nothing. Names follow
OpenTelemetry's semantic conventions for messaging. Needs opentelemetry-api (`pip install ottla[opentelemetry]`), which does nothing
without an SDK.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import isnan
from typing import TYPE_CHECKING, Any

from ottla.client.errors import KafkaError
from ottla.client.interceptors import ProducerRecord
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.metrics.telemetry import metric_name
from ottla.client.types import ConsumerRecord, RecordMetadata
from ottla.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, MeterProvider
    from opentelemetry.metrics import _Gauge as Gauge
    from opentelemetry.trace import Link, Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

SCOPE = "ottla"
TRACEPARENT = "traceparent"
MISSING = "needs the API of OpenTelemetry: pip install ottla[opentelemetry]"
Attributes = dict[str, "AttributeValue"]


class Tracing:
    """An interceptor of producers and consumers that makes spans, and carries their context in headers (W3C `traceparent`).

        tracing = Tracing()
        producer = Producer("localhost:9092", interceptors=[tracing])
        consumer = Consumer("flights", interceptors=[tracing])
        for record in consumer:
            with tracing.process(record):
                ...

    A span `send TOPIC` lasts from `send` to the acknowledgement. A span `poll TOPIC` has links to the spans that sent its records.
    `attributes` are added to all spans, such as `messaging.consumer.group.name`. Raises `ImportError` without OpenTelemetry.
    """

    def __init__(
        self, tracer_provider: TracerProvider | None = None, *, attributes: Mapping[str, AttributeValue] | None = None
    ) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise ImportError(f"Tracing {MISSING}") from error
        self._trace = trace
        self._tracer = trace.get_tracer(SCOPE, VERSION, tracer_provider)
        self._propagator = TraceContextTextMapPropagator()
        self._attributes: Attributes = {"messaging.system": "kafka", **(attributes or {})}
        self._sending: dict[bytes, Span] = {}
        """The header `traceparent` of each record that is being sent -> its span."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Begin the span of a record, and write its context into the headers. It replaces an older context."""
        trace = self._trace
        given = list(record.headers or ())  # before the span begins, because they may be no headers at all
        attributes = self._of_operation("send", "send", record.topic) | _of_message(record.key, record.value)
        span = self._tracer.start_span(f"send {record.topic}", kind=trace.SpanKind.PRODUCER, attributes=attributes)
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, trace.set_span_in_context(span))
        if TRACEPARENT not in carrier:  # there is no SDK
            return record
        self._sending[carrier[TRACEPARENT].encode()] = span
        kept = [header for header in given if not (isinstance(header, tuple) and header and header[0] in carrier)]
        return record._replace(headers=[*kept, *((name, text.encode()) for name, text in carrier.items())])

    def on_acknowledgement(self, record: ProducerRecord, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        """End the span of a record."""
        pairs = record.headers if isinstance(record.headers, list) else ()  # as `on_send` made them, unless `send` refused them
        context = next((pair[1] for pair in pairs if isinstance(pair, tuple) and len(pair) == 2 and pair[0] == TRACEPARENT), None)
        span = None if context is None else self._sending.pop(context, None)
        if span is None:
            return
        if metadata is not None:
            span.set_attribute("messaging.destination.partition.id", str(metadata.partition))
            span.set_attribute("messaging.kafka.offset", metadata.offset)
        if error is not None:
            _fail(span, error)
        span.end()

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        """Make a span for the receipt of records."""
        if records:
            first = records[0]
            attributes = self._of_operation("poll", "receive", first.topic)
            attributes["messaging.destination.partition.id"] = str(first.partition)
            attributes["messaging.batch.message_count"] = len(records)
            links = self._links(records)
            kind = self._trace.SpanKind.CLIENT
            self._tracer.start_span(f"poll {first.topic}", kind=kind, attributes=attributes, links=links).end()
        return records

    @contextmanager
    def process(self, record: ConsumerRecord[Any, Any]) -> Iterator[Span]:
        """Return a context manager with the span of a record's processing, which is the current span in the block.

        The span has a link to the span that sent the record, and is its child unless there is already a current span.
        """
        trace = self._trace
        attributes = self._of_operation("process", "process", record.topic) | _of_message(record.key, record.value)
        attributes["messaging.destination.partition.id"] = str(record.partition)
        attributes["messaging.kafka.offset"] = record.offset
        is_child = trace.get_current_span() is trace.INVALID_SPAN
        with self._tracer.start_as_current_span(
            f"process {record.topic}",
            context=self._context(record) if is_child else None,
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=self._links([record]),
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                raise

    def _of_operation(self, name: str, kind: str, topic: str) -> Attributes:
        return {
            **self._attributes,
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
            "messaging.destination.name": topic,
        }

    def _context(self, record: ConsumerRecord[Any, Any]) -> Context:
        """Return the context in a record's headers; an empty context if they have none."""
        from opentelemetry.context import Context

        headers = {name: value.decode(errors="replace") for name, value in record.headers if value is not None}
        return self._propagator.extract(headers, Context())

    def _links(self, records: Iterable[ConsumerRecord[Any, Any]]) -> list[Link]:
        trace = self._trace
        contexts = (trace.get_current_span(self._context(record)).get_span_context() for record in records)
        return [trace.Link(context) for context in contexts if context.is_valid]


def _of_message(key: object, value: object) -> Attributes:
    """Return the attributes for a record's fields: its key if that is text, but never its value."""
    found: Attributes = {}
    if isinstance(key, bytes) and key.isascii():
        key = key.decode()
    if isinstance(key, str | int):
        found["messaging.kafka.message.key"] = str(key)
    if value is None:
        found["messaging.kafka.message.tombstone"] = True
    elif isinstance(value, bytes):
        found["messaging.message.body.size"] = len(value)
    return found


def _fail(span: Span, error: KafkaError) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.record_exception(error)
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(Status(StatusCode.ERROR, str(error)))


class Metering:
    """A statistics callback that passes a client's metrics to OpenTelemetry: `Producer(on_statistics=Metering())`.

    Names are those of KIP-714, such as `org.apache.kafka.producer.record.send.total`. Sums become counters, all others gauges.
    Raises `ImportError` without OpenTelemetry.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        try:
            from opentelemetry import metrics
        except ImportError as error:
            raise ImportError(f"Metering {MISSING}") from error
        self._meter = metrics.get_meter(SCOPE, VERSION, meter_provider)
        self._gauges: dict[str, Gauge] = {}
        self._counters: dict[str, Counter] = {}
        self._totals: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}

    def __call__(self, snapshot: MetricsSnapshot) -> None:
        """Record a snapshot. Each client needs an object of its own, because sums are compared with those of the last snapshot."""
        for metric in snapshot:
            if isnan(metric.value):
                continue
            name = metric_name(metric)
            attributes = {key.replace("-", "_"): text for key, text in metric.tags.items()}
            if metric.kind == "gauge":
                gauge = self._gauges.get(name) or self._gauges.setdefault(name, self._meter.create_gauge(name))
                gauge.set(metric.value, attributes)
                continue
            counter = self._counters.get(name) or self._counters.setdefault(name, self._meter.create_counter(name))
            key = (name, tuple(attributes.items()))
            before, self._totals[key] = self._totals.get(key, 0.0), metric.value
            counter.add(metric.value - before, attributes)
