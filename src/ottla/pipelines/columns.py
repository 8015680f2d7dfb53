"""The columns of an archive: those of the source, and by which of them and of time its directories are named. Pure."""

from __future__ import annotations

RECORD = (
    "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""What a file holds; the topic and the time stand in the names of its directories."""
BY = {"none": ("topic",), "day": ("topic", "date"), "hour": ("topic", "date", "hour")}
"""How finely an archive is divided -> the columns that name its directories."""
PARTITIONING = {"topic": "topic STRING", "date": "date DATE", "hour": "hour STRING"}


def archive_schema(by: str) -> str:
    """The schema of an archive that is divided by day, hour or not by time, as DDL."""
    return ", ".join([RECORD, *(PARTITIONING[name] for name in BY[by])])
