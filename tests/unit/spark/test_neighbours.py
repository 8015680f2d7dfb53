"""A value is decoded alone as it is beside one that does not fit, and no number or time passes that its type cannot hold."""

from __future__ import annotations

import importlib
import json
from decimal import Decimal
from typing import Any

import pytest

from ottla.spark.formats.choice import Format

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
codecs = importlib.import_module("ottla.spark.formats.codecs")

TYPES = {
    "decimal": pa.decimal128(10, 2),
    "all behind the point": pa.decimal128(38, 38),
    "none behind the point": pa.decimal128(38, 0),
    "long": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "local timestamp": pa.timestamp("us"),
}
TEXTS = [
    *("0", "1", "-1", "127", "3.5", "1e2", "1e37", "1e38", "1e77", "9" * 38, "9" * 39, "0." + "3" * 38),
    *("123456789.9", "-123456789.9", "2147483648", "12345678901234567890", "NaN", "-Infinity", "1_000", "\u0661"),
    *("0000-01-01", "0000-12-31", "0001-01-01", "9999-12-31", "10000-01-01", "2026-01-01 00:00:00"),
    *("0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00", "0000-02-29T10:00:00Z"),
]


def of_json(text: str) -> list[bytes]:
    return [f'{{"a":{text}}}'.encode(), f'{{"a":"{text}"}}'.encode()]


def both_ways(chosen: Format, kind: Any, raws: list[bytes]) -> list[tuple[Any, Any]]:
    """Each value as it is decoded alone, and beside a value that does not fit. Raises where a value is none of its type."""
    found = []
    for raw in raws:
        decoders = [codecs.decoder_of("value", chosen, kind) for _ in range(2)]
        alone = decoders[0].decode(pa.array([raw], pa.binary())).values
        beside = decoders[1].decode(pa.array([raw, b"\xff"], pa.binary())).values.slice(0, 1)
        for each in (alone, beside):
            each.validate(full=True)
        found.append(([plain(alone)], [plain(beside)]))
    return found


def plain(rows: Any) -> Any:
    """The only row, with times as numbers, as Python has none of year 0."""
    if not rows[0].is_valid:
        return None
    held = rows.field("a")
    if pa.types.is_date32(held.type):
        held = held.cast(pa.int32())
    return (held.cast(pa.int64()) if pa.types.is_timestamp(held.type) else held).to_pylist()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["json", "csv"])
def test_texts_are_read_alone_as_beside_what_does_not_fit(name: str, kind: str) -> None:
    raws = [raw for text in TEXTS for raw in (of_json(text) if name == "json" else [text.encode()])]
    for raw, (alone, beside) in zip(raws, both_ways(Format(name), pa.struct([("a", TYPES[kind])]), raws), strict=True):
        assert repr(alone) == repr(beside), raw


@pytest.mark.parametrize("name", ["json", "csv"])
def test_a_number_of_more_digits_than_its_column_does_not_fit(name: str) -> None:
    kind = pa.struct([("a", pa.decimal128(38, 38))])
    for text in ("1", "3.5", "127", "-127", "1e2", "9" * 38, "12345678901234567890", "1e-39" if name == "csv" else "1e38"):
        decoded = codecs.decoder_of("value", Format(name), kind).decode(
            pa.array([of_json(text)[0] if name == "json" else text.encode()])
        )
        assert list(decoded.wrong) == [0], text
    whole = "-0." + "9" * 38
    decoded = codecs.decoder_of("value", Format(name), kind).decode(
        pa.array([of_json(whole)[0] if name == "json" else whole.encode()])
    )
    assert decoded.values.to_pylist() == [{"a": Decimal(whole)}]


@pytest.mark.parametrize("written", ["NaN", '"NaN"', '"Infinity"', '"1_000"', '"\u0661"', "-Infinity"])
def test_what_is_no_number_is_a_misfit_of_a_decimal_and_no_error(written: str) -> None:
    kind = pa.struct([("a", pa.decimal128(10, 2))])
    decoded = codecs.decoder_of("value", Format("json"), kind).decode(pa.array([f'{{"a":{written}}}'.encode(), b'{"a":1}']))
    assert decoded.values.to_pylist() == [None, {"a": Decimal("1.00")}]
    assert "is no DECIMAL(10,2)" in decoded.wrong[0]


def zigzag(number: int) -> bytes:
    number, made = (number << 1) ^ (number >> 63), b""
    while number > 127:
        number, made = number >> 7, made + bytes([number & 127 | 128])
    return made + bytes([number])


def of_avro(kind: Any) -> Format:
    return Format("avro", json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}))


@pytest.mark.parametrize(
    ("logical", "kind", "number"),
    [
        ("date", pa.date32(), 10_000_000),
        ("timestamp-micros", pa.timestamp("us", "UTC"), 2**62),
        ("local-timestamp-millis", pa.timestamp("us"), -(2**52)),
    ],
)
def test_times_of_avro_that_python_has_not_are_read_beside_what_does_not_fit(logical: str, kind: Any, number: int) -> None:
    chosen = of_avro({"type": "int" if logical == "date" else "long", "logicalType": logical})
    ((alone, beside),) = both_ways(chosen, pa.struct([("a", kind)]), [zigzag(number)])
    assert alone == beside == [[number * (1000 if logical.endswith("millis") else 1)]]


def test_counts_and_numbers_beyond_64_bits_are_misfits() -> None:
    listed = codecs.decoder_of("value", of_avro({"type": "array", "items": "int"}), pa.struct([("a", pa.list_(pa.int32()))]))
    assert list(listed.decode(pa.array([b"\xff" * 9 + b"\x01\x00\x00"])).wrong) == [0]
    number = codecs.decoder_of("value", of_avro("long"), pa.struct([("a", pa.int64())]))
    decoded = number.decode(pa.array([b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x7f"]))
    assert decoded.values.to_pylist() == [{"a": -(2**63)}, None]
