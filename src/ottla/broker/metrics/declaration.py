"""The declaration of a metric, and the values that are found for it.

A metric is declared once, by the name of the MBean that Apache Kafka has for it. From it come the name under which Prometheus's JMX
exporter shows that MBean with its usual rules, and the line in docs/metrics.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from ottla.ports import Steps

R = TypeVar("R")

BEAN: Final = re.compile(r"(?P<domain>[\w.]+):type=(?P<type>[\w-]+),name=(?P<name>[\w-]+)(?P<keys>(,[\w-]+=\{\w+\})*)")
KEY: Final = re.compile(r",([\w-]+)=")
PER_SECOND: Final = "PerSec"
PERCENT: Final = "Percent"


class MetricKind(Enum):
    """The kind of a metric, by the name that Prometheus has for it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class DeclaredMetric:
    """One metric: its exported name, its kind, a sentence that explains it, and the names of its labels.

    `bean` is the name of Kafka's MBean, and empty if Kafka has none.
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    bean: str = ""

    @property
    def family(self) -> str:
        """Return the name without the ending of counters, which OpenMetrics adds to samples only."""
        return self.name.removesuffix("_total") if self.kind is MetricKind.COUNTER else self.name


@dataclass(frozen=True, slots=True)
class Distribution:
    """The durations of one histogram: (upper limit in s, number of all durations up to it) in ascending order, and their sum in s.

    `quantiles` are (quantile, duration in s) of the last minutes.
    """

    buckets: Sequence[tuple[float, int]]
    sum_s: float
    quantiles: Sequence[tuple[float, float]] = ()

    @property
    def count(self) -> int:
        return self.buckets[-1][1]


Value = int | float | Distribution
Row = tuple[tuple[str, ...], Value]
"""A sample: the values of the labels, and the value of the metric. A row with fewer labels is the total of all."""


class MetricColumn:
    """The rows of one metric, as two lists.

    With a tuple for each of a hundred thousand rows, Python's garbage collector would have that many more objects to traverse.
    """

    __slots__ = ("labels", "values")

    def __init__(self) -> None:
        self.labels: list[tuple[str, ...]] = []
        self.values: list[Value] = []

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Row]:
        return zip(self.labels, self.values, strict=True)

    def part(self, start: int, end: int) -> Iterator[Row]:
        """Return the rows from `start` up to `end`."""
        return zip(self.labels[start:end], self.values[start:end], strict=True)

    def extend(self, other: MetricColumn) -> None:
        self.labels += other.labels
        self.values += other.values


class MetricRows:
    """The values found for each metric, by the order of the declarations."""

    def __init__(self) -> None:
        self.rows: dict[DeclaredMetric, MetricColumn] = {}

    def put(self, metric: DeclaredMetric, value: Value, *labels: str) -> None:
        """Add a value of a metric, for these values of its labels."""
        self.put_row(metric, value, labels)

    def put_row(self, metric: DeclaredMetric, value: Value, labels: tuple[str, ...]) -> None:
        """Add a value of a metric. Several metrics can share the tuple of labels."""
        column = self.rows.get(metric)
        if column is None:
            column = self.rows[metric] = MetricColumn()
        column.labels.append(labels)
        column.values.append(value)


@dataclass(frozen=True, slots=True)
class MetricReader(Generic[R]):
    """A function that finds the values of several metrics in steps, because there can be ten thousand partitions."""

    metrics: tuple[DeclaredMetric, ...]
    read: Callable[[R, MetricRows], Steps[None]]
    keep_ms: int = 0
    """How long, in ms, its values may be shown again."""


@dataclass(slots=True)
class Declared(Generic[R]):
    """The metrics of one part of the broker, whose values are read from objects of type `R`.

    A metric that is one number is one line: `metrics.gauge("kafka.server:type=…,name=…", "…", lambda source: …)`.
    """

    readers: list[MetricReader[Any]] = field(default_factory=list)

    def gauge(self, bean: str, explanation: str, read: Callable[[R], float]) -> DeclaredMetric:
        """Declare a gauge that is one number."""
        return self._add(metric(bean, MetricKind.GAUGE, explanation), read)

    def counter(self, bean: str, explanation: str, read: Callable[[R], float]) -> DeclaredMetric:
        """Declare a counter that is one number."""
        return self._add(metric(bean, MetricKind.COUNTER, explanation), read)

    def reads(
        self, *metrics: DeclaredMetric, keep_ms: int = 0
    ) -> Callable[[Callable[[R, MetricRows], Steps[None]]], MetricReader[R]]:
        """Declare a function that finds the values of these metrics, at most once in `keep_ms`."""

        def declare(read: Callable[[R, MetricRows], Steps[None]]) -> MetricReader[R]:
            reader = MetricReader(metrics, read, keep_ms)
            self.readers.append(reader)
            return reader

        return declare

    @property
    def metrics(self) -> list[DeclaredMetric]:
        return [each for reader in self.readers for each in reader.metrics]

    def _add(self, declared: DeclaredMetric, read: Callable[[R], float]) -> DeclaredMetric:
        def steps(source: R, samples: MetricRows) -> Steps[None]:
            samples.put(declared, read(source))
            yield from ()

        self.readers.append(MetricReader((declared,), steps))
        return declared


def metric(bean: str, kind: MetricKind, explanation: str) -> DeclaredMetric:
    """Return the metric of one of Kafka's MBeans, such as kafka.log:type=Log,name=Size,topic={topic}.

    Its labels are the MBean's keys after its name. A name without type is exported as it is, with labels in braces.
    """
    found = BEAN.fullmatch(bean)
    if found is None:
        name, _, labels = bean.removesuffix("}").partition("{")
        return DeclaredMetric(name, kind, explanation, tuple(labels.split(",")) if labels else ())
    name = exported_name(found["domain"], found["type"], found["name"], kind)
    return DeclaredMetric(name, kind, explanation, tuple(KEY.findall(found["keys"])), bean)


def exported_name(domain: str, kind: str, name: str, shown_as: MetricKind) -> str:
    """Return the name that the JMX exporter's rules for Kafka give to an MBean: in small letters, with an ending for its unit."""
    if name.endswith(PER_SECOND):
        name = name.removesuffix(PER_SECOND)
    ending = "_total" if shown_as is MetricKind.COUNTER else ""
    if name.endswith(PERCENT) and shown_as is MetricKind.GAUGE:
        name, ending = name.removesuffix(PERCENT), "_percent"
    return re.sub(r"[^a-z0-9_]", "_", f"{domain}_{kind}_{name}{ending}".lower())
