"""A broker's metrics for OpenTelemetry, under the names that they have in Prometheus.

The instruments are observable: their values are read when an exporter collects, on its thread, from one snapshot for all. Only
OpenTelemetry's API is needed here. The SDK and an exporter are the operator's choice, by OpenTelemetry's own environment variables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.metrics.broker_metrics import BROKER
from ottla.broker.metrics.declaration import DeclaredMetric, Distribution, MetricKind, MetricRows, Row
from ottla.broker.metrics.group_metrics import GROUPS
from ottla.errors import SettingError
from ottla.net.server.metrics_source import MetricsSource
from ottla.net.server.server_metrics import SERVER
from ottla.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

    from ottla.net.startup.start import Running

SCOPE: Final = "ottla"
PATIENCE_S: Final = 8.0
FRESH_S: Final = 1.0
"""The age, in s, up to which one snapshot serves all instruments of a collection."""
NEEDED: Final = (
    "ottla.opentelemetry.enable needs OpenTelemetry's SDK and an exporter: pip install 'ottla[opentelemetry]' opentelemetry-sdk "
    "opentelemetry-exporter-otlp-proto-http."
)
Attributes = dict[str, str]


class BrokerMetering:
    """The instruments of one broker's metrics.

        with ottla.Broker(ottla_metrics_enable=True) as broker:
            BrokerMetering(broker.metrics(), meter_provider)

    Counters become observable counters, gauges observable gauges. A distribution becomes counters of its number and sum, and gauges
    of its quantiles or counters of its buckets. While the broker does not answer, nothing is observed. Raises `ImportError` without
    OpenTelemetry.
    """

    def __init__(self, source: MetricsSource, meter_provider: MeterProvider | None = None) -> None:
        try:
            from opentelemetry import metrics
        except ImportError as error:
            raise ImportError("BrokerMetering needs the API of OpenTelemetry: pip install ottla[opentelemetry].") from error
        self._source = source
        self._observation = metrics.Observation
        self._last: tuple[float, MetricRows] | None = None
        meter = metrics.get_meter(SCOPE, VERSION, meter_provider)
        for part in (BROKER, GROUPS, SERVER):
            for each in part.metrics:
                self._declare(meter, each)

    def _declare(self, meter: Meter, metric: DeclaredMetric) -> None:
        """Create the instruments of one metric."""
        name, unit = metric.family, "ms" if metric.kind is MetricKind.SUMMARY else ""
        if metric.kind is MetricKind.GAUGE:
            meter.create_observable_gauge(name, [self._callback(metric, _plain)], description=metric.help)
        elif metric.kind is MetricKind.COUNTER:
            meter.create_observable_counter(name, [self._callback(metric, _plain)], description=metric.help)
        else:
            factor = 1000.0 if unit else 1.0
            meter.create_observable_counter(f"{name}_count", [self._callback(metric, _count)], description=metric.help)
            meter.create_observable_counter(f"{name}_sum", [self._callback(metric, lambda row: _sum(row, factor))], unit or "s")
            if metric.kind is MetricKind.SUMMARY:
                meter.create_observable_gauge(name, [self._callback(metric, _quantiles)], unit, metric.help)
            else:
                meter.create_observable_counter(f"{name}_bucket", [self._callback(metric, _buckets)])

    def _callback(
        self, metric: DeclaredMetric, values: Callable[[Row], Iterable[tuple[float, Attributes]]]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(options: CallbackOptions) -> Iterator[Observation]:
            for row in self._rows().rows.get(metric, ()):
                labels = dict(zip(metric.labels, row[0], strict=False))
                for value, more in values(row):
                    yield self._observation(value, {**labels, **more})

        return observe

    def _rows(self) -> MetricRows:
        """Return a snapshot that is new, or was taken in the same collection. It is empty if the broker does not answer."""
        now_s = time.monotonic()
        if self._last is None or now_s - self._last[0] > FRESH_S:
            try:
                rows = self._source.snapshot().result(PATIENCE_S)
            except Exception:  # the broker has ended or is too busy: its log says which
                rows = MetricRows()
            self._last = time.monotonic(), rows
        return self._last[1]


def _plain(row: Row) -> Iterator[tuple[float, Attributes]]:
    if not isinstance(row[1], Distribution):
        yield row[1], {}


def _count(row: Row) -> Iterator[tuple[float, Attributes]]:
    if isinstance(row[1], Distribution):
        yield row[1].count, {}


def _sum(row: Row, factor: float) -> Iterator[tuple[float, Attributes]]:
    if isinstance(row[1], Distribution):
        yield row[1].sum_s * factor, {}


def _quantiles(row: Row) -> Iterator[tuple[float, Attributes]]:
    if isinstance(row[1], Distribution):
        for quantile, duration_s in row[1].quantiles:
            yield duration_s * 1000, {"quantile": str(quantile)}


def _buckets(row: Row) -> Iterator[tuple[float, Attributes]]:
    if isinstance(row[1], Distribution):
        for limit_s, count in row[1].buckets:
            yield count, {"le": "+Inf" if limit_s == float("inf") else f"{limit_s:.9g}"}


class OpenTelemetryCompanion:
    """The export of a broker's metrics in the process of `ottla serve`.

    A provider that was configured before, as by `opentelemetry-instrument`, is used as it is. Otherwise the SDK exports by OTLP
    over HTTP, to the address in OTEL_EXPORTER_OTLP_ENDPOINT, each OTEL_METRIC_EXPORT_INTERVAL ms.
    """

    def __init__(self) -> None:
        """Create the export. Raises `SettingError` if a package is missing."""
        self._provider: Any = None
        try:
            from opentelemetry import metrics

            self._is_configured = _is_configured(metrics.get_meter_provider())
            if not self._is_configured:
                from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
                from opentelemetry.sdk.metrics import MeterProvider

                self._exporter, self._sdk = OTLPMetricExporter, MeterProvider
        except ImportError:
            raise SettingError(NEEDED) from None

    def start(self, running: Running) -> str:
        """Export from now on. Return a line."""
        if not self._is_configured:
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource

            resource = Resource.create({"service.name": "ottla", "service.instance.id": str(running.broker.node_id)})
            self._provider = self._sdk([PeriodicExportingMetricReader(self._exporter())], resource)
        BrokerMetering(running.metrics(), self._provider)
        return "The metrics are exported by OpenTelemetry"

    def stop(self) -> None:
        if self._provider is not None:
            self._provider.shutdown()


def _is_configured(provider: object) -> bool:
    """Return whether somebody has set a provider of an SDK: the API's own ones do nothing."""
    return type(provider).__module__.partition(".")[2].partition(".")[0] == "sdk"
