"""The metrics of a share consumer, with the names of Kafka's Java client: its fetches, acknowledgements, heartbeats and polls.

Metrics are recorded once per response, delivery or call, never per record.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.client.metrics.consumer import FETCHES, HEARTBEATS, REBALANCES, RECORDS
from ottla.client.metrics.registry import MetricsRegistry, extreme_names, sum_names
from ottla.client.metrics.samples import Samples

FETCH_GROUP: Final = "consumer-share-fetch-manager-metrics"
GROUP_GROUP: Final = "consumer-share-coordinator-metrics"
POLL_GROUP: Final = "consumer-share-metrics"
_REBALANCES: Final = {name: kind for name, kind in REBALANCES.items() if name.startswith("rebalance-") and "latency" not in name}


class _Delivered(NamedTuple):
    """The samples of the records delivered from one topic, or from all topics."""

    records: Samples
    size: Samples
    fetched: Samples
    per_request: Samples


class ShareFetchMetrics:
    """The metrics of a share consumer's fetches and acknowledgements in `registry`."""

    def __init__(self, registry: MetricsRegistry) -> None:
        new = registry.samples
        self._all = _Delivered(
            new(FETCH_GROUP, sum_names("records-consumed")),
            new(FETCH_GROUP, sum_names("bytes-consumed")),
            new(FETCH_GROUP, extreme_names("fetch-size")),
            new(FETCH_GROUP, RECORDS),
        )
        self._fetches = new(FETCH_GROUP, FETCHES)
        self._throttle = new(FETCH_GROUP, extreme_names("fetch-throttle-time"))
        self._sent = new(FETCH_GROUP, sum_names("acknowledgements-send"))
        self._failed = new(FETCH_GROUP, sum_names("acknowledgements-error"))

    def on_fetch(self, latency_ms: float, throttle_time_ms: int, size_bytes: int, now_ms: float) -> None:
        """Record the answer to a ShareFetch request."""
        self._fetches.record(latency_ms, now_ms)
        self._throttle.record(throttle_time_ms, now_ms)
        if size_bytes:
            self._all.fetched.record(size_bytes, now_ms)
            self._all.size.record(size_bytes, now_ms)

    def on_delivery(self, records: int, now_ms: float) -> None:
        """Record that the user gets records of one fetch."""
        self._all.records.record(records, now_ms)
        self._all.per_request.record(records, now_ms)

    def on_acknowledged(self, records: int, now_ms: float, *, failed: bool) -> None:
        """Record that a leader has answered acknowledgements of so many records."""
        self._sent.record(records, now_ms)
        if failed:
            self._failed.record(records, now_ms)


class ShareGroupMetrics:
    """The metrics of a share consumer's membership in its group in `registry`."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._heartbeats = registry.samples(GROUP_GROUP, HEARTBEATS)
        self._rebalances = registry.samples(GROUP_GROUP, _REBALANCES)

    def on_heartbeat(self, latency_ms: float, now_ms: float) -> None:
        """Record an answered heartbeat."""
        self._heartbeats.record(latency_ms, now_ms)

    def on_rebalance(self, now_ms: float) -> None:
        """Record that the coordinator has assigned other partitions."""
        self._rebalances.record(1, now_ms)
