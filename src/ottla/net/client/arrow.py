"""A consumer's buffers as Arrow record batches. Needs pyarrow, which is imported here and nowhere else in the client."""

from __future__ import annotations

from ottla.client.cursor import Cursor

try:
    import pyarrow

    from ottla.records.arrow import to_arrow
except ImportError as missing:
    raise ImportError("batches() needs pyarrow: install it with pip install 'ottla[arrow]'.") from missing

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def record_batches(cursor: Cursor) -> list[pyarrow.RecordBatch]:
    """All that `cursor` has left to hand out, with `COLUMNS`: types are those of `ottla.records.arrow.to_arrow`."""
    topic, partition = cursor.where
    return [to_arrow(columns, COLUMNS, topic=topic, partition=partition) for columns in cursor.take_columns()]
