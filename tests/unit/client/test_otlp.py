"""Metrics in OTLP as clients push them: every kind of data point is read, and other bytes are refused in one way."""

from __future__ import annotations

import random
import struct

import pytest

from ottla.client.admin.otlp import ClientMetric, MalformedMetrics, read_metrics


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def field(number: int, value: int | float | bytes | str) -> bytes:
    """A field: an int as eight bytes, as data points have them."""
    if isinstance(value, int | float):
        return varint(number << 3 | 1) + struct.pack("<q" if isinstance(value, int) else "<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(key: str, value: bytes) -> bytes:
    return field(1, key) + field(2, value)


def metrics(*found: bytes) -> bytes:
    """The message around metrics, of a client with a resource and a scope."""
    scope = field(1, field(1, "scope")) + b"".join(field(2, one) for one in found)
    return field(1, field(1, field(1, attribute("host", field(1, "h")))) + field(2, scope))


def metric(kind: int, *points: bytes, unit: str = "ms") -> bytes:
    return field(1, "org.x") + field(2, "described") + field(3, unit) + field(kind, b"".join(field(1, one) for one in points))


TIME = field(2, 5) + field(3, 7_000_000)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (metric(5, TIME + field(4, 1.5)), ClientMetric("org.x", "gauge", "ms", 1.5, None, 7, {})),
        (metric(7, TIME + field(6, -3), unit=""), ClientMetric("org.x", "sum", "", -3, None, 7, {})),
        (metric(9, TIME + field(4, 4) + field(5, 2.5)), ClientMetric("org.x", "histogram", "ms", 2.5, 4, 7, {})),
        (
            metric(11, field(7, attribute("k", field(1, "v"))) + field(4, 4)),
            ClientMetric("org.x", "summary", "ms", None, 4, 0, {"k": "v"}),
        ),
        (
            metric(10, field(1, attribute("k", b"\x10\x01")) + field(4, 1)),
            ClientMetric("org.x", "histogram", "ms", None, 1, 0, {"k": True}),
        ),
        (
            metric(9, field(9, attribute("k", field(4, 0.5))) + field(4, 1)),
            ClientMetric("org.x", "histogram", "ms", None, 1, 0, {"k": 0.5}),
        ),
        (
            metric(5, field(7, attribute("k", b"\x18" + b"\xff" * 9 + b"\x01")) + field(7, attribute("l", field(5, b"")))),
            ClientMetric("org.x", "gauge", "ms", None, None, 0, {"k": -1, "l": None}),
        ),
    ],
)
def test_each_kind_of_data_point_is_read(data: bytes, expected: ClientMetric) -> None:
    assert read_metrics(metrics(data, field(99, b"unknown"))) == [expected]


def test_each_data_point_is_a_value_of_its_own_and_nothing_is_no_metric() -> None:
    found = read_metrics(metrics(metric(5, TIME + field(6, 1), TIME + field(6, 2))) + metrics(metric(7, field(6, 3))))
    assert [one.value for one in found] == [1, 2, 3]
    assert read_metrics(b"") == read_metrics(metrics()) == []


@pytest.mark.parametrize(
    "data", [b"\x0a", b"\x0a\x05a", b"\x0b", b"\x80" * 11, b"\x08\x01", metrics(field(1, b"\xff") + field(5, b""))]
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMetrics):
        read_metrics(data)


def test_damaged_metrics_are_read_or_refused_and_nothing_else() -> None:
    source, read = random.Random(1), 0
    whole = metrics(*(metric(kind, TIME + field(7, attribute("k", field(1, "v"))) + field(6, 2)) for kind in (5, 7, 9, 10, 11)))
    for _ in range(3000):
        damaged = bytearray(whole[: source.randrange(1, len(whole) + 1)])
        damaged[source.randrange(len(damaged))] = source.randrange(256)
        try:
            read_metrics(bytes(damaged))
        except MalformedMetrics:
            continue
        read += 1
    assert 0 < read < 3000
