"""PushTelemetry (API key 72): a client sends its metrics.

KIP-714.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Uuid, i8, i16, i32, since


class PushTelemetryRequest(Message, key=72, valid="0", flexible="0+"):
    """Metrics in OTLP, compressed."""

    client_instance_id: Uuid = since()
    subscription_id: i32 = since()
    terminating: bool = since()
    compression_type: i8 = since()
    metrics: bytes = since()


class PushTelemetryResponse(Message, key=72, valid="0", flexible="0+"):
    """The error, if the metrics were not accepted."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
