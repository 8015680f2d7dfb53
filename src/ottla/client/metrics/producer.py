"""The metrics of a producer: batches, records, retries and errors, in total and by topic, and durations of calls.

Metrics are recorded once per batch or request, never per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.client.metrics.registry import AVERAGE, TOTAL, MetricsRegistry, Statistic, event_names, extreme_names, sum_names
from ottla.client.metrics.samples import Samples
from ottla.client.producer.partition_queue import Outgoing

GROUP: Final = "producer-metrics"
TOPIC_GROUP: Final = "producer-topic-metrics"
CALLS: Final = ("flush", "txn-init", "txn-begin", "txn-send-offsets", "txn-commit", "txn-abort", "metadata-wait", "bufferpool-wait")

RATIOS: Final = {"bufferpool-wait": {"bufferpool-wait-ratio": Statistic(lambda samples, now_ms: samples.rate(now_ms) / 1e9)}}
"""The statistics of a call's duration, in ns, beside its total: here the part of a second for which callers wait each second."""


class _OfTopic(NamedTuple):
    """The samples of one topic's records."""

    sent: Samples
    size: Samples
    retried: Samples
    failed: Samples
    compression: Samples


class ProducerMetrics:
    """The metrics of a producer in `registry`. `in_flight()` returns the number of its unanswered requests."""

    def __init__(self, registry: MetricsRegistry, *, delivery_timeout_ms: int, in_flight: Callable[[], int]) -> None:
        self._registry = registry
        self._delivery_timeout_ms = delivery_timeout_ms
        new = registry.samples
        self._sent = new(GROUP, sum_names("record-send"))
        self._retried = new(GROUP, sum_names("record-retry"))
        self._failed = new(GROUP, sum_names("record-error"))
        self._record_size = new(GROUP, {"record-size-avg": AVERAGE})
        self._batch_size = new(GROUP, extreme_names("batch-size"))
        self._split = new(GROUP, event_names("batch-split"))
        self._compression = new(GROUP, {"compression-rate-avg": AVERAGE})
        self._queue_time = new(GROUP, extreme_names("record-queue-time"))
        self._per_request = new(GROUP, {"records-per-request-avg": AVERAGE})
        self._throttle = new(GROUP, extreme_names("produce-throttle-time"))
        self._exhausted = new(GROUP, event_names("buffer-exhausted"))
        self._times = {call: new(GROUP, {f"{call}-time-ns-total": TOTAL, **RATIOS.get(call, {})}) for call in CALLS}
        self._topics: dict[str, _OfTopic] = {}
        registry.gauge(GROUP, "requests-in-flight", lambda now_ms: in_flight())

    def buffer(self, total: int, pending: Callable[[], int], waiting: Callable[[], int], metadata_ms: Callable[[], float]) -> None:
        """Register the state of the buffer: its size, unfinished bytes and waiting callers, and the time of metadata, in ms."""
        gauge = self._registry.gauge
        gauge(GROUP, "buffer-total-bytes", lambda now_ms: total)
        gauge(GROUP, "buffer-available-bytes", lambda now_ms: max(0, total - pending()))
        gauge(GROUP, "waiting-threads", lambda now_ms: waiting())
        gauge(GROUP, "metadata-age", lambda now_ms: (now_ms - metadata_ms()) / 1000)

    def _topic(self, topic: str, now_ms: float) -> _OfTopic:
        found = self._topics.get(topic)
        if found is None:
            new = self._registry.samples
            names = [sum_names(name) for name in ("record-send", "byte", "record-retry", "record-error")]
            samples = (new(TOPIC_GROUP, each, now_ms, topic=topic) for each in (*names, {"compression-rate": AVERAGE}))
            found = self._topics[topic] = _OfTopic(*samples)
        return found

    def on_encoded(self, batch: Outgoing, size_bytes: int, now_ms: float) -> None:
        """Record a new batch. `size_bytes` is its size before compression."""
        ratio = min(1.0, len(batch.data) / size_bytes)
        self._compression.record(ratio, now_ms)
        self._topic(batch.where.topic, now_ms).compression.record(ratio, now_ms)
        self._queue_time.record(max(0, now_ms - batch.deadline_ms + self._delivery_timeout_ms), now_ms)

    def on_request(self, batches: Iterable[Outgoing], now_ms: float) -> None:
        """Record the batches of a Produce request."""
        records = 0
        for batch in batches:
            count, size = batch.record_count, len(batch.data)
            records += count
            topic = self._topic(batch.where.topic, now_ms)
            topic.sent.record(count, now_ms)
            topic.size.record(size, now_ms)
            self._batch_size.record(size, now_ms)
            self._record_size.record(size / count, now_ms)
            if batch.last_refusal is not None:
                topic.retried.record(count, now_ms)
                self._retried.record(count, now_ms)
        self._sent.record(records, now_ms)
        self._per_request.record(records, now_ms)

    def on_throttle(self, throttle_time_ms: int, now_ms: float) -> None:
        """Record the throttle time of the answer to a Produce request."""
        self._throttle.record(throttle_time_ms, now_ms)

    def on_failed(self, topic: str, count: int, now_ms: float) -> None:
        """Record records that were not written."""
        self._failed.record(count, now_ms)
        self._topic(topic, now_ms).failed.record(count, now_ms)

    def on_split(self, now_ms: float) -> None:
        """Record that a batch was split, because it was too large for its topic."""
        self._split.record(1, now_ms)

    def on_exhausted(self, now_ms: float) -> None:
        """Record that a caller gave up waiting for memory."""
        self._exhausted.record(1, now_ms)

    def on_call(self, call: str, duration_ns: int, now_ms: float) -> None:
        """Record the duration of one of `CALLS`."""
        self._times[call].record(duration_ns, now_ms)
