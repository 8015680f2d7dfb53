"""What becomes of a task's rows: typed columns, and of values that do not fit a column, a dead letter, an error or nothing."""

from __future__ import annotations

import importlib
import logging
from typing import Any

import pytest

from ottla.spark.errors import MalformedRecord
from ottla.spark.formats.choice import DROP, FAIL, PERMISSIVE, Format, Formats

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[spark]'")
pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
TypedRows: Any = importlib.import_module("ottla.spark.formats.typed_rows").TypedRows

VALUE = pa.struct([("delay", pa.int32())])
JSON = Format("json")
RECORDS = [(b"k0", b'{"delay": 0}'), (b"k1", b"late"), (None, b'{"delay": 2}'), (b"k3", None), (b"k4", b'{"delay": "x"}')]


def opened(typed: Any) -> Any:
    rows = [{"key": key, "value": value, "offset": 100 + row, "topic": "flights"} for row, (key, value) in enumerate(RECORDS)]
    return pa.RecordBatch.from_pylist(rows, schema=typed.opened)


def typed_rows(mode: str, columns: dict[str, Any], put: Any = None) -> Any:
    formats = Formats(value=JSON, mode=mode, dead_letter_topic=put and "bad")
    return TypedRows(formats, pa.schema(list(columns.items())), "flights-3", put)


def test_a_value_that_does_not_fit_is_null_and_its_bytes_have_a_column() -> None:
    typed = typed_rows(PERMISSIVE, {"offset": pa.int64(), "value": VALUE, "corruptValue": pa.binary(), "key": pa.string()})
    rows = typed.rows(opened(typed)).to_pylist()
    assert [row["value"] and row["value"]["delay"] for row in rows] == [0, None, 2, None, None]
    assert [row["corruptValue"] for row in rows] == [None, b"late", None, None, b'{"delay": "x"}']
    assert [row["key"] for row in rows] == ["k0", "k1", None, "k3", "k4"]


def test_no_more_is_opened_than_is_asked_for_or_tells_of_bad_values() -> None:
    typed = typed_rows(PERMISSIVE, {"topic": pa.string(), "value": VALUE, "corruptValue": pa.binary()})
    assert typed.opened.names == ["topic", "value", "key", "offset"]
    assert typed.rows(opened(typed)).schema.names == ["topic", "value", "corruptValue"]


def test_values_that_do_not_fit_are_left_out_and_counted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    typed = typed_rows(DROP, {"value": VALUE})
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        assert typed.rows(opened(typed)).to_pylist() == [{"value": {"delay": 0}}, {"value": {"delay": 2}}, {"value": None}]
        typed.rows(opened(typed))
        assert not caplog.messages
        typed.finish()
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(
        "4 of 10 records of flights-3 do not fit and were met in mode DROPMALFORMED; the first is flights-3 at offset 101: "
        "its value does not fit valueFormat json: it is not JSON"
    )


def test_the_first_value_that_does_not_fit_ends_the_query_and_is_named_with_the_ways_out() -> None:
    typed = typed_rows(FAIL, {"value": VALUE})
    with pytest.raises(MalformedRecord, match="flights-3 at offset 101: its value does not fit valueFormat json") as caught:
        typed.rows(opened(typed))
    assert "set mode to PERMISSIVE or DROPMALFORMED, or name a deadLetterTopic" in str(caught.value)


def test_dead_letters_are_the_records_with_where_they_come_from_and_why() -> None:
    letters: list[Any] = []
    typed = typed_rows(DROP, {"value": VALUE}, letters.append)
    assert typed.rows(opened(typed)).num_rows == 3
    typed.rows(opened(typed))
    assert letters == []
    typed.finish()
    (written,) = letters
    rows = written.to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [(b"k1", b"late"), (b"k4", b'{"delay": "x"}')] * 2
    told = {header["key"].removeprefix("__connect.errors."): header["value"] for header in rows[1]["headers"]}
    assert told == {
        "topic": b"flights",
        "partition": b"3",
        "offset": b"104",
        "exception.message": b'its value does not fit valueFormat json: delay: "x" is no INT',
    }


def test_dead_letters_are_written_before_they_take_much_memory() -> None:
    letters: list[Any] = []
    typed = typed_rows(DROP, {"value": VALUE}, letters.append)
    big = pa.RecordBatch.from_pylist([{"value": b"x" * 600_000, "offset": 1}], schema=typed.opened)
    for _ in range(3):
        typed.rows(big)
    assert [each.num_rows for each in letters] == [2]
