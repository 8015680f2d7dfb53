"""Reads a topic up to its present end as Arrow batches, and writes them as a Parquet file; and a table into a topic."""
# pyright: basic
# pyarrow has no types: only the lines about Ottla can be checked.

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import ottla


def archive(consumer: ottla.Consumer, topic: str, path: Path) -> int:
    ends: dict[ottla.TopicPartition, int] = consumer.end_offsets(consumer.partitions_for(topic))
    writer: pq.ParquetWriter | None = None
    rows = 0
    try:
        for batch in consumer.batches(until=ends):
            writer = writer or pq.ParquetWriter(path, batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows


def main(address: str, topic: str = "arrow") -> int:
    table = pa.table({"key": ["JFK", "LGA", "EWR"], "value": [b"12", b"3", b"47"]})
    with ottla.Producer(address) as producer:
        sent: int = producer.send_table(topic, table, key="key", value="value")
        assert sent == table.num_rows
    with (
        tempfile.TemporaryDirectory() as folder,
        ottla.Consumer(topic, bootstrap_servers=address, auto_offset_reset="earliest") as consumer,
    ):
        return archive(consumer, topic, Path(folder) / "flights.parquet")


if __name__ == "__main__":
    print(main(sys.argv[1]))
