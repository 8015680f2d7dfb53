"""One Spark for all tests here, with as little of it as they need; skipped visibly where there is no PySpark or no Java."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]  # its stubs leave out what it passes on

from ottla.spark.java import NoJava
from ottla.spark.session import QUICK, prepare_environment
from tests.support import spark_points
from tests.support.peers import Peer

if TYPE_CHECKING:
    from tests.spark.once_sink import OnceSink

HERE = Path(__file__).parent
SETTINGS = {
    **QUICK,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is absent: pip install 'ottla[spark]'")
    try:
        prepare_environment()
    except NoJava as missing:
        pytest.skip(str(missing))
    builder = sql.SparkSession.builder.master("local[2]").appName("tests")
    directory = tmp_path_factory.mktemp("spark")
    # Spark's processes have them from the first on: a test that kills one at a point of the sink writes that file.
    os.environ.update({spark_points.FILE: str(directory / "kill-at"), "OTTLA_ONCE_HOOK": spark_points.HOOK})
    os.environ["PYTHONPATH"] = os.pathsep.join([os.environ["PYTHONPATH"], str(HERE.parents[1])])
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(directory)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    del os.environ[spark_points.FILE], os.environ["OTTLA_ONCE_HOOK"]


class Topics:
    """What tests do to topics from outside, through confluent-kafka."""

    def __init__(self, address: str, unique: Callable[[str], str]) -> None:
        self.address = address
        self._unique = unique
        self._admin = AdminClient({"bootstrap.servers": address})

    def make(self, partitions: int = 2, name: str | None = None, settings: dict[str, str] | None = None) -> str:
        name = name or self._unique("topic")
        kept = {"retention.ms": "-1", **(settings or {})}  # tests write records of long ago
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=kept)
        for made in self._admin.create_topics([new]).values():
            made.result(timeout=20)
        return name

    def remove(self, name: str) -> None:
        for gone in self._admin.delete_topics([name]).values():
            gone.result(timeout=20)

    def grow(self, name: str, partitions: int) -> None:
        for grown in self._admin.create_partitions([NewPartitions(name, partitions)]).values():
            grown.result(timeout=20)

    def delete_records(self, before: list[TopicPartition]) -> list[Any]:
        """Delete what lies before each partition's offset."""
        return [deleted.result(timeout=20) for deleted in self._admin.delete_records(before).values()]

    def produce(self, topic: str, rows: list[dict[str, Any]]) -> None:
        """Each row is what `Producer.produce` takes beside the topic."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 5})
        for row in rows:
            producer.produce(topic, **row)
        assert producer.flush(20) == 0

    def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        """What a group has committed for each partition."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group})
        found = consumer.committed([TopicPartition(topic, index) for index in range(partitions)], timeout=20)
        consumer.close()
        return [each.offset for each in found]

    @contextmanager
    def member(self, group: str, topic: str) -> Iterator[None]:
        """A consumer that is in a group."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        deadline = time.monotonic() + 60
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.1)
        yield
        consumer.close()

    def read(self, topic: str, partitions: int = 2) -> list[Message]:
        """All that is committed in a topic, by partition and offset."""
        settings: dict[str, Any] = {"bootstrap.servers": self.address, "group.id": "reader", "isolation.level": "read_committed"}
        consumer = Consumer({**settings, "enable.partition.eof": True})
        found = []
        for index in range(partitions):
            consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING)])
            while (message := consumer.poll(20)) is not None and message.error() is None:
                found.append(message)
            assert message is not None, "the end was not reached"
            error = message.error()
            assert error is not None
            assert error.code() == KafkaError._PARTITION_EOF, error
        consumer.close()
        return found


@pytest.fixture
def topics(broker: Peer, unique: Callable[[str], str]) -> Topics:
    return Topics(broker.address, unique)


@pytest.fixture
def load(spark: Any, topics: Topics) -> Callable[..., Any]:
    """A batch: `load(topic, startingOffsets=...)`, or without a topic by the options alone."""

    def load(topic: str | None = None, schema: str | None = None, **options: str) -> Any:
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", topics.address)
        reader = reader.options(**(({"subscribe": topic} if topic else {}) | options))
        return (reader.schema(schema) if schema else reader).load()

    return load


@pytest.fixture
def sink(topics: Topics, unique: Callable[[str], str]) -> Iterator[OnceSink]:
    """The sink of a query, without Spark."""
    pytest.importorskip("pyarrow")
    from tests.spark.once_sink import OnceSink

    made = OnceSink(topics, unique)
    yield made
    for each in made.open:
        each.close()
