"""Avro: what fastavro writes is read in columns, what is written is byte for byte what fastavro writes."""

from __future__ import annotations

import importlib
import io
import json
import random
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from ottla.spark.errors import OptionError

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
fastavro = pytest.importorskip("fastavro", reason="fastavro is absent: pip install fastavro")
to_arrow_schema = importlib.import_module("pyspark.sql.pandas.types").to_arrow_schema
avro_schema = importlib.import_module("ottla.formats.avro_schema")
avro_values = importlib.import_module("ottla.formats.avro_values")
avro_bytes = importlib.import_module("ottla.formats.avro_bytes")
avro_schema_of = importlib.import_module("ottla.spark.formats.written_schemas").avro_schema_of
columns_of = importlib.import_module("ottla.spark.formats.ddl").columns_of

EVERYTHING = """
i INT, l BIGINT, f FLOAT, d DOUBLE, s STRING, b BINARY, o BOOLEAN, dt DATE, t TIMESTAMP, n TIMESTAMP_NTZ, c DECIMAL(20, 3),
a ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, BIGINT>, st STRUCT<q: ARRAY<INT>>
"""


def arrow_type(ddl: str) -> Any:
    return pa.struct(list(to_arrow_schema(columns_of(ddl, "valueSchema"), timezone="UTC")))


def by_fastavro(schema: Any, rows: list[Any]) -> Any:
    written = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
        written.append(out.getvalue())
    return pa.array(written, pa.binary())


def decode(schema: Any, kind: Any, values: Any) -> Any:
    return avro_values.AvroDecoder(kind, avro_schema.read(json.dumps(schema), "valueSchema")).decode(values)


def random_row(chance: random.Random) -> dict[str, Any]:
    makers: dict[str, Any] = {
        "i": lambda: chance.randrange(-(2**31), 2**31),
        "l": lambda: chance.choice([0, -1, 63, 64, -64, -65, 2**63 - 1, -(2**63)]),
        "f": lambda: 1.5,
        "d": chance.random,
        "s": lambda: "é" * chance.randrange(200),
        "b": lambda: bytes(chance.randrange(5)),
        "o": lambda: chance.random() < 0.5,
        "dt": lambda: date(2013, 1, 2),
        "t": lambda: datetime(2013, 1, 2, 3, 4, 5, 6, UTC),
        "n": lambda: datetime(1913, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 # a time without a zone
        "c": lambda: Decimal(chance.randrange(-(10**15), 10**15)).scaleb(-3),
        "a": lambda: [chance.choice([None, {"x": each, "y": None}, {"x": None, "y": "y"}]) for each in range(chance.randrange(5))],
        "m": lambda: {str(each): chance.choice([None, each]) for each in range(chance.randrange(4))},
        "st": lambda: {"q": chance.choice([None, [], [1, None, 3]])},
    }
    return {name: None if chance.random() < 0.2 else make() for name, make in makers.items()}


def test_every_type_is_written_as_fastavro_does_and_read_again() -> None:
    schema, kind = avro_schema_of(columns_of(EVERYTHING, "valueSchema")), arrow_type(EVERYTHING)
    node = avro_schema.read(json.dumps(schema), "valueSchema")
    assert avro_schema.arrow_type(node) == kind
    chance = random.Random(7)
    rows = [random_row(chance) for _ in range(400)]
    column = pa.array([{**row, "m": None if row["m"] is None else list(row["m"].items())} for row in rows] + [None], kind)
    written = avro_bytes.AvroEncoder(node, "value").encode(column)
    assert written[-1].as_py() is None
    assert written.slice(0, len(rows)) == by_fastavro(schema, rows)
    decoded = decode(schema, kind, written)
    assert decoded.wrong == {}
    assert decoded.values.to_pylist() == column.to_pylist()


WRITTEN: dict[str, Any] = {
    "type": "record",
    "name": "flights.Flight",
    "fields": [
        {"name": "carrier", "type": {"type": "enum", "name": "Carrier", "symbols": ["AA", "UA"]}},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 3}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "price",
            "type": {"type": "fixed", "name": "Price", "size": 8, "logicalType": "decimal", "precision": 10, "scale": 2},
        },
        {"name": "other", "type": ["null", "string", "long", "Carrier"]},
        {"name": "gates", "type": {"type": "array", "items": "int"}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "Code"]}},
        {"name": "delay", "type": ["null", "int"]},
    ],
}
ROW = {
    "carrier": "UA",
    "code": b"JFK",
    "at": datetime(2013, 1, 1, 10, tzinfo=UTC),
    "price": Decimal("-12.50"),
    "other": "x",
    "gates": [1, 2],
    "tags": {"a": b"LAX", "b": None},
    "delay": 7,
}


