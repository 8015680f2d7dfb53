"""A client's pushes of metrics as KIP-714 orders them: intervals, errors by code, deltas, codecs and the bytes in OTLP."""

from __future__ import annotations

from math import nan

import pytest

from ottla.client.admin.otlp import read_metrics
from ottla.client.metrics.registry import Metric, MetricsSnapshot
from ottla.client.metrics.telemetry import GetSubscription, PushMetrics, TelemetryPusher, Wait
from ottla.records.compression.codecs import NONE, SNAPPY, ZSTD, decompress
from ottla.wire import errors as codes
from ottla.wire.api.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse

INSTANCE = bytes(range(16))
SENT = "org.apache.kafka.producer.record.send.total"


def subscription(
    *metrics: str, accepted: tuple[int, ...] = (), delta: bool = True, most: int = 1 << 20
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=INSTANCE,
        subscription_id=7,
        accepted_compression_types=list(accepted),
        push_interval_ms=1_000,
        telemetry_max_bytes=most,
        delta_temporality=delta,
        requested_metrics=list(metrics),
    )


def snapshot(sent: float, time_ms: int = 5_000) -> MetricsSnapshot:
    tags = {"client-id": "me", "node-id": "node-1"}
    return MetricsSnapshot(
        "me",
        time_ms,
        [
            Metric("producer-metrics", "record-send-total", {"client-id": "me"}, sent, "sum"),
            Metric("producer-node-metrics", "request-latency-avg", tags, 2.5, "gauge"),
            Metric("producer-metrics", "batch-size-avg", {"client-id": "me"}, nan, "gauge"),
        ],
    )


def pusher(*metrics: str, random: float = 0.25, **given: object) -> TelemetryPusher:
    made = TelemetryPusher({"transactional_id": "t"}, lambda: random, 1_000)
    assert isinstance(made.next_step(0), GetSubscription)
    made.on_subscription(subscription(*metrics, **given), 0)  # type: ignore[arg-type]  # of `subscription`
    return made


def values(made: TelemetryPusher, taken: MetricsSnapshot) -> dict[str, float | int | None]:
    request = made.push_request(taken)
    assert request is not None
    data = bytes(decompress(request.compression_type, request.metrics, limit_bytes=1 << 20))
    return {metric.name: metric.value for metric in read_metrics(data)}


def test_the_first_push_is_spread_over_an_interval_and_the_others_follow_at_intervals() -> None:
    made = pusher("")
    assert made.next_step(0) == Wait(750)
    assert made.next_step(750) == PushMetrics()
    assert values(made, snapshot(3)) == {SENT: 3, "org.apache.kafka.producer.node.request.latency.avg": 2.5}
    made.on_pushed(codes.NONE, 760)
    assert made.next_step(760) == Wait(1_760)


def test_only_subscribed_metrics_are_pushed_with_their_attributes() -> None:
    made = pusher("org.apache.kafka.producer.node.")
    request = made.push_request(snapshot(3))
    assert request is not None
    assert (request.client_instance_id, request.subscription_id, request.terminating) == (INSTANCE, 7, False)
    (metric,) = read_metrics(request.metrics)
    assert (metric.kind, metric.time_ms, metric.attributes) == ("gauge", 5_000, {"node_id": "node-1"})
    assert b"transactional_id" in request.metrics


def test_a_delta_counts_from_the_last_push_that_was_accepted() -> None:
    made = pusher(SENT)
    assert values(made, snapshot(3)) == {SENT: 3}
    made.on_pushed(codes.THROTTLING_QUOTA_EXCEEDED, 800)
    made.on_subscription(subscription(SENT), 2_000)
    assert values(made, snapshot(5)) == {SENT: 5}
    made.on_pushed(codes.NONE, 3_000)
    assert values(made, snapshot(9)) == {SENT: 4}


def test_sums_can_be_cumulative() -> None:
    made = pusher(SENT, delta=False)
    values(made, snapshot(3))
    made.on_pushed(codes.NONE, 800)
    assert values(made, snapshot(9)) == {SENT: 9}


def test_a_client_without_subscribed_metrics_asks_again_after_the_interval() -> None:
    made = pusher()
    assert not made.has_subscription
    assert made.next_step(0) == Wait(1_000)
    step = made.next_step(1_000)
    assert isinstance(step, GetSubscription)
    assert step.request.client_instance_id == INSTANCE
    assert made.instance_text == "AAECAwQFBgcICQoLDA0ODw"


@pytest.mark.parametrize(
    ("code", "wait_ms"),
    [
        (codes.UNKNOWN_SUBSCRIPTION_ID, 0),
        (codes.UNSUPPORTED_COMPRESSION_TYPE, 0),
        (codes.TELEMETRY_TOO_LARGE, 1_000),
        (codes.THROTTLING_QUOTA_EXCEEDED, 1_000),
        (codes.UNKNOWN_SERVER_ERROR, 1_000),
    ],
)
def test_an_error_leads_to_a_new_subscription_at_once_or_later(code: int, wait_ms: int) -> None:
    made = pusher("")
    made.push_request(snapshot(1))
    made.on_pushed(code, 800)
    if wait_ms:
        assert made.next_step(800) == Wait(800 + wait_ms)
    assert isinstance(made.next_step(800 + wait_ms), GetSubscription)


@pytest.mark.parametrize("code", [codes.INVALID_REQUEST, codes.INVALID_RECORD, codes.UNSUPPORTED_VERSION])
def test_some_errors_are_final(code: int) -> None:
    made = pusher("")
    made.on_pushed(code, 800)
    assert (made.is_over, made.has_subscription) == (True, False)


def test_a_refusal_before_any_subscription_is_retried_after_five_minutes() -> None:
    made = TelemetryPusher({}, lambda: 0, 0)
    made.on_subscription(GetTelemetrySubscriptionsResponse(error_code=codes.THROTTLING_QUOTA_EXCEEDED), 10)
    assert made.next_step(10) == Wait(300_010)
    assert made.instance_text is None


def test_the_first_codec_that_both_know_is_used_until_the_broker_refuses_it() -> None:
    made = pusher("", accepted=(99, ZSTD, SNAPPY))
    request = made.push_request(snapshot(1))
    assert request is not None
    assert request.compression_type == ZSTD
    for expected in (SNAPPY, NONE, NONE):
        made.on_pushed(codes.UNSUPPORTED_COMPRESSION_TYPE, 800)
        made.on_subscription(subscription("", accepted=(99, ZSTD, SNAPPY)), 900)
        request = made.push_request(snapshot(1))
        assert request is not None
        assert request.compression_type == expected


def test_metrics_that_are_too_large_are_not_sent() -> None:
    made = pusher("", most=50)
    assert made.push_request(snapshot(1)) is None
    made.skip(800)
    assert made.next_step(800) == Wait(1_800)
