"""What a task reads of its range, asked without Spark."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from ottla.client.settings.clients import ProducerSettings
from ottla.client.types import TopicPartition as Where
from ottla.log.checkpoints import CLEANED_OFFSETS
from ottla.net.client.producer.batch_producer import BatchProducer
from ottla.records.batches.columns import build
from ottla.records.compression import codecs
from ottla.testing import BrokerProcess
from tests.spark.conftest import Topics
from tests.support.waiting import eventually

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

import pyarrow as pa  # only where there is PySpark

from ottla.spark.batch_reader import BatchReader
from ottla.spark.errors import DataLoss, UnreadableBatch
from ottla.spark.options import ReadOptions, read_options
from ottla.spark.read_plan import Range
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


def produce(producer: Producer, topic: str, start: int, count: int) -> None:
    for number in range(start, start + count):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(20) == 0


def end_transaction(producer: Producer, topic: str, start: int, *, commit: bool) -> None:
    producer.begin_transaction()
    produce(producer, topic, start, 5)
    (producer.commit_transaction if commit else producer.abort_transaction)(20)


def read(asked: ReadOptions) -> list[str]:
    """What the tasks of a batch read, one after another."""
    reader = BatchReader(asked, source_schema(asked.columns))
    found = [batch for piece in reader.partitions() for batch in reader.read(piece)]
    return [value.decode() for batch in found for value in batch.column("value").to_pylist()]


@pytest.mark.parametrize("pieces", ["1", "7"])
def test_what_is_committed_is_read_beside_an_open_transaction_and_its_gaps_are_no_loss(topics: Topics, pieces: str) -> None:
    topic = topics.make(1)
    plain = Producer({"bootstrap.servers": topics.address, "linger.ms": 0})
    ids = (f"{topic}-{number}" for number in range(2))
    ended, open_one = (Producer({"bootstrap.servers": topics.address, "transactional.id": each, "linger.ms": 0}) for each in ids)
    for producer in (ended, open_one):
        producer.init_transactions(30)
    produce(plain, topic, 0, 5)
    end_transaction(ended, topic, 5, commit=True)
    end_transaction(ended, topic, 10, commit=False)
    committed = [str(number) for number in range(10)]
    level = {"kafka.isolation.level": "read_committed", "minPartitions": pieces}
    assert read(options(topics, topic, **level)) == committed, "the last offsets are those of an aborted transaction and its marker"
    open_one.begin_transaction()
    produce(open_one, topic, 15, 5)
    produce(plain, topic, 20, 5)
    assert read(options(topics, topic, **level)) == committed
    assert read(options(topics, topic)) == [str(number) for number in range(25)]
    open_one.abort_transaction(20)
    assert read(options(topics, topic, **level)) == [*committed, *map(str, range(20, 25))]


@pytest.fixture
def compacting(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", {"log.cleaner.backoff.ms": 100, "log.segment.delete.delay.ms": 0}) as broker:
        yield broker


def is_compacted(broker: BrokerProcess, topic: str) -> bool:
    newest = max(int(path.stem) for path in (broker.data_dir / f"{topic}-0").glob("*.log"))
    file = broker.data_dir / CLEANED_OFFSETS
    return file.exists() and f"{topic} 0 {newest}" in [line.strip() for line in file.read_text().splitlines()]


@pytest.mark.full(seconds=40)
def test_the_gaps_of_compaction_are_no_loss_wherever_a_range_is_cut(compacting: BrokerProcess) -> None:
    topics = Topics(compacting.address, lambda stem: stem)
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}
    topic = topics.make(1, settings=settings)
    producer = Producer({"bootstrap.servers": topics.address, "batch.num.messages": 1, "linger.ms": 0})
    for number in range(300):
        producer.produce(topic, b"%0300d" % number, key=b"%d" % (number % 7 if number % 50 else number))
    assert producer.flush(20) == 0
    eventually(lambda: is_compacted(compacting, topic), timeout_s=60, what="the topic is compacted")
    whole = read(options(topics, topic))
    assert len(whole) < 100
    assert int(whole[-1]) == 299
    for pieces in ("2", "40", "300"):
        assert read(options(topics, topic, minPartitions=pieces)) == whole


def test_a_topic_deleted_before_its_task_ends_is_a_loss_or_the_end_of_the_task_without_waiting_for_it(topics: Topics) -> None:
    topic = topics.make(1)
    topics.produce(topic, [{"value": "x"}])
    topics.remove(topic)
    patient = {"kafka.request.timeout.ms": "600000"}
    with pytest.raises(DataLoss, match=f"topic {topic} was deleted before {topic}-0 was read to offset 1"):
        task(topics, topic, 0, 1, **patient)
    assert task(topics, topic, 0, 1, failOnDataLoss="false", **patient) == []


def lose(topics: Topics, topic: str, before: int) -> None:
    for deleted in topics.delete_records([TopicPartition(topic, 0, before)]):
        assert deleted.low_watermark == before


def test_records_that_go_between_planning_and_reading_are_a_loss_or_left_out(topics: Topics) -> None:
    topic = topics.make(1)
    write(topics, topic, [build(None, [b"%d" % number], 0) for number in range(10)])
    readers = [BatchReader(asked, source_schema(asked.columns)) for asked in asked_twice(topics, topic, {})]
    planned = [reader.partitions() for reader in readers]
    lose(topics, topic, 4)
    with pytest.raises(DataLoss, match=f"{topic}-0 was to be read from offset 0 and begins at 4 now"):
        list(readers[0].read(planned[0][0]))
    assert offsets(list(readers[1].read(planned[1][0]))) == list(range(4, 10))


def asked_twice(topics: Topics, topic: str, more: dict[str, str]) -> list[ReadOptions]:
    return [options(topics, topic, failOnDataLoss=fails, **more) for fails in ("true", "false")]


def test_records_that_go_while_a_task_reads_are_a_loss_or_left_out(topics: Topics) -> None:
    topic = topics.make(1)
    write(topics, topic, [build(None, [bytes(50_000)], 0) for _ in range(20)])
    first = {"kafka.max.partition.fetch.bytes": "1", "kafka.fetch.max.bytes": "1"}
    reading = [rows_of(each, source_schema(each.columns), Range(topic, 0, 0, 20)) for each in asked_twice(topics, topic, first)]
    assert [offsets([next(each)]) for each in reading] == [[0], [0]]
    lose(topics, topic, 18)
    with pytest.raises(DataLoss, match=f"{topic}-0 was to be read from offset . and begins at 18 now"):
        list(reading[0])
    assert offsets(list(reading[1]))[-2:] == [18, 19]
