"""The metrics of a consumer: its fetches and records (in total, by topic, by partition), its group, and its polls.

Metrics are recorded once per response, chunk or call, never per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import nan
from typing import Final, NamedTuple

from ottla.client.metrics.registry import (
    AVERAGE,
    COUNT,
    FREQUENCY,
    HOURLY,
    LEAST,
    MOST,
    SECONDS_AGO,
    TOTAL,
    Metric,
    MetricsRegistry,
    event_names,
    extreme_names,
    sum_names,
)
from ottla.client.metrics.samples import Samples
from ottla.client.types import TopicPartition

FETCH_GROUP: Final = "consumer-fetch-manager-metrics"
GROUP_GROUP: Final = "consumer-coordinator-metrics"
GROUP: Final = "consumer-metrics"
RECORDS: Final = {"records-per-request-avg": AVERAGE}
FETCHES: Final = {**extreme_names("fetch-latency"), "fetch-rate": FREQUENCY, "fetch-total": COUNT}
REBALANCES: Final = {
    "rebalance-total": COUNT,
    "rebalance-rate-per-hour": HOURLY,
    "rebalance-latency-total": TOTAL,
    **extreme_names("rebalance-latency"),
    "last-rebalance-seconds-ago": SECONDS_AGO,
}
FAILED_REBALANCES: Final = {"failed-rebalance-total": COUNT, "failed-rebalance-rate-per-hour": HOURLY}
HEARTBEATS: Final = {**event_names("heartbeat"), "heartbeat-response-time-max": MOST, "last-heartbeat-seconds-ago": SECONDS_AGO}


class _Consumed(NamedTuple):
    """The samples of the data read from one topic, or from all topics."""

    fetched: Samples
    size: Samples
    records: Samples
    per_request: Samples


class _Distance(NamedTuple):
    """The samples of a partition's lag (records before its end) and lead (records after its start)."""

    lag: Samples
    lead: Samples


class PartitionState(NamedTuple):
    """The lag and the lead of a partition (None if unknown), and the replica that is fetched from: -1 is the leader."""

    lag: int | None
    lead: int | None
    preferred_replica: int


