"""The metrics of one client under their names and groups, which are those of Kafka's Java clients, and snapshots of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isnan, nan
from typing import Final, Literal, NamedTuple, TypeAlias

from ottla.client.metrics.samples import Samples, Sampling

Kind: TypeAlias = Literal["gauge", "sum"]
"""A gauge is a current value or a statistic of recent windows; a sum only grows."""
Tags: TypeAlias = tuple[tuple[str, str], ...]

HOUR_S: Final = 3600


class Metric(NamedTuple):
    """One metric at one time. `value` is NaN if there is nothing to measure, such as the average of no values."""

    group: str
    name: str
    tags: Mapping[str, str]
    value: float
    kind: Kind


class Statistic(NamedTuple):
    """A value that is computed from samples: `read` gets the samples and the time in ms."""

    read: Callable[[Samples, float], float]
    kind: Kind = "gauge"


RATE: Final = Statistic(Samples.rate)
FREQUENCY: Final = Statistic(Samples.frequency)
HOURLY: Final = Statistic(lambda samples, now_ms: samples.frequency(now_ms) * HOUR_S)
AVERAGE: Final = Statistic(Samples.average)
MOST: Final = Statistic(Samples.most)
LEAST: Final = Statistic(Samples.least)
TOTAL: Final = Statistic(lambda samples, now_ms: samples.total, "sum")
COUNT: Final = Statistic(lambda samples, now_ms: samples.count, "sum")
SECONDS_AGO: Final = Statistic(
    lambda samples, now_ms: nan if samples.last_ms is None else max(0.0, now_ms - samples.last_ms) / 1000
)


def sum_names(name: str) -> dict[str, Statistic]:
    """Return the names of a rate and a total that add up the recorded values."""
    return {f"{name}-rate": RATE, f"{name}-total": TOTAL}


def event_names(name: str) -> dict[str, Statistic]:
    """Return the names of a rate and a total that count recordings, not their values."""
    return {f"{name}-rate": FREQUENCY, f"{name}-total": COUNT}


def extreme_names(name: str) -> dict[str, Statistic]:
    """Return the names of an average and a maximum."""
    return {f"{name}-avg": AVERAGE, f"{name}-max": MOST}


class MetricsSnapshot:
    """The metrics of a client at one time (`time_ms`, in ms since 1970): an iterable of `Metric`."""

    def __init__(self, client_id: str, time_ms: int, metrics: Iterable[Metric]) -> None:
        self.client_id = client_id
        self.time_ms = time_ms
        self._metrics = tuple(metrics)

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)

    def find(self, name: str, *, group: str | None = None, **tags: str | int) -> list[Metric]:
        """Return the metrics of this name, and if given of this group and with these tags, such as `topic="flights"`."""
        wanted = {key.replace("_", "-"): str(value) for key, value in tags.items()}
        return [
            metric
            for metric in self._metrics
            if metric.name == name and group in (None, metric.group) and wanted.items() <= metric.tags.items()
        ]

    def value(self, name: str, *, group: str | None = None, **tags: str | int) -> float:
        """Return the value of the metric that `find` returns; of several, the one with the fewest tags. Raises `KeyError`."""
        found = self.find(name, group=group, **tags)
        if not found:
            raise KeyError(f"There is no metric {name} now: snapshots are iterables of all metrics.")
        return min(found, key=lambda metric: len(metric.tags)).value

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return the measured values for JSON: group -> name with tags other than the client id -> value."""
        groups: dict[str, dict[str, float]] = {}
        for metric in self._metrics:
            if not isnan(metric.value):
                tags = ",".join(f"{key}={value}" for key, value in metric.tags.items() if key != "client-id")
                groups.setdefault(metric.group, {})[f"{metric.name}{{{tags}}}" if tags else metric.name] = metric.value
        return groups


class MetricsRegistry:
    """The metrics of one client. Use it on one thread: the client's event loop."""

    def __init__(self, client_id: str | None, kind: str, sampling: Sampling, now_ms: float) -> None:
        """Create an empty registry. `kind` begins the names of groups: producer, consumer or admin-client."""
        self.client_id = client_id or ""
        self.kind = kind
        self._sampling = sampling
        self._start_ms = now_ms
        self._samples: dict[tuple[str, Tags, tuple[str, ...]], tuple[Samples, Mapping[str, Statistic]]] = {}
        self._gauges: dict[tuple[str, Tags, str], Callable[[float], float]] = {}
        self._sources: list[Callable[[float], Iterable[Metric]]] = []

    def samples(self, group: str, names: Mapping[str, Statistic], now_ms: float | None = None, **tags: str) -> Samples:
        """Return the samples of these metrics. Register new samples if there are none."""
        key = (group, self.tags(**tags), tuple(names))
        known = self._samples.get(key)
        if known is None:
            known = self._samples[key] = (self.new_samples(self._start_ms if now_ms is None else now_ms), names)
        return known[0]

    def new_samples(self, now_ms: float) -> Samples:
        """Return samples of this client's windows that are in no snapshot."""
        return Samples(self._sampling, now_ms)

    def gauge(self, group: str, name: str, read: Callable[[float], float], **tags: str) -> None:
        """Register a metric whose value `read(now_ms)` returns. It replaces an earlier gauge with this name and these tags."""
        self._gauges[group, self.tags(**tags), name] = read

    def source(self, metrics: Callable[[float], Iterable[Metric]]) -> None:
        """Register a function of `now_ms` that yields metrics for each snapshot, such as metrics of the assigned partitions."""
        self._sources.append(metrics)

    def tags(self, **tags: str) -> Tags:
        """Return the tags of a metric of this client; keyword `node_id` is tag `node-id`."""
        return (("client-id", self.client_id), *((key.replace("_", "-"), value) for key, value in tags.items()))

    def snapshot(self, now_ms: float, time_ms: int) -> MetricsSnapshot:
        """Return all metrics. `now_ms` is on the clock of recordings, `time_ms` on the wall clock."""
        metrics = [
            Metric(group, name, dict(tags), float(statistic.read(samples, now_ms)), statistic.kind)
            for (group, tags, _), (samples, names) in self._samples.items()
            for name, statistic in names.items()
        ]
        metrics += [
            Metric(group, name, dict(tags), float(read(now_ms)), "gauge") for (group, tags, name), read in self._gauges.items()
        ]
        for source in self._sources:
            metrics += source(now_ms)
        own = dict(self.tags())
        metrics.append(Metric("app-info", "start-time-ms", own, time_ms - (now_ms - self._start_ms), "gauge"))
        metrics.append(Metric("kafka-metrics-count", "count", own, len(metrics) + 1, "gauge"))
        return MetricsSnapshot(self.client_id, time_ms, metrics)
