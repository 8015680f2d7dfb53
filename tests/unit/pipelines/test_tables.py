"""The columns of a topic are found in its values, and are what `ottla pipeline sql` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipelines.statements import CreateTable, statements_of

pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")

from ottla.pipelines.tables import TopicTable, ValuesOfTables, columns_of, of_schema, of_values
from ottla.spark.errors import OptionError
from ottla.spark.formats.ddl import columns_of as columns_in
from ottla.spark.formats.ddl import text_of


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        ([b'{"a": 1, "b": "x"}', b'{"a": 2.5, "c d": [{"e": true}]}'], "a DOUBLE, b STRING, `c d` ARRAY<STRUCT<e: BOOLEAN>>"),
        ([b'{"at": "2026-11-22T10:00:00Z", "nothing": null}'], "at STRING, nothing STRING"),
        ([b'{"a":\n 1}', b'{"a": 2}'], "a BIGINT"),
        ([b'{"a": 1}', b'{"a": "x"}'], None),
        ([b'{"a": 1}', b"text"], None),
        ([b"{text}"], None),
        ([], None),
    ],
)
def test_columns_are_found_in_values_that_are_json(values: list[bytes], columns: str | None) -> None:
    assert columns_of(values) == columns


def test_a_table_is_created_by_the_statement_that_is_shown() -> None:
    shaped = TopicTable("flights", 2, 10, "a DOUBLE, `c d` ARRAY<STRUCT<e: BOOLEAN>>")
    assert statements_of(shaped.as_sql()) == [CreateTable("flights", shaped.columns, {"subscribe": "flights"})]
    assert statements_of(TopicTable("late-flights", 2, 10, None).as_sql()) == [
        CreateTable("late-flights", None, {"subscribe": "late-flights"})
    ]


def test_columns_of_csv_have_numbers_for_names() -> None:
    values = ValuesOfTables("csv", delimiter=";")
    found = of_values([b"UA;7;1.5", b"B6;8;x"], values)
    assert found == ("c0 STRING, c1 BIGINT, c2 STRING", {"valueFormat": "csv", "delimiter": ";"})
    assert of_values([b"a,b", b"a"], ValuesOfTables("csv")) == (None, {"valueFormat": "csv"})
    table = TopicTable("flights", 1, 2, *found)
    created = CreateTable("flights", found[0], {"subscribe": "flights", **found[1]})
    assert statements_of(table.as_sql()) == [created]


def test_columns_of_arrow_are_those_that_values_say_they_have() -> None:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pylist([{"carrier": "UA", "delays": [1, 2]}])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    found = of_values([b"none", sink.getvalue().to_pybytes()], ValuesOfTables("arrow"))
    assert found == ("carrier STRING, delays ARRAY<BIGINT>", {"valueFormat": "arrow"})
    assert of_values([b"none"], ValuesOfTables("arrow")) == (None, {"valueFormat": "arrow"})


def test_columns_are_those_of_a_schema_or_of_a_registry(tmp_path: Path) -> None:
    schema = '{"type": "record", "name": "F", "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"}]}'
    (tmp_path / "flights-value").mkdir()
    (tmp_path / "flights-value" / "7.avsc").write_text(schema)
    registered = ValuesOfTables(registry=str(tmp_path))
    options = {"valueFormat": "avro", "schemaRegistry": str(tmp_path)}
    assert of_schema("flights", registered) == ("carrier STRING, delay INT", options)
    assert of_schema("weather", registered) is None
    assert statements_of(TopicTable("flights", 1, 2, "carrier STRING, delay INT", options).as_sql()) == [
        CreateTable("flights", None, {"subscribe": "flights", **options})
    ]
    path = str(tmp_path / "flights-value" / "7.avsc")
    named = ValuesOfTables("avro", path)
    assert of_schema("flights", named) == ("carrier STRING, delay INT", {"valueFormat": "avro", "valueSchema": path})
    with pytest.raises(OptionError, match="Values of avro do not describe their columns: name their schema, or a registry"):
        of_values([], ValuesOfTables("avro"))


def test_columns_are_read_as_they_were_written() -> None:
    text = "a INT, `b c` STRUCT<d: DECIMAL(20,0), e: ARRAY<MAP<STRING, TIMESTAMP_NTZ>>>, f TIMESTAMP"
    assert text_of(columns_in(text, "valueSchema")) == text


def test_a_schema_that_is_no_record_makes_no_columns(tmp_path: Path) -> None:
    (tmp_path / "flights-value").mkdir()
    (tmp_path / "flights-value" / "1.avsc").write_text('"int"')
    assert of_schema("flights", ValuesOfTables(registry=str(tmp_path))) is None
