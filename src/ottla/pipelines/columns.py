"""The columns of an archive: the source's columns, and the ones that name its directories. Pure data."""

from __future__ import annotations

RECORD = (
    "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""The columns in a file. The topic and the time are in the names of directories."""
BY = {"none": ("topic",), "day": ("topic", "date"), "hour": ("topic", "date", "hour")}
"""How an archive is divided by time -> the columns that name its directories."""
PARTITIONING = {"topic": "topic STRING", "date": "date DATE", "hour": "hour STRING"}


def archive_schema(by: str) -> str:
    """Return the schema of an archive that is divided by day, by hour or not by time, as DDL."""
    return ", ".join([RECORD, *(PARTITIONING[name] for name in BY[by])])
