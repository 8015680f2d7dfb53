"""GetTelemetrySubscriptions (API key 71): a client requests the list of metrics to send. KIP-714."""

from __future__ import annotations

from ottla.wire.schema import Message, Uuid, i8, i16, i32, since


class GetTelemetrySubscriptionsRequest(Message, key=71, valid="0", flexible="0+"):
    """A client's request for the metrics that it must push. Its client instance id is zero in the first request."""

    client_instance_id: Uuid = since()


class GetTelemetrySubscriptionsResponse(Message, key=71, valid="0", flexible="0+"):
    """The metrics that the client must push, the interval between pushes, and the accepted compression types."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    client_instance_id: Uuid = since()
    subscription_id: i32 = since()
    accepted_compression_types: list[i8] = since()
    push_interval_ms: i32 = since()
    telemetry_max_bytes: i32 = since()
    delta_temporality: bool = since()
    requested_metrics: list[str] = since()
