"""The metrics of a client's connections: requests, responses, bytes and latencies, of all brokers and of each."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from ottla.client.metrics.registry import COUNT, FREQUENCY, MetricsRegistry, event_names, extreme_names, sum_names
from ottla.client.metrics.samples import Samples

REQUESTS: Final = {**event_names("request"), **extreme_names("request-size"), **sum_names("outgoing-byte")}
RESPONSES: Final = {**event_names("response"), **extreme_names("request-latency")}
INCOMING: Final = sum_names("incoming-byte")
NETWORK_IO: Final = {"network-io-rate": FREQUENCY, "network-io-total": COUNT}


class _Traffic(NamedTuple):
    """The samples of requests and responses, of one broker or of all."""

    requests: Samples
    responses: Samples
    incoming: Samples


class LinkMeter:
    """The meter of one connection. Its recordings cost about a microsecond a request."""

    def __init__(self, traffic: tuple[_Traffic, ...], network_io: Samples) -> None:
        self._traffic = traffic
        self._network_io = network_io
        self._sent_ms: dict[Hashable, float] = {}
        """The token of each unanswered request -> the time when it was sent, in ms."""

    @property
    def unanswered(self) -> int:
        """Return the number of requests in flight."""
        return len(self._sent_ms)

    def on_request(self, size_bytes: int, token: Hashable | None, now_ms: float) -> None:
        """Record a request. `token` identifies it in `on_response`; None if it has no response."""
        for traffic in self._traffic:
            traffic.requests.record(size_bytes, now_ms)
        self._network_io.record(1, now_ms)
        if token is not None:
            self._sent_ms[token] = now_ms

    def on_bytes(self, size_bytes: int, now_ms: float) -> None:
        """Record received bytes."""
        for traffic in self._traffic:
            traffic.incoming.record(size_bytes, now_ms)

    def on_response(self, token: Hashable, now_ms: float) -> None:
        """Record the response to a request."""
        sent_ms = self._sent_ms.pop(token, None)
        if sent_ms is not None:
            for traffic in self._traffic:
                traffic.responses.record(now_ms - sent_ms, now_ms)
            self._network_io.record(1, now_ms)


class ConnectionMetrics:
    """The metrics of all connections of a client, in groups such as `producer-metrics` and `producer-node-metrics`."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._group, self._node_group = f"{registry.kind}-metrics", f"{registry.kind}-node-metrics"
        self._all = self._traffic(self._group)
        self._created = registry.samples(self._group, event_names("connection-creation"))
        self._closed = registry.samples(self._group, event_names("connection-close"))
        self._authenticated = registry.samples(self._group, event_names("successful-authentication"))
        self._refused = registry.samples(self._group, event_names("failed-authentication"))
        self._renewed = registry.samples(
            self._group, {**event_names("successful-reauthentication"), **extreme_names("reauthentication-latency")}
        )
        self._not_renewed = registry.samples(self._group, event_names("failed-reauthentication"))
        self._network_io = registry.samples(self._group, NETWORK_IO)
        self._meters: set[LinkMeter] = set()
        registry.gauge(self._group, "connection-count", lambda now_ms: self._created.count - self._closed.count)

    @property
    def unanswered(self) -> int:
        """Return the number of requests in flight."""
        return sum(meter.unanswered for meter in self._meters)

    def _traffic(self, group: str, **tags: str) -> _Traffic:
        return _Traffic(*(self._registry.samples(group, names, None, **tags) for names in (REQUESTS, RESPONSES, INCOMING)))

    def meter(self, node_id: int) -> LinkMeter:
        """Return the meter of a new connection to a broker. Bootstrap servers have ids below 0."""
        return LinkMeter((self._all, self._traffic(self._node_group, node_id=f"node-{node_id}")), self._network_io)

    def on_opened(self, meter: LinkMeter, now_ms: float, *, is_secured: bool) -> None:
        """Record that a connection is open, with TLS or a login if `is_secured`."""
        self._meters.add(meter)
        self._created.record(1, now_ms)
        if is_secured:
            self._authenticated.record(1, now_ms)

    def on_closed(self, meter: LinkMeter, now_ms: float) -> None:
        """Record the end of a connection, the first time."""
        if meter in self._meters:
            self._meters.remove(meter)
            self._closed.record(1, now_ms)

    def on_renewed(self, latency_ms: float | None, now_ms: float) -> None:
        """Record that a login was renewed on an open connection (KIP-368), or with None that this failed."""
        if latency_ms is None:
            self._not_renewed.record(1, now_ms)
        else:
            self._renewed.record(latency_ms, now_ms)

    def on_refused(self, now_ms: float) -> None:
        """Record a failed TLS handshake or login."""
        self._refused.record(1, now_ms)