def test_columns_are_found_by_name_in_what_others_wrote_and_widened() -> None:
    values = by_fastavro(WRITTEN, [ROW, {**ROW, "other": 5, "delay": None, "gates": []}, {**ROW, "other": None}])
    ddl = "delay BIGINT, carrier STRING, code BINARY, at TIMESTAMP, price DECIMAL(12, 2), gates ARRAY<BIGINT>, "
    ddl += "tags MAP<STRING, BINARY>, new INT"
    decoded = decode(WRITTEN, arrow_type(ddl), values)
    assert decoded.wrong == {}
    first, second, _ = decoded.values.to_pylist()
    assert first == {
        **{name: ROW[name] for name in ("carrier", "code", "at", "price", "gates", "delay")},
        "tags": first["tags"],
        "new": None,
    }
    assert first["tags"] == [("a", b"LAX"), ("b", None)]
    assert (second["delay"], second["gates"]) == (None, [])


def test_values_that_are_cut_or_damaged_are_bad_and_their_neighbours_good() -> None:
    (sound,) = by_fastavro(WRITTEN, [ROW]).to_pylist()
    chance = random.Random(3)
    bad = [sound[:size] for size in range(len(sound))] + [sound + b"\x00"]
    bad += [bytes(chance.randrange(256) for _ in range(chance.randrange(40))) for _ in range(300)]
    values = [each for one in bad for each in (sound, one)]
    decoded = decode(WRITTEN, arrow_type("carrier STRING, delay INT"), pa.array(values, pa.binary()))
    found = decoded.values.to_pylist()
    assert all(each == {"carrier": "UA", "delay": 7} for each in found[::2])
    assert set(range(1, 2 * (len(sound) + 1), 2)) <= decoded.wrong.keys()
    assert all(found[row] is None for row in decoded.wrong)


def test_an_array_that_claims_to_be_endless_is_a_bad_value() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}
    endless = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    decoded = decode(schema, arrow_type("b INT"), pa.array([endless, b"\x00"], pa.binary()))
    assert decoded.wrong == {0: "it ends too early"}


@pytest.mark.parametrize(
    "items", ["null", {"type": "record", "name": "e", "fields": []}, {"type": "fixed", "name": "f", "size": 0}]
)
def test_a_value_does_not_have_more_items_than_bytes_if_they_take_none(items: object) -> None:
    """Blocks, each of which is no longer than the bytes left, and arrays in arrays would multiply otherwise."""
    array = {"type": "array", "items": items}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": array}, {"name": "n", "type": "int"}]}
    few, many = b"\x04\x00\x02", b"\x08" * 8 + b"\x00\x02"
    decoded = decode(schema, arrow_type("n INT"), pa.array([few, many], pa.binary()))
    assert decoded.values.to_pylist() == [{"n": 1}, None]
    assert decoded.wrong == {1: "it has more items than bytes"}
    nested = {"type": "array", "items": array}
    schema["fields"] = [{"name": "a", "type": nested}, {"name": "n", "type": "int"}]
    decoded = decode(
        schema, arrow_type("n INT"), pa.array([b"\x04" + b"\x04\x00" * 2 + b"\x00\x02", b"\x06" + b"\x06\x00" * 3 + b"\x00\x02"])
    )
    assert decoded.wrong == {1: "it has more items than bytes"}


@pytest.mark.parametrize(
    ("field", "ddl", "why"),
    [
        ("carrier", "delay STRING, carrier INT", "UA"),
        ("at", "at TIMESTAMP_NTZ", "zone"),
        ("gates", "gates STRING", "an array stands where none is asked for"),
    ],
)
def test_a_type_that_does_not_fit_what_was_written_makes_values_bad(field: str, ddl: str, why: str) -> None:
    decoded = decode(WRITTEN, arrow_type(ddl), by_fastavro(WRITTEN, [ROW]))
    assert field in ddl
    assert decoded.wrong.keys() == {0}
    assert why in decoded.wrong[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no schema of Avro that can be read"),
        ('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "r"}]}', "holds itself"),
        ('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "q"}]}', "there is no type q"),
    ],
)
def test_schemas_that_are_none_are_told(text: str, why: str) -> None:
    with pytest.raises(OptionError, match=re.escape(why)):
        avro_schema.read(text, "valueSchema")


def test_what_is_always_null_has_no_column() -> None:
    with pytest.raises(OptionError, match=re.escape("leave it out of the columns to read")):
        avro_schema.arrow_type(avro_schema.read('{"type": "record", "name": "r", "fields": [{"name": "n", "type": "null"}]}', "s"))


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"carrier": None}, "value.carrier is null in a row"),
        ({"carrier": "BB"}, "value.carrier is a text in a row that is none of AA, UA"),
        ({"carrier": "AA", "gate": 1}, "value.gate is not in the schema of Avro"),
    ],
)
def test_rows_that_their_schema_has_no_place_for_are_told(row: dict[str, Any], why: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [WRITTEN["fields"][0]]}
    encoder = avro_bytes.AvroEncoder(avro_schema.read(json.dumps(schema), "valueSchema"), "value")
    fields = [("carrier", pa.string())] + ([("gate", pa.int32())] if "gate" in row else [])
    with pytest.raises(OptionError, match=re.escape(why)):
        encoder.encode(pa.array([row], pa.struct(fields)))
