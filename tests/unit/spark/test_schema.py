"""Which columns the sink takes, refuses and leaves out."""

from __future__ import annotations

import logging

import pytest

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from ottla.spark.errors import OptionError
from ottla.spark.schema import check_write_schema, source_schema
from ottla.spark.texts import COLUMNS


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def test_what_a_source_reads_a_sink_writes_without_a_select_and_names_what_it_leaves_out(caplog: pytest.LogCaptureFixture) -> None:
    check_write_schema(source_schema(COLUMNS), None)
    assert "the sink writes no column offset, timestamp, timestampType" in caplog.text


def test_nothing_is_said_where_nothing_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        check_write_schema(columns(key=StringType(), value=BinaryType(), timestamp=TimestampType()), "t", include_timestamp=True)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (columns(value=StringType(), Topic=StringType()), "The topic to write to is missing"),
        (columns(value=StringType(), topic=StringType(), KEY=StringType()), "no column KEY, but key"),
        (columns(value=StringType(), topic=StringType(), partition=LongType()), "Column partition is BIGINT and must be INT"),
        (columns(value=IntegerType(), topic=StringType()), "Column value is INT and must be BINARY or STRING"),
    ],
)
def test_a_column_that_would_be_lost_or_misread_is_refused(schema: StructType, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        check_write_schema(schema, None)
