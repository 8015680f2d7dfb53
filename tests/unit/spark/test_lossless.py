"""Whole ranges of every type go through the formats of text and Avro as they are, or are refused: nothing changes in silence."""

from __future__ import annotations

import importlib
from datetime import UTC
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import Format

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
codecs = importlib.import_module("ottla.spark.formats.codecs")
schemas = importlib.import_module("ottla.spark.formats.schemas")
spark_type, written_schema = schemas.spark_type, schemas.written_schema

DIGITS = st.integers(-(10**38) + 1, 10**38 - 1)
TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "byte": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "double": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "whole decimal": (pa.decimal128(38, 0), DIGITS.map(Decimal)),
    "small decimal": (
        pa.decimal128(38, 38),
        DIGITS.map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -38))),
    ),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
    "local timestamp": (pa.timestamp("us"), st.datetimes()),
    "text": (pa.string(), st.text(max_size=20)),
    "boolean": (pa.bool_(), st.booleans()),
}


def through(name: str, kind: Any, values: list[Any], delimiter: str = ",") -> list[Any]:
    """Return the values of a column that was written and read; None for one that could not be read."""
    whole = pa.struct([("a", kind), ("b", pa.int32())])
    chosen = Format(name, delimiter=delimiter)
    encoded = codecs.encoder_of("value", chosen, whole, "t").encode(pa.array([{"a": each, "b": 1} for each in values], whole))
    if name == "avro":
        chosen = Format(name, written_schema("value", chosen, spark_type(whole)))
    return [row and row["a"] for row in codecs.decoder_of("value", chosen, whole).decode(encoded).values.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["json", "csv", "avro"])
@pytest.mark.parametrize("kind", TYPES)
@settings(deadline=None, max_examples=30)
@given(st.data())
def test_every_value_of_a_type_comes_back_as_it_was(name: str, kind: str, data: st.DataObject) -> None:
    arrow, values = TYPES[kind]
    given = pa.array(data.draw(st.lists(values, min_size=1, max_size=5)), arrow).to_pylist()
    assert through(name, arrow, given) == given


@pytest.mark.parametrize("delimiter", ["-", ".", ":", " ", "0", "T", "\t", ";"])
def test_what_holds_the_delimiter_is_quoted_whatever_its_type(delimiter: str) -> None:
    for kind, values in (
        (pa.float64(), [-0.5, 1e300]),
        (pa.date32(), pa.array([0, 20_000], pa.date32()).to_pylist()),
        (pa.timestamp("us", "UTC"), pa.array([0, 10**15 + 1], pa.timestamp("us", "UTC")).to_pylist()),
        (pa.binary(), [b"", b'a-.: 0T;\t"', b"x"]),
    ):
        assert through("csv", kind, values, delimiter) == values


@pytest.mark.parametrize("delimiter", "09af")
def test_a_digit_may_be_the_delimiter_whatever_marks_the_ends_of_rows(delimiter: str) -> None:
    for _ in range(20):  # each decoder makes a mark of its own
        assert through("csv", pa.string(), ["x", "y"], delimiter) == ["x", "y"]


def test_bytes_that_are_no_text_are_refused_in_csv() -> None:
    with pytest.raises(OptionError, match=r"A BINARY column is not UTF-8 in a row, and csv is text"):
        through("csv", pa.binary(), [b"\xff"])
