"""PushTelemetry (API key 72): a client sends its metrics. KIP-714."""

from __future__ import annotations

from ottla.wire.schema import Message, Uuid, i8, i16, i32, since


class PushTelemetryRequest(Message, key=72, valid="0", flexible="0+"):
    """A client's push of its metrics, in OTLP and compressed."""

    client_instance_id: Uuid = since()
    subscription_id: i32 = since()
    terminating: bool = since()
    compression_type: i8 = since()
    metrics: bytes = since()


class PushTelemetryResponse(Message, key=72, valid="0", flexible="0+"):
    """The answer to a PushTelemetry request: an error code, 0 if the metrics were accepted."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
