"""Values are resolved from the writer's schema of Avro to the reader's as fastavro does it."""

from __future__ import annotations

import importlib
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
fastavro = pytest.importorskip("fastavro", reason="fastavro is absent: pip install fastavro")
to_arrow_schema = importlib.import_module("pyspark.sql.pandas.types").to_arrow_schema
avro_schema = importlib.import_module("ottla.formats.avro_schema")
avro_values = importlib.import_module("ottla.formats.avro_values")
schemas = importlib.import_module("ottla.spark.formats.schemas")


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": list(fields)}


def resolved(written: dict[str, Any], asked: dict[str, Any], rows: list[Any]) -> tuple[list[Any], list[Any], dict[int, str]]:
    """Return the rows by fastavro and by us, and what is wrong with ours."""
    values, theirs = [], []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(written), row)
        values.append(out.getvalue())
        theirs.append(
            fastavro.schemaless_reader(io.BytesIO(values[-1]), fastavro.parse_schema(written), fastavro.parse_schema(asked))
        )
    node = avro_schema.read(json.dumps(asked), "valueSchema")
    kind = avro_schema.arrow_type(node)
    made = avro_values.AvroDecoder(kind, avro_schema.read(json.dumps(written), "valueSchema"), node).decode(
        pa.array(values, pa.binary())
    )
    return theirs, made.values.to_pylist(maps_as_pydicts="strict"), made.wrong


A = {"name": "a", "type": "int"}
POINT = record({"name": "x", "type": "int"}, {"name": "y", "type": "string", "default": "d"}) | {"name": "s"}
DEFAULTS: list[tuple[Any, Any]] = [
    ("int", -3),
    ("long", 2**40),
    ("float", 1.5),
    ("double", -0.25),
    ("boolean", True),
    ("string", "\u00e9"),
    ("bytes", "\u00ff\u0000"),
    (["null", "int"], None),
    (["int", "null"], 7),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "long"}, {"k": 1}),
    ({"type": "enum", "name": "e", "symbols": ["X", "Y"]}, "Y"),
    ({"type": "fixed", "name": "f", "size": 2}, "\u0001\u00fe"),
    (POINT, {"x": 1}),
    ({"type": "int", "logicalType": "date"}, 15_000),
    ({"type": "long", "logicalType": "timestamp-micros"}, 1_500_000_000_000_001),
]


@pytest.mark.parametrize(("kind", "default"), DEFAULTS, ids=str)
def test_what_the_writer_does_not_have_is_the_readers_default(kind: Any, default: Any) -> None:
    asked = record({"name": "b", "type": kind, "default": default}, A)
    theirs, ours, wrong = resolved(record(A), asked, [{"a": 1}, {"a": 2}])
    assert wrong == {}
    if isinstance(kind, dict) and kind["type"] == "record":  # fastavro leaves out the defaults within a default
        assert ours == [{"b": {"x": 1, "y": "d"}, "a": each} for each in (1, 2)]
    elif isinstance(kind, dict) and "logicalType" in kind:  # fastavro gives the number
        (found,) = {each["b"] for each in ours}
        assert pa.scalar(found).cast(pa.int32() if kind["type"] == "int" else pa.int64()).as_py() == default
    else:
        raw = "latin-1" if kind == "bytes" or (isinstance(kind, dict) and kind["type"] == "fixed") else None
        assert ours == [{"b": default.encode(raw) if raw else default, "a": each} for each in (1, 2)]
        assert raw or theirs == ours


def test_a_field_is_found_by_its_alias() -> None:
    asked = record({"name": "b", "type": "long", "aliases": ["z", "a"], "default": 5}, {"name": "c", "type": "int", "default": 1})
    theirs, ours, wrong = resolved(record(A), asked, [{"a": 1}, {"a": 2}])
    assert (ours, wrong) == (theirs, {})
    assert ours == [{"b": 1, "c": 1}, {"b": 2, "c": 1}]


def test_a_symbol_that_the_reader_does_not_have_is_its_default() -> None:
    def field(*symbols: str, **more: str) -> dict[str, Any]:
        return {"name": "e", "type": {"type": "enum", "name": "e", "symbols": list(symbols), **more}}

    _, ours, _ = resolved(record(field("A", "B")), record(field("A", "U", default="U")), [{"e": "A"}, {"e": "B"}])
    assert ours == [{"e": "A"}, {"e": "U"}]


NUMBERS = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
MIXED = st.one_of(st.none(), st.integers(-9, 9), st.text(max_size=3), st.booleans())


@settings(deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=9))
def test_a_union_of_numbers_is_one_column_in_the_order_of_its_rows(numbers: list[int]) -> None:
    schema = record({"name": "u", "type": ["int", "long"]})
    theirs, ours, wrong = resolved(schema, schema, [{"u": each} for each in numbers])
    assert (ours, wrong) == (theirs, {})


@settings(deadline=None)
@given(st.lists(MIXED, min_size=1, max_size=9))
def test_a_union_of_several_types_is_a_struct_as_with_spark(values: list[Any]) -> None:
    """Also where the writer has these types in another order, and one of them alone."""
    types = ["int", "string", "boolean"]
    asked = record({"name": "u", "type": ["null", *types]})

    def member(value: Any) -> dict[str, Any] | None:
        at = None if value is None else 2 if isinstance(value, bool) else int(isinstance(value, str))
        return None if at is None else {f"member{place}": value if place == at else None for place in range(3)}

    for written in (["null", *types], ["boolean", "string", "null", "int"]):
        rows = [{"u": ("boolean", each) if isinstance(each, bool) else each} for each in values]
        _, ours, wrong = resolved(record({"name": "u", "type": written}), asked, rows)
        assert (ours, wrong) == ([{"u": member(each)} for each in values], {})
    texts = [each for each in values if isinstance(each, str)]
    _, ours, wrong = resolved(record({"name": "u", "type": "string"}), asked, [{"u": each} for each in texts])
    assert (ours, wrong) == ([{"u": member(each)} for each in texts], {})


@pytest.mark.parametrize(
    ("narrow", "wide"), [("int", "long"), ("int", "double"), ("long", "float"), ("float", "double"), ("string", "bytes")]
)
def test_a_type_becomes_a_wider_one(narrow: str, wide: str) -> None:
    rows = [{"u": "a"}, {"u": "b"}] if narrow == "string" else [{"u": 1}, {"u": 2}]
    for asked in (wide, ["null", wide]):
        theirs, ours, wrong = resolved(record({"name": "u", "type": narrow}), record({"name": "u", "type": asked}), rows)
        assert (
            [{"u": each["u"].encode() if wide == "bytes" and isinstance(each["u"], str) else each["u"]} for each in theirs],
            {},
        ) == (ours, wrong)


def test_a_value_of_a_type_that_the_union_does_not_have_is_a_bad_value() -> None:
    asked = record({"name": "u", "type": ["int", "string"]})
    node = avro_schema.read(json.dumps(asked), "valueSchema")
    kind = avro_schema.arrow_type(node)
    written = avro_schema.read(json.dumps(record({"name": "u", "type": "boolean"})), "valueSchema")
    made = avro_values.AvroDecoder(kind, written, node).decode(pa.array([b"\x01"], pa.binary()))
    assert "has a boolean, which the union asked for does not have" in made.wrong[0]
