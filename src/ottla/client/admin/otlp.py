"""A reader and a writer of metrics in OTLP, the protobuf messages of OpenTelemetry that clients push to brokers (KIP-714).

It knows the part that clients of Kafka write: numbers, sums and histograms with their attributes. Unknown fields are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
KINDS: Final = {5: ("gauge", 7), 7: ("sum", 7), 9: ("histogram", 9), 10: ("histogram", 1), 11: ("summary", 7)}
"""The field of a metric that has its data points -> what they are, and the field of each that has its attributes."""
COUNTED: Final = ("histogram", "summary")
MOST_BYTES: Final = 10
"""The longest varint, in bytes."""

Scalar: TypeAlias = str | bool | int | float | None
Field: TypeAlias = tuple[int, int | memoryview]


class MalformedMetrics(ValueError):
    """Raised for bytes that are not metrics in OTLP (OpenTelemetry). The text says why."""


class ClientMetric(NamedTuple):
    """One data point of a metric. For a histogram or a summary, `value` is the sum and `samples` the number of values."""

    name: str
    kind: str
    unit: str
    value: float | int | None
    samples: int | None
    time_ms: int
    attributes: dict[str, Scalar]


def read_metrics(data: bytes) -> list[ClientMetric]:
    """Return every data point in OTLP bytes. Raises `MalformedMetrics`."""
    try:
        return [
            point
            for resource in _messages(memoryview(data), 1)
            for scope in _messages(resource, 2)
            for metric in _messages(scope, 2)
            for point in _points(metric)
        ]
    except (IndexError, struct.error, UnicodeDecodeError, TypeError, OverflowError) as error:
        raise MalformedMetrics(f"{error}.") from error


def _points(metric: memoryview) -> Iterator[ClientMetric]:
    fields = list(_fields(metric))
    texts = {number: bytes(_as_bytes(value)).decode() for number, value in fields if number in (1, 3)}
    for number, value in fields:
        if number in KINDS:
            kind, attributes_field = KINDS[number]
            for point in _messages(_as_bytes(value), 1):
                yield _point(ClientMetric(texts.get(1, ""), kind, texts.get(3, ""), None, None, 0, {}), attributes_field, point)


def _point(metric: ClientMetric, attributes_field: int, data: memoryview) -> ClientMetric:
    """Return `metric` with the attributes and the value of one data point. The name, kind and unit are already in `metric`."""
    value, samples, time_ms = metric.value, metric.samples, metric.time_ms
    is_counted = metric.kind in COUNTED
    attributes: dict[str, Scalar] = {}
    for number, raw in _fields(data):
        if number == attributes_field:
            key, scalar = _attribute(_as_bytes(raw))
            attributes[key] = scalar
        elif number == 3:
            time_ms = _as_whole(raw) // 1_000_000
        elif number == 4 and is_counted:
            samples = _as_whole(raw)
        elif number == (5 if is_counted else 4):
            value = _as_double(raw)
        elif number == 6 and not is_counted:
            value = _to_signed(_as_whole(raw))
    return metric._replace(value=value, samples=samples, time_ms=time_ms, attributes=attributes)


def _attribute(data: memoryview) -> tuple[str, Scalar]:
    key, scalar = "", None
    for number, raw in _fields(data):
        if number == 1:
            key = bytes(_as_bytes(raw)).decode()
        elif number == 2:
            scalar = _scalar(_as_bytes(raw))
    return key, scalar


def _scalar(data: memoryview) -> Scalar:
    """Return the value of an attribute, or None for an array, a map or bytes."""
    for number, raw in _fields(data):
        if number == 1:
            return bytes(_as_bytes(raw)).decode()
        if number == 2:
            return bool(_as_whole(raw))
        if number == 3:
            return _to_signed(_as_whole(raw))
        if number == 4:
            return _as_double(raw)
    return None


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    return (_as_bytes(value) for number, value in _fields(data) if number == wanted)


def _fields(data: memoryview) -> Iterator[Field]:
    """Yield (number, value) of each field of a Protobuf message. A value is an integer, or the bytes of a length-delimited
    field.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        size = {FIXED_64: 8, FIXED_32: 4}.get(kind, 0)
        if kind == BYTES:
            size, at = _varint(data, at)
        elif not size:
            raise MalformedMetrics(f"A field has the unknown type {kind}.")
        if size > len(data) - at:
            raise MalformedMetrics(f"A field of {size} bytes has {len(data) - at} bytes.")
        piece = data[at : at + size]
        yield number, piece if kind == BYTES else int.from_bytes(piece, "little")
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for index in range(MOST_BYTES):
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise MalformedMetrics("A number has more than 10 bytes.")


def _as_bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise MalformedMetrics("A number stands where a message is expected.")
    return value


def _as_whole(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise MalformedMetrics("A message stands where a number is expected.")
    return value


def _as_double(value: int | memoryview) -> float:
    (found,) = struct.unpack("<d", _as_whole(value).to_bytes(8, "little"))
    return float(found)


def _to_signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


# --- writing

DELTA: Final = 1
CUMULATIVE: Final = 2


class OtlpPoint(NamedTuple):
    """A data point to write: of a sum that began at `start_ms`, or of a gauge, if that is None. Times are in ms since 1970."""

    name: str
    value: float
    attributes: tuple[tuple[str, str], ...]
    time_ms: int
    start_ms: int | None = None
    is_delta: bool = False


def write_metrics(points: Iterable[OtlpPoint], resource: Mapping[str, str]) -> bytes:
    """Return data points in OTLP, as `read_metrics` reads them. `resource` has the attributes of the client."""
    scope = b"".join(_write(2, _metric(point)) for point in points)
    attributes = b"".join(_write(1, _key_value(key, value)) for key, value in resource.items())
    return _write(1, _write(1, attributes) + _write(2, scope))


def _metric(point: OtlpPoint) -> bytes:
    times = b"" if point.start_ms is None else _write_time(2, point.start_ms * 1_000_000)
    times += _write_time(3, point.time_ms * 1_000_000)
    value = bytes([4 << 3 | FIXED_64]) + struct.pack("<d", point.value)
    attributes = b"".join(_write(7, _key_value(key, text)) for key, text in point.attributes)
    data = _write(1, times + value + attributes)
    if point.start_ms is None:
        return _write(1, point.name.encode()) + _write(5, data)
    temporality = bytes([2 << 3, DELTA if point.is_delta else CUMULATIVE, 3 << 3, 1])  # monotonic
    return _write(1, point.name.encode()) + _write(7, data + temporality)


def _key_value(key: str, value: str) -> bytes:
    return _write(1, key.encode()) + _write(2, _write(1, value.encode()))


def _write_time(number: int, value: int) -> bytes:
    return bytes([number << 3 | FIXED_64]) + struct.pack("<Q", value)


def _write(number: int, data: bytes) -> bytes:
    """Return a length-delimited field."""
    size, length = len(data), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((number << 3 | BYTES, *length, size)) + data
