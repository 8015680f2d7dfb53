"""CSV and Arrow: values decoded into typed rows, bad ones named, and rows encoded again."""

from __future__ import annotations

import importlib
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import Format, Formats

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
csv_values = importlib.import_module("ottla.formats.csv_values")
arrow_values = importlib.import_module("ottla.formats.arrow_values")
codecs = importlib.import_module("ottla.spark.formats.codecs")
typed = importlib.import_module("ottla.spark.formats.typed_rows")

FLIGHT = pa.struct([("carrier", pa.string()), ("delay", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
AT = datetime(2013, 1, 1, 10, tzinfo=UTC)


def from_csv(values: list[bytes | None], kind: Any = FLIGHT, delimiter: str = ",") -> Any:
    return csv_values.CsvDecoder(kind, delimiter).decode(pa.array(values, pa.binary()))


def test_fields_of_csv_are_in_the_schemas_order_and_empty_ones_null() -> None:
    decoded = from_csv([b"UA,7,2013-01-01T11:00:00+01:00", b'"",,', None, b'"a ""b"", c\nd",-1,', b" x ,,2013-01-01 10:00:00Z"])
    assert decoded.wrong == {}
    assert [each and tuple(each.values()) for each in decoded.values.to_pylist()] == [
        ("UA", 7, AT),
        ("", None, None),
        None,
        ('a "b", c\nd', -1, None),
        (" x ", None, AT),
    ]


@pytest.mark.slow
def test_times_of_csv_without_a_zone_are_in_utc_beside_those_with_one() -> None:
    values = [b"UA,1,2013-01-01 10:00:00", b"UA,2,2013-01-01T10:00:00Z"] * 300
    decoded = from_csv(list(values))
    assert decoded.wrong == {}
    assert {row["at"] for row in decoded.values.to_pylist()} == {AT}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"UA,late,", "delay: late is no INT"),
        (b"UA,1,yesterday", "at: yesterday is no TIMESTAMP"),
        (b"UA,1", "it is no row of 3 fields"),
        (b"UA,1,,", "it is no row of 3 fields"),
        (b'"UA,1,', "it is no row of 3 fields"),
        (b"UA,1,\nUA,2,", "it is no row of 3 fields"),
        (b"", "it is no row of 3 fields"),
        (b"\xff,1,", "it is not UTF-8"),
    ],
)
def test_a_value_that_is_no_such_row_is_named_and_takes_no_other_with_it(value: bytes, why: str) -> None:
    decoded = from_csv([b"AA,1,", value, b"BB,2,", value])
    assert [each and each["carrier"] for each in decoded.values.to_pylist()] == ["AA", None, "BB", None]
    assert decoded.wrong.keys() == {1, 3}
    assert why in decoded.wrong[1]


def test_rows_become_csv_and_are_read_again() -> None:
    kind = pa.struct([*FLIGHT, ("price", pa.decimal128(8, 2)), ("day", pa.date32()), ("share", pa.float64()), ("yes", pa.bool_())])
    rows = [
        {
            "carrier": 'U;A "x"\r\n',
            "delay": 7,
            "at": AT,
            "price": Decimal("1.20"),
            "day": date(2013, 1, 1),
            "share": 0.5,
            "yes": True,
        },
        None,
        {"carrier": ""},
        {"share": float("-inf")},
        {},
    ]
    wanted = pa.array(rows, kind)
    written = csv_values.CsvEncoder(";").encode(wanted)
    assert written.to_pylist()[1:] == [None, b'"";;;;;;', b";;;;;-Infinity;", b";;;;;;"]
    assert from_csv(written.to_pylist(), kind, ";").values == wanted


def stream(rows: list[dict[str, Any]]) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_a_record_of_arrow_becomes_its_rows_beside_the_records_columns() -> None:
    values = [stream([{"delay": 1, "gate": "x"}, {"delay": 2, "gate": "y"}]), b"none", None, stream([{"carrier": "UA"}])]
    schema = pa.schema([("offset", pa.int64()), ("value", FLIGHT), ("corruptValue", pa.binary())])
    rows = typed.TypedRows(Formats(value=Format("arrow")), schema, "flights-0", None)
    opened = pa.RecordBatch.from_pylist([{"offset": 5 + row, "value": value} for row, value in enumerate(values)], rows.opened)
    found = rows.rows(opened).to_pylist()
    assert [(row["offset"], row["value"] and row["value"]["delay"], row["corruptValue"]) for row in found] == [
        (5, 1, None),
        (5, 2, None),
        (6, None, b"none"),
        (7, None, None),
        (8, None, None),
    ]
    assert found[-1]["value"]["carrier"] == "UA"
    counted = typed.TypedRows(
        Formats(value=Format("arrow"), mode="DROPMALFORMED"), pa.schema([("offset", pa.int64())]), "f-0", None
    )
    assert counted.rows(opened).column("offset").to_pylist() == [5, 5, 7, 8]


def test_damaged_streams_and_wrong_types_are_bad_values() -> None:
    sound = stream([{"carrier": "x" * 50, "delay": 1}])
    decoder = arrow_values.ArrowDecoder(FLIGHT)
    cut = [sound[:size] for size in range(0, len(sound) - 8, 16)]
    damaged = [bytes(byte ^ 0xFF if index == place else byte for index, byte in enumerate(sound)) for place in range(len(sound))]
    decoded = decoder.decode(pa.array([*cut, *damaged, sound], pa.binary()))
    assert decoded.values[-1].as_py()["delay"] == 1
    assert len(decoded.wrong) > len(cut) // 2
    assert "delay" in decoder.decode(pa.array([stream([{"delay": "x"}])])).wrong[0]


def test_rows_are_packed_by_topic_and_partition_into_records_of_limited_size() -> None:
    value = pa.array([{"carrier": "x" * 100, "delay": row} for row in range(10_000)], FLIGHT)
    topics = pa.array(["a", "b"] * 5000)
    partitions = pa.array([0, 0, 1, None] * 2500, pa.int32())
    encode = codecs.EncodedColumns(Formats(value=Format("arrow")), None).rows
    records = encode(pa.RecordBatch.from_arrays([value, topics, partitions], names=["value", "topic", "partition"]))
    assert {(row["topic"], row["partition"]) for row in records.to_pylist()} == {("a", 0), ("a", 1), ("b", 0), ("b", None)}
    assert max(len(each) for each in records.column("value").to_pylist()) < 300_000
    assert 4 <= records.num_rows <= 12
    decoded = arrow_values.ArrowDecoder(FLIGHT).decode(records.column("value"))
    assert sorted(row["delay"] for row in decoded.values.to_pylist()) == list(range(10_000))
    with pytest.raises(OptionError, match="filter such rows out"):
        encode(pa.RecordBatch.from_arrays([pa.nulls(2, FLIGHT)], names=["value"]))
