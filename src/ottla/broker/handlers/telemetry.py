"""GetTelemetrySubscriptions and PushTelemetry: what metrics clients are to push, and their pushes (KIP-714).

Neither needs permissions, as in Kafka. What was pushed is read by DescribeConfigs: see `pushed_metrics`.
"""

from __future__ import annotations

from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.telemetry.client_metrics import COMPRESSION_TYPES, ClientMetrics, MetricsClient, Push
from ottla.wire.api.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse
from ottla.wire.api.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.wire.schema import Message

UNKNOWN = "unknown"
"""The name and version of a client that has not said its own (KIP-511)."""


@serves(GetTelemetrySubscriptionsRequest)
def get_telemetry_subscriptions(request: Request[GetTelemetrySubscriptionsRequest], client_metrics: ClientMetrics) -> Reply:
    """Return the metrics that the client is to push, and how often."""
    error_code, instance = client_metrics.subscribe(request.body.client_instance_id, _client(request), request.now)
    if error_code:
        return GetTelemetrySubscriptionsResponse(error_code=error_code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscribed.subscription_id,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=instance.subscribed.interval_ms,
        telemetry_max_bytes=client_metrics.max_bytes,
        delta_temporality=True,
        requested_metrics=list(instance.subscribed.metrics),
    )


@serves(PushTelemetryRequest)
def push_telemetry(request: Request[PushTelemetryRequest], client_metrics: ClientMetrics) -> Reply:
    """Keep the client's metrics, without opening them."""
    body = request.body
    push = Push(body.subscription_id, body.terminating, body.compression_type, bytes(body.metrics))
    error_code = client_metrics.push(body.client_instance_id, _client(request), push, request.now)
    return PushTelemetryResponse(error_code=error_code)


def _client(request: Request[Message]) -> MetricsClient:
    peer = request.peer
    software = peer.client_software_name or UNKNOWN, peer.client_software_version or UNKNOWN
    return MetricsClient(request.client_id or "", *software, peer.host, peer.port)