class FetchMetrics:
    """The metrics of a consumer's fetches in `registry`."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._all = self._consumption()
        self._fetches = registry.samples(FETCH_GROUP, FETCHES)
        self._throttle = registry.samples(FETCH_GROUP, extreme_names("fetch-throttle-time"))
        self._lag = registry.samples(FETCH_GROUP, {"records-lag-max": MOST})
        self._lead = registry.samples(FETCH_GROUP, {"records-lead-min": LEAST})
        self._topics: dict[str, _Consumed] = {}
        self._partitions: dict[TopicPartition, _Distance] = {}

    def _consumption(self, now_ms: float | None = None, **tags: str) -> _Consumed:
        names = (extreme_names("fetch-size"), sum_names("bytes-consumed"), sum_names("records-consumed"), RECORDS)
        return _Consumed(*(self._registry.samples(FETCH_GROUP, each, now_ms, **tags) for each in names))

    def _topic(self, topic: str, now_ms: float) -> _Consumed:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = self._consumption(now_ms, topic=topic)
        return found

    def on_fetch(self, latency_ms: float, throttle_time_ms: int, sizes: Mapping[str, int], now_ms: float) -> None:
        """Record the answer to a Fetch request, with the number of bytes of each topic."""
        self._fetches.record(latency_ms, now_ms)
        self._throttle.record(throttle_time_ms, now_ms)
        for topic, size in sizes.items():
            self._topic(topic, now_ms).fetched.record(size, now_ms)
        if sizes:
            self._all.fetched.record(sum(sizes.values()), now_ms)

    def on_chunk(self, where: TopicPartition, records: int, size_bytes: int, state: PartitionState, now_ms: float) -> None:
        """Record that the user gets fetched records of a partition. `state` is the partition's state after these records."""
        for consumed in (self._all, self._topic(where.topic, now_ms)):
            consumed.records.record(records, now_ms)
            consumed.size.record(size_bytes, now_ms)
            consumed.per_request.record(records, now_ms)
        distance = self._partitions.get(where)
        if distance is None:
            new_samples = self._registry.new_samples
            distance = self._partitions[where] = _Distance(new_samples(now_ms), new_samples(now_ms))
        if state.lag is not None:
            distance.lag.record(state.lag, now_ms)
            self._lag.record(state.lag, now_ms)
        if state.lead is not None:
            distance.lead.record(state.lead, now_ms)
            self._lead.record(state.lead, now_ms)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that are no longer read."""
        for where in partitions:
            self._partitions.pop(where, None)

    def of_partition(self, where: TopicPartition, state: PartitionState, now_ms: float) -> Iterator[Metric]:
        """Yield the metrics of an assigned partition, which has this state now."""
        tags = dict(self._registry.tags(topic=where.topic, partition=str(where.partition)))
        found = self._partitions.get(where)
        values = {
            "records-lag": nan if state.lag is None else state.lag,
            "records-lag-avg": found.lag.average(now_ms) if found else nan,
            "records-lag-max": found.lag.most(now_ms) if found else nan,
            "records-lead": nan if state.lead is None else state.lead,
            "records-lead-avg": found.lead.average(now_ms) if found else nan,
            "records-lead-min": found.lead.least(now_ms) if found else nan,
            "preferred-read-replica": state.preferred_replica,
        }
        return (Metric(FETCH_GROUP, name, tags, float(value), "gauge") for name, value in values.items())


class GroupMetrics:
    """The metrics of a consumer's membership in its group in `registry`. `count()` returns the number of assigned partitions.

    Without `joins`, there are no metrics of JoinGroup and SyncGroup, which only the classic protocol has.
    """

    def __init__(self, registry: MetricsRegistry, count: Callable[[], int], *, joins: bool = True) -> None:
        new = registry.samples
        registry.gauge(GROUP_GROUP, "assigned-partitions", lambda now_ms: count())
        self._heartbeats = new(GROUP_GROUP, HEARTBEATS)
        self._joins = new(GROUP_GROUP, {**event_names("join"), **extreme_names("join-time")} if joins else {})
        self._syncs = new(GROUP_GROUP, {**event_names("sync"), **extreme_names("sync-time")} if joins else {})
        self._commits = new(GROUP_GROUP, {**event_names("commit"), **extreme_names("commit-latency")})
        self._rebalances = new(GROUP_GROUP, REBALANCES)
        self._failed = new(GROUP_GROUP, FAILED_REBALANCES)
        self._listeners = {
            kind: new(GROUP_GROUP, extreme_names(f"partition-{kind}-latency")) for kind in ("assigned", "revoked", "lost")
        }
        self._since_ms: float | None = None

    def on_heartbeat(self, latency_ms: float, now_ms: float) -> None:
        """Record an answered heartbeat."""
        self._heartbeats.record(latency_ms, now_ms)

    def on_join(self, latency_ms: float, now_ms: float) -> None:
        """Record an answered JoinGroup request."""
        self._joins.record(latency_ms, now_ms)

    def on_sync(self, latency_ms: float, now_ms: float) -> None:
        """Record an answered SyncGroup request."""
        self._syncs.record(latency_ms, now_ms)

    def on_commit(self, latency_ms: float, now_ms: float) -> None:
        """Record an answered OffsetCommit request."""
        self._commits.record(latency_ms, now_ms)

    def on_listener(self, kind: str, latency_ms: float, now_ms: float) -> None:
        """Record the duration of a rebalance listener for partitions that are assigned, revoked or lost."""
        self._listeners[kind].record(latency_ms, now_ms)

    def begin_rebalance(self, now_ms: float) -> None:
        """Note the start of a rebalance, unless one is under way."""
        if self._since_ms is None:
            self._since_ms = now_ms

    def end_rebalance(self, now_ms: float) -> None:
        """Record the end of a rebalance."""
        since_ms, self._since_ms = self._since_ms, None
        self._rebalances.record(0 if since_ms is None else now_ms - since_ms, now_ms)

    def fail_rebalance(self, now_ms: float) -> None:
        """Record that a rebalance failed, if one is under way."""
        if self._since_ms is not None:
            self._since_ms = None
            self._failed.record(1, now_ms)


class PollMetrics:
    """The metrics of a consumer's calls in `registry`: how often records are requested, and how long calls wait for them."""

    def __init__(self, registry: MetricsRegistry, group: str = GROUP) -> None:
        new = registry.samples
        self._between = new(group, extreme_names("time-between-poll"))
        self._idle = new(group, {"poll-idle-ratio-avg": AVERAGE})
        self._commits = new(GROUP, {"commit-sync-time-ns-total": TOTAL} if group == GROUP else {})
        self._committed = new(GROUP, {"committed-time-ns-total": TOTAL} if group == GROUP else {})
        self._begun_ms: float | None = None
        self._waited_ms: float = 0
        registry.gauge(
            group, "last-poll-seconds-ago", lambda now_ms: nan if self._begun_ms is None else (now_ms - self._begun_ms) / 1000
        )

    def begin(self, now_ms: float) -> None:
        """Record that the user requests records."""
        if self._begun_ms is not None:
            between_ms = now_ms - self._begun_ms
            self._between.record(between_ms, now_ms)
            if between_ms > 0:
                self._idle.record(self._waited_ms / between_ms, now_ms)
        self._begun_ms, self._waited_ms = now_ms, 0

    def end(self, now_ms: float) -> None:
        """Record that the user gets records, or none."""
        if self._begun_ms is not None:
            self._waited_ms = now_ms - self._begun_ms

    def on_commit(self, duration_ns: int, now_ms: float) -> None:
        """Record the duration of `commit`."""
        self._commits.record(duration_ns, now_ms)

    def on_committed(self, duration_ns: int, now_ms: float) -> None:
        """Record the duration of `committed`."""
        self._committed.record(duration_ns, now_ms)
