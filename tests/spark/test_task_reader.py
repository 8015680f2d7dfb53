"""What a task reads of its range, asked without Spark."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ottla.client.settings import ProducerSettings
from ottla.client.types import TopicPartition as Where
from ottla.net.client.batch_producer import BatchProducer
from ottla.records import codecs
from ottla.records.columns import build
from tests.spark.conftest import Topics

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

import pyarrow as pa  # only where there is PySpark

from ottla.spark.errors import UnreadableBatch
from ottla.spark.options import ReadOptions, read_options
from ottla.spark.planning import Range
from ottla.spark.rows import rows_of
from ottla.spark.schema import source_schema


def options(topics: Topics, topic: str, **more: str) -> ReadOptions:
    given = {"kafka.bootstrap.servers": topics.address, "subscribe": topic, "columns": "offset,value", **more}
    return read_options(given, streaming=False)


def task(topics: Topics, topic: str, start: int, end: int, **more: str) -> list[pa.RecordBatch]:
    asked = options(topics, topic, **more)
    return list(rows_of(asked, source_schema(asked.columns), Range(topic, 0, start, end)))


def offsets(found: list[pa.RecordBatch]) -> list[int]:
    return [offset for batch in found for offset in batch.column("offset").to_pylist()]


def write(topics: Topics, topic: str, made: list[bytearray]) -> None:
    async def work() -> None:
        producer = await BatchProducer(ProducerSettings(bootstrap_servers=topics.address)).start()
        await producer.send((Where(topic, 0), batch) for batch in made)
        await producer.flush()
        await producer.close()

    asyncio.run(work())


def json_batches(count: int, rows: int, codec: int) -> list[bytearray]:
    value = json.dumps({"text": "always the same " * 50}).encode()
    return [build(None, [value] * rows, 0, codec=codec) for _ in range(count)]


def test_a_topic_that_opens_to_hundreds_of_times_its_size_is_read_in_batches_of_arrow(topics: Topics) -> None:
    topic = topics.make(1)
    write(topics, topic, json_batches(300, 1_200, codecs.ZSTD))  # 290 MB, of which a fetched megabyte held more than 256
    count = 0
    asked = options(topics, topic)
    for batch in rows_of(asked, source_schema(asked.columns), Range(topic, 0, 0, 360_000)):
        assert batch.nbytes < 20_000_000
        count += batch.num_rows
    assert count == 360_000


def test_a_batch_that_opens_to_more_than_is_allowed_is_named_with_the_way_past_it(topics: Topics) -> None:
    topic = topics.make(1)
    write(
        topics, topic, [*json_batches(1, 10, codecs.GZIP), *json_batches(1, 2_000, codecs.ZSTD), *json_batches(1, 10, codecs.LZ4)]
    )
    limit = {"maxOpenedBytes": "1000000"}
    sentence = f"topic {topic}, partition 0, offsets 10 to 2009, opens to more than maxOpenedBytes = 1000000: raise that option, or"
    read: list[Any] = []
    asked = options(topics, topic, **limit)
    with pytest.raises(UnreadableBatch, match=sentence):
        read.extend(rows_of(asked, source_schema(asked.columns), Range(topic, 0, 0, 2_020)))
    assert offsets(task(topics, topic, 0, 10, **limit)) == list(range(10))
    assert offsets(task(topics, topic, 2_010, 2_020, **limit)) == list(range(2_010, 2_020))
    assert offsets(task(topics, topic, 0, 2_020)) == list(range(2_020))
