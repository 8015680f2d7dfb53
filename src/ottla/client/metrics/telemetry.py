"""A client's push of its metrics to a broker that has subscribed to them (KIP-714), without sockets or clock.

The client requests its subscription, pushes the metrics in OTLP at the subscription's interval, and requests the subscription again
after an error, and while nothing is subscribed. Unlike in Kafka's Java client, the push after a failed one includes its deltas.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from math import isnan
from typing import Final, NamedTuple, TypeAlias

from ottla.client.admin.otlp import OtlpPoint, write_metrics
from ottla.client.metrics.registry import Metric, MetricsSnapshot
from ottla.records.compression.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from ottla.wire import errors as codes
from ottla.wire.api.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from ottla.wire.api.push_telemetry import PushTelemetryRequest

Totals: TypeAlias = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""The name and attributes of each sum -> its value."""

NO_INSTANCE: Final = bytes(16)
DEFAULT_INTERVAL_MS: Final = 300_000
"""The interval, in ms, after an error before any subscription is known."""
POSSIBLE_CODECS: Final = (ZSTD, LZ4, GZIP, SNAPPY, NONE)
FIRST_PUSH, SPREAD = 0.5, 1.0
"""The part of an interval after which the first push is sent: FIRST_PUSH, plus a random part of SPREAD."""
FINAL: Final = frozenset({codes.INVALID_REQUEST, codes.INVALID_RECORD, codes.UNSUPPORTED_VERSION})
"""The errors after which a client never pushes again."""
AT_ONCE: Final = frozenset({codes.UNKNOWN_SUBSCRIPTION_ID, codes.UNSUPPORTED_COMPRESSION_TYPE})
"""The errors after which a client requests its subscription at once."""
OWN_TAG: Final = "client-id"
"""The tag that is not pushed, because the broker has it from each request."""


class Wait(NamedTuple):
    """A step: do nothing until this time, in ms."""

    until_ms: float


class GetSubscription(NamedTuple):
    """A step: send this request, and pass the answer to `on_subscription`."""

    request: GetTelemetrySubscriptionsRequest


class PushMetrics(NamedTuple):
    """A step: call `push_request` with a snapshot, send the request, and pass the error code of the answer to `on_pushed`."""


Step = Wait | GetSubscription | PushMetrics


def metric_name(metric: Metric) -> str:
    """Return the name of a metric in OTLP, which Kafka's clients form from its group and name."""
    group = metric.group.replace("-metrics", "").replace("-", ".")
    return f"org.apache.kafka.{group}.{metric.name.replace('-', '.')}"


class TelemetryPusher:
    """The state of one client's pushes. `random` returns a number from 0 to 1, and `start_ms` is the wall clock's at the start."""

    def __init__(self, resource: Mapping[str, str], random: Callable[[], float], start_ms: int) -> None:
        self.instance_id = NO_INSTANCE
        self.is_over = False
        """True after an error of `FINAL`: no further request is sent."""
        self._resource = resource
        self._random = random
        self._start_ms = self._pushed_ms = start_ms
        self._subscription: GetTelemetrySubscriptionsResponse | None = None
        self._next_ms: float = 0
        self._refused_codecs: set[int] = set()
        self._codec = NONE
        self._totals: Totals = {}
        self._sending: tuple[Totals, int] | None = None

    @property
    def instance_text(self) -> str | None:
        """Return the client instance id as Kafka prints it, or None before a broker has assigned it."""
        return None if self.instance_id == NO_INSTANCE else urlsafe_b64encode(self.instance_id).decode().rstrip("=")

    @property
    def has_subscription(self) -> bool:
        """Return whether a broker wants metrics of this client."""
        return self._subscription is not None and bool(self._subscription.requested_metrics) and not self.is_over

    def next_step(self, now_ms: float) -> Step:
        """Return what to do next."""
        if now_ms < self._next_ms:
            return Wait(self._next_ms)
        if self.has_subscription:
            return PushMetrics()
        return GetSubscription(GetTelemetrySubscriptionsRequest(client_instance_id=self.instance_id))

    def on_subscription(self, answer: GetTelemetrySubscriptionsResponse, now_ms: float) -> None:
        """Process the answer to a request for the subscription."""
        if answer.error_code:
            self._fail(answer.error_code, now_ms)
            return
        self.instance_id = answer.client_instance_id
        self._subscription = answer
        accepted = [*answer.accepted_compression_types, NONE]
        self._codec = next(each for each in accepted if each in POSSIBLE_CODECS and each not in self._refused_codecs)
        part = FIRST_PUSH + SPREAD * self._random() if answer.requested_metrics else 1
        self._next_ms = now_ms + answer.push_interval_ms * part

    def push_request(self, snapshot: MetricsSnapshot, *, terminating: bool = False) -> PushTelemetryRequest | None:
        """Return the request with the subscribed metrics, or None if they are larger than the broker allows."""
        subscription = self._subscription
        assert subscription is not None, "only `has_subscription` leads here"
        points, totals = self._points(snapshot, subscription)
        data = write_metrics(points, self._resource)
        metrics = bytes(compress(self._codec, data)) if self._codec != NONE else data
        if len(metrics) > subscription.telemetry_max_bytes:
            return None
        self._sending = totals, snapshot.time_ms
        return PushTelemetryRequest(
            client_instance_id=self.instance_id,
            subscription_id=subscription.subscription_id,
            terminating=terminating,
            compression_type=self._codec,
            metrics=metrics,
        )

    def _points(self, snapshot: MetricsSnapshot, subscription: GetTelemetrySubscriptionsResponse) -> tuple[list[OtlpPoint], Totals]:
        """Return the data points of the subscribed metrics, and the totals from which the next deltas are computed."""
        wanted = tuple("" if prefix == "*" else prefix for prefix in subscription.requested_metrics)
        is_delta = subscription.delta_temporality
        points: list[OtlpPoint] = []
        totals: Totals = {}
        for metric in snapshot:
            name = metric_name(metric)
            if isnan(metric.value) or not name.startswith(wanted):
                continue
            attributes = _attributes(metric.tags.items())
            value, start_ms = metric.value, None
            if metric.kind == "sum":
                totals[name, attributes] = value
                start_ms = self._pushed_ms if is_delta else self._start_ms
                value -= self._totals.get((name, attributes), 0) if is_delta else 0
            points.append(OtlpPoint(name, value, attributes, snapshot.time_ms, start_ms, is_delta))
        return points, totals

    def on_pushed(self, error_code: int, now_ms: float) -> None:
        """Process the answer to a push."""
        if error_code:
            self._fail(error_code, now_ms)
            return
        if self._sending is not None:
            self._totals, self._pushed_ms = self._sending
        self.skip(now_ms)

    def skip(self, now_ms: float) -> None:
        """Schedule the next push one interval from now."""
        self._next_ms = now_ms + self._interval_ms()

    def _interval_ms(self) -> int:
        return DEFAULT_INTERVAL_MS if self._subscription is None else self._subscription.push_interval_ms

    def _fail(self, error_code: int, now_ms: float) -> None:
        if error_code in FINAL:
            self.is_over = True
        if error_code == codes.UNSUPPORTED_COMPRESSION_TYPE:
            self._refused_codecs.update({self._codec} - {NONE})
        self._next_ms = now_ms if error_code in AT_ONCE else now_ms + self._interval_ms()
        self._subscription = None


def _attributes(tags: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((key.replace("-", "_"), value) for key, value in tags if key != OWN_TAG)
