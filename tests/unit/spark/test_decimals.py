"""Decimals of up to 38 digits go through every format as they are, or are refused: no digit changes in silence."""

from __future__ import annotations

import importlib
import json
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.spark.errors import OptionError

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
avro_schema = importlib.import_module("ottla.formats.avro_schema")
avro_values = importlib.import_module("ottla.formats.avro_values")
avro_bytes = importlib.import_module("ottla.formats.avro_bytes")
python_values = importlib.import_module("ottla.formats.python_values")
decimals = importlib.import_module("ottla.formats.decimals")

EXACT = Context(prec=100)


@st.composite
def columns(draw: st.DrawFn) -> tuple[int, int, list[Decimal]]:
    """(precision, scale, values) of a column."""
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    most = 10**precision - 1
    numbers = draw(st.lists(st.one_of(st.integers(-most, most), st.sampled_from([most, -most, 0, 1, -1])), max_size=8))
    return precision, scale, [Decimal(number).scaleb(-scale, EXACT) for number in numbers]


def avro_of(precision: int, scale: int, *, size: int = 0) -> Any:
    kind: dict[str, Any] = {"type": "fixed", "name": "d", "size": size} if size else {"type": "bytes"}
    return avro_schema.read(json.dumps({**kind, "logicalType": "decimal", "precision": precision, "scale": scale}), "valueSchema")


@settings(deadline=None)
@given(columns(), st.booleans())
def test_avro_keeps_every_digit(column: tuple[int, int, list[Decimal]], is_fixed: bool) -> None:
    precision, scale, values = column
    kind = pa.decimal128(precision, scale)
    written = avro_of(precision, scale, size=16 if is_fixed else 0)
    encoded = avro_bytes.AvroEncoder(written, "value").encode(pa.array(values, kind))
    found = avro_values.AvroDecoder(kind, written).decode(encoded).values
    assert found.to_pylist() == values


@settings(deadline=None)
@given(columns())
def test_texts_are_read_with_every_digit(column: tuple[int, int, list[Decimal]]) -> None:
    precision, scale, values = column
    for value in values:
        assert python_values._decimal(str(value), pa.decimal128(precision, scale)) == value
        with localcontext(prec=3):
            assert python_values._decimal(f"{value:E}", pa.decimal128(precision, scale)) == value


@settings(deadline=None)
@given(st.integers(0, 38), st.integers(-(10**60), 10**60), st.integers(0, 40))
def test_what_is_not_exact_is_rounded_half_up_or_refused(scale: int, number: int, places: int) -> None:
    value = Decimal(number).scaleb(-places, EXACT)
    made = decimals.parse_rounded(str(value), scale)
    with localcontext(EXACT):
        assert abs(made - value) * 2 <= Decimal(1).scaleb(-scale)
        shifted = value.scaleb(scale)
        if shifted == shifted.to_integral_value():
            assert decimals.to_unscaled(value, scale) == int(shifted)
        else:
            with pytest.raises(ValueError, match="more than"):
                decimals.to_unscaled(value, scale)


def test_a_number_with_more_digits_than_its_schema_has_is_refused() -> None:
    encoder = avro_bytes.AvroEncoder(avro_of(5, 2), "value")
    with pytest.raises(OptionError, match="more than 5 digits"):
        encoder.encode(pa.array([Decimal("12345.67")], pa.decimal128(10, 2)))


@settings(deadline=None)
@given(st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=5), st.booleans())
def test_times_lose_microseconds_as_with_sparks_own_to_avro(micros: list[int], is_local: bool) -> None:
    logical = "local-timestamp-millis" if is_local else "timestamp-millis"
    zone = None if is_local else "UTC"
    schema = avro_schema.read(json.dumps({"type": "long", "logicalType": logical}), "valueSchema")
    start = datetime(1970, 1, 1, tzinfo=None if is_local else UTC)
    times = [start + timedelta(microseconds=each) for each in micros]
    encoded = avro_bytes.AvroEncoder(schema, "value").encode(pa.array(times, pa.timestamp("us", zone)))
    found = avro_values.AvroDecoder(pa.timestamp("us", zone), schema).decode(encoded).values.to_pylist()
    assert found == [start + timedelta(milliseconds=each // 1000) for each in micros]


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("float", 1e300, "too large for a float"),
        ("boolean", 5, "no BOOLEAN in the rows"),
        ({"type": "map", "values": "int"}, "x", "no MAP in the rows"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, 5, "does not fit the schema"),
    ],
)
def test_a_column_of_another_type_than_its_schema_is_refused_and_not_bent(kind: Any, value: Any, why: str) -> None:
    schema = avro_schema.read(json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}), "valueSchema")
    with pytest.raises(OptionError, match=why):
        avro_bytes.AvroEncoder(schema, "value").encode(pa.array([{"a": value}]))
