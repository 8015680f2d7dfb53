"""A consumer's chunks as Arrow record batches. Needs pyarrow, which is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.consumer.cursor import Cursor

if TYPE_CHECKING:
    import pyarrow

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def record_batches(cursor: Cursor) -> list[pyarrow.RecordBatch]:
    """Return the rest of `cursor` as batches with `COLUMNS`. `ottla.records.batches.arrow.to_arrow` sets their types."""
    try:
        from ottla.records.batches.arrow import to_arrow
    except ImportError as missing:
        raise ImportError("batches() needs pyarrow: install it with pip install 'ottla[arrow]'.") from missing
    topic, partition = cursor.where
    return [to_arrow(columns, COLUMNS, topic=topic, partition=partition) for columns in cursor.remaining_columns()]
