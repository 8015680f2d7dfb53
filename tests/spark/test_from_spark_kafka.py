"""Every row of `docs/from-spark-kafka.md` is as it says there."""

from __future__ import annotations

import json
import logging
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.spark import write_once
from ottla.spark.errors import DataLoss, OptionError
from ottla.testing import BrokerProcess
from tests.spark.conftest import Topics

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

from pyspark.sql.datasource import CaseInsensitiveDict  # only where there is PySpark
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StringType, StructField, StructType

from ottla.spark.options import read_options, write_options
from ottla.spark.source import OttlaDataSource
from ottla.spark.streams.stream_position import from_json
from tests.support.kinds import one_of_each

PAGE = Path(__file__).parents[2] / "docs" / "from-spark-kafka.md"
HERE = {"works", "better", "no effect", "refused"}
TOLD, _, _ = PAGE.read_text().partition("## Starting Spark")
CELLS = [[cell.strip() for cell in line.split("|")] for line in TOLD.splitlines() if line.startswith("|")]
ROWS = [(cells[1].replace("`", ""), cells[2]) for cells in CELLS if cells[2] in HERE]
OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer"
Check = Callable[["Ground"], None]
CHECKS: dict[tuple[str, str], Check] = {}


def row(name: str, here: str) -> Callable[[Check], Check]:
    def keep(check: Check) -> Check:
        CHECKS[name, here] = check
        return check

    return keep


@dataclass
class Ground:
    """A topic of two partitions, which hold 0 2 4 6 8 and 1 3 5 7 9, each a second after the other; and what reads it."""

    spark: Any
    topics: Topics
    topic: str
    directory: Path
    log: pytest.LogCaptureFixture

    def source(self, **options: str) -> OttlaDataSource:
        given = {"kafka.bootstrap.servers": self.topics.address, **options}
        if not given.keys() & {"assign", "subscribePattern", "topic", "subscribe"}:
            given["subscribe"] = self.topic
        return OttlaDataSource(CaseInsensitiveDict(given))

    def read(self, **options: str) -> list[dict[str, Any]]:
        """The rows of a batch, without Spark."""
        source = self.source(**options)
        reader: Any = source.reader(source.schema())
        return [each for piece in reader.partitions() for batch in reader.read(piece) for each in batch.to_pylist()]

    def values(self, **options: str) -> list[int]:
        return sorted(int(each["value"]) for each in self.read(**options))

    def pieces(self, **options: str) -> int:
        source = self.source(**options)
        return len(source.reader(source.schema()).partitions())

    def end(self, limit: Any = None, **options: str) -> dict[tuple[str, int], int]:
        """Where the first micro-batch of a stream ends, without Spark."""
        source = self.source(**options)
        reader: Any = source.streamReader(source.schema())
        try:
            reached = reader.latestOffset(reader.initialOffset(), limit or reader.getDefaultReadLimit())
            return {(where.topic, where.partition): offset for where, offset in from_json(reached).offsets.items()}
        finally:
            reader.stop()

    def refused(self, sentence: str, options: dict[str, str], *, sink: bool = False, streaming: bool = False) -> None:
        given = {"kafka.bootstrap.servers": "h:1", "topic" if sink else "subscribe": "t", **options}
        with pytest.raises(OptionError, match=re.escape(sentence)):
            write_options(given) if sink else read_options(given, streaming=streaming)

    def writer(self, frame: Any, **options: str) -> Any:
        return frame.write.format("ottla").option("kafka.bootstrap.servers", self.topics.address).options(**options)


def at(topic: str, *offsets: int) -> str:
    return json.dumps({topic: {str(index): offset for index, offset in enumerate(offsets)}})


@row("assign", "works")
def assign(ground: Ground) -> None:
    assert ground.values(assign=json.dumps({ground.topic: [1]})) == [1, 3, 5, 7, 9]


@row("subscribe", "works")
def subscribe(ground: Ground) -> None:
    other = ground.topics.make(1)
    ground.topics.produce(other, [{"value": "77"}])
    assert ground.values(subscribe=f"{ground.topic}, {other}") == [*range(10), 77]


@row("subscribePattern", "works")
def subscribe_pattern(ground: Ground) -> None:
    assert ground.values(subscribePattern=rf"\Q{ground.topic}\E|\p{{Upper}}+[a-z&&[^x]]") == list(range(10))


@row("kafka.bootstrap.servers", "works")
def bootstrap_servers(ground: Ground) -> None:
    assert ground.values(**{"kafka.bootstrap.servers": f"127.0.0.1:1,{ground.topics.address}"}) == list(range(10))


@row("startingTimestamp", "works")
def starting_timestamp(ground: Ground) -> None:
    assert ground.values(startingTimestamp="6500", startingOffsets=at(ground.topic, 0, 0)) == [6, 7, 8, 9]


@row("startingOffsetsByTimestamp", "works")
def starting_offsets_by_timestamp(ground: Ground) -> None:
    assert ground.values(startingOffsetsByTimestamp=at(ground.topic, 9000, 0)) == [1, 3, 5, 7, 8, 9]


@row("startingOffsets", "better")
def starting_offsets(ground: Ground) -> None:
    assert ground.values(startingOffsets=at(ground.topic, 4, -2)) == [1, 3, 5, 7, 8, 9]
    assert ground.end(startingOffsets="latest") == {(ground.topic, 0): 5, (ground.topic, 1): 5}
    read_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", "startingOffsets": "group", "groupId": "g"}, streaming=True)


@row("endingTimestamp", "works")
def ending_timestamp(ground: Ground) -> None:
    assert ground.values(endingTimestamp="3500") == [0, 1, 2]


@row("endingOffsetsByTimestamp", "works")
def ending_offsets_by_timestamp(ground: Ground) -> None:
    assert ground.values(endingOffsetsByTimestamp=at(ground.topic, 1500, 99_000)) == [0, 1, 3, 5, 7, 9]


@row("endingOffsets", "works")
def ending_offsets(ground: Ground) -> None:
    assert ground.values(endingOffsets=at(ground.topic, 1, -1)) == [0, 1, 3, 5, 7, 9]


@row("failOnDataLoss", "better")
def fail_on_data_loss(ground: Ground) -> None:
    with pytest.raises(DataLoss):
        ground.values(endingOffsets=at(ground.topic, 9, -1))
    assert ground.values(endingOffsets=at(ground.topic, 9, -1), failOnDataLoss="false") == list(range(10))


@row("kafkaConsumer.pollTimeoutMs", "no effect")
@row("fetchOffset.numRetries", "no effect")
@row("fetchOffset.retryIntervalMs", "no effect")
def loops(ground: Ground) -> None:
    names = ("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs")
    assert ground.values(**dict.fromkeys(names, "7")) == list(range(10))
    assert all(name in ground.log.text for name in names)


@row("maxOffsetsPerTrigger", "works")
def max_offsets_per_trigger(ground: Ground) -> None:
    end = ground.end(maxOffsetsPerTrigger="4", startingOffsets="earliest")
    assert sum(end.values()) == 4
    ground.refused("maxOffsetsPerTrigger", {"maxOffsetsPerTrigger": "4"})


@row("minOffsetsPerTrigger", "works")
def min_offsets_per_trigger(ground: Ground) -> None:
    few, enough = (ground.end(ReadAllAvailable(), minOffsetsPerTrigger=each, startingOffsets="earliest") for each in ("11", "10"))
    assert (sum(few.values()), sum(enough.values())) == (0, 10)
    ground.refused("minOffsetsPerTrigger", {"minOffsetsPerTrigger": "4"})


@row("maxTriggerDelay", "works")
def max_trigger_delay(ground: Ground) -> None:
    end = ground.end(ReadAllAvailable(), minOffsetsPerTrigger="11", maxTriggerDelay="0ms", startingOffsets="earliest")
    assert sum(end.values()) == 10
    ground.refused("maxTriggerDelay", {"maxTriggerDelay": "4s"})


@row("minPartitions", "works")
def min_partitions(ground: Ground) -> None:
    assert (ground.pieces(), ground.pieces(minPartitions="6")) == (2, 6)
    assert ground.values(minPartitions="6") == list(range(10))


@row("maxRecordsPerPartition", "works")
def max_records_per_partition(ground: Ground) -> None:
    assert ground.pieces(maxRecordsPerPartition="2") == 6


@row("groupIdPrefix", "works")
@row("kafka.group.id", "works")
def group_ids(ground: Ground) -> None:
    def client_id(**options: str) -> str | None:
        given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options}
        return read_options(given, streaming=False).client.client_id

    assert client_id(groupIdPrefix="jobs") == "jobs"
    assert client_id(groupIdPrefix="jobs", **{"kafka.group.id": "own"}) == "own"
    assert ground.values(groupIdPrefix="jobs") == list(range(10))


@row("includeHeaders", "works")
def include_headers(ground: Ground) -> None:
    assert {str(each["headers"]) for each in ground.read(includeHeaders="true")} == {"[{'key': 'h', 'value': b'1'}]"}
    assert "headers" not in ground.read()[0]


@row("startingOffsetsByTimestampStrategy", "works")
def strategy(ground: Ground) -> None:
    with pytest.raises(OptionError, match="startingOffsetsByTimestampStrategy"):
        ground.read(startingTimestamp="99000")
    assert ground.read(startingTimestamp="99000", startingOffsetsByTimestampStrategy="latest") == []


@row("topic", "works")
@row("at least once", "better")
@row("includeHeaders when writing", "better")
@row("columns key, value, headers, topic, partition", "works")
@row("other columns", "works")
def writing(ground: Ground) -> None:
    target, none = ground.topics.make(2), ground.topics.make(2)
    frame = ground.spark.read.format("ottla").option("kafka.bootstrap.servers", ground.topics.address)
    rows = frame.options(subscribe=ground.topic, includeHeaders="true").load()
    ground.writer(rows, topic=target).mode("append").save()
    written = ground.topics.read(target)
    assert [(each.partition(), each.value(), each.headers()) for each in written] == [
        (number % 2, str(number).encode(), [("h", b"1")]) for number in (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
    ]
    ground.writer(rows, topic=none, includeHeaders="false").mode("append").save()
    assert {str(each.headers()) for each in ground.topics.read(none)} == {"None"}
    assert write_options({"kafka.bootstrap.servers": "h:1", "topic": "t"}).exactly_once
    with pytest.raises(OptionError, match="no column Key, but key"):
        ground.source(topic=target).writer(StructType([StructField(name, StringType()) for name in ("value", "Key")]), False)


@row("save() without a mode", "refused")
@row('mode("overwrite")', "refused")
@row("path", "refused")
def modes(ground: Ground) -> None:
    rows = ground.spark.sql("select 'a' as value")
    with pytest.raises(Exception, match=r'cannot be written in the "ErrorIfExists" mode. Please use either the "Append"'):
        ground.writer(rows, topic=ground.topic).save()
    with pytest.raises(Exception, match=r'OptionError: Records in a topic cannot be overwritten: write with mode\("append"\)'):
        ground.writer(rows, topic=ground.topic).mode("overwrite").save()
    with pytest.raises(Exception, match="OptionError: The sink has no option path"):
        ground.writer(rows, topic=ground.topic).mode("append").save("/somewhere")


@row("kafka.isolation.level", "works")
@row("kafka.acks", "works")
@row("kafka.compression.type", "works")
@row("kafka.max.request.size", "works")
def clients(ground: Ground) -> None:
    servers = {"kafka.bootstrap.servers": "h:1"}
    given = {"kafka.acks": "1", "kafka.compression.type": "zstd", "kafka.max.request.size": "5000"}
    sink = write_options({**servers, **given})
    assert (sink.client.acks_code, sink.client.compression_type, sink.max_request_size) == (1, "zstd", 5000)
    reads = read_options({**servers, "subscribe": "t", "kafka.isolation.level": "read_committed"}, streaming=False)
    assert reads.client.read_committed


@row("kafka.max.poll.records, kafka.session.timeout.ms and the like", "no effect")
def without_effect(ground: Ground) -> None:
    assert ground.values(**{"kafka.max.poll.records": "7", "kafka.session.timeout.ms": "7"}) == list(range(10))
    assert "kafka.max.poll.records, kafka.session.timeout.ms" in ground.log.text


@row("kafka.security.protocol", "works")
@row("kafka.ssl.truststore.location", "better")
@row("kafka.ssl.keystore.location", "better")
@row("kafka.ssl.endpoint.identification.algorithm", "works")
@row("kafka.sasl.mechanism", "works")
@row("kafka.sasl.jaas.config", "works")
@row("kafka.ssl.protocol, kafka.ssl.provider, kafka.sasl.login.refresh.window.factor and the like", "no effect")
def secured(ground: Ground) -> None:
    with ottla.Broker(users={"alice": "secret"}, tls=True) as broker:
        with ottla.Producer(**broker.client_settings()) as producer:
            producer.send(ground.topic, b"7").result()
        given = {name: str(text) for name, text in broker.client_settings("spark").items()}
        assert ground.values(**given) == [7]
        assert ground.values(**given, **{"kafka.ssl.endpoint.identification.algorithm": "", "kafka.ssl.protocol": "TLS"}) == [7]
        assert "kafka.ssl.protocol" in ground.log.text
        with pytest.raises(OptionError, match=r"^kafka\.ssl\.keystore\.location=/nowhere cannot be read"):
            ground.values(**given, **{"kafka.ssl.keystore.location": "/nowhere"})


@row("kafka.sasl.oauthbearer.token.endpoint.url", "works")
@row("kafka.sasl.login.callback.handler.class", "better")
def tokens(ground: Ground) -> None:
    token, now = ground.directory / "token", int(time.time())
    parts = ({"alg": "none"}, {"sub": "alice", "iat": now, "exp": now + 3600})
    token.write_text("".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") + "." for part in parts))
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.server.callback.handler.class": f"{OAUTHBEARER}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
    }
    login: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    login["sasl_oauthbearer_token_endpoint_url"] = token.as_uri()
    with BrokerProcess(ground.directory / "data", settings) as broker:
        with ottla.Producer(broker.address, **login) as producer:
            producer.send(ground.topic, b"7").result()
        given = {f"kafka.{name.replace('_', '.')}": text for name, text in login.items()}
        given["kafka.bootstrap.servers"] = broker.address
        for package in ("", ".secured"):
            given["kafka.sasl.login.callback.handler.class"] = f"{OAUTHBEARER}{package}.OAuthBearerLoginCallbackHandler"
            assert ground.values(**given) == [7]
    assert "callback" not in ground.log.text
    for name in ("kafka.sasl.login.callback.handler.class", "kafka.sasl.client.callback.handler.class"):
        ground.refused(f"Option {name} is not for a source: it names a class of Java", {name: "com.example.Handler"})


@row("kafka.auto.offset.reset", "refused")
@row("kafka.key.deserializer", "refused")
@row("kafka.value.deserializer", "refused")
@row("kafka.enable.auto.commit", "refused")
@row("kafka.interceptor.classes", "refused")
@row("kafka.ssl.engine.factory.class, kafka.sasl.login.class and the like", "refused")
def refused_by_the_source(ground: Ground) -> None:
    names = ("auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes")
    for name in (*names, "ssl.engine.factory.class", "sasl.login.class", "security.providers"):
        ground.refused(f"Option kafka.{name}", {f"kafka.{name}": "x"})


@row("kafka.key.serializer", "refused")
@row("kafka.value.serializer", "refused")
@row("kafka.partitioner.class", "refused")
@row("names that Kafka does not know", "refused")
def refused_by_the_sink(ground: Ground) -> None:
    for name in ("key.serializer", "value.serializer", "partitioner.class"):
        ground.refused(f"Option kafka.{name}", {f"kafka.{name}": "SASL_SSL"}, sink=True)
    ground.refused("did you mean kafka.compression.type?", {"kafka.compresion.type": "zstd"}, sink=True)


@row('format("kafka")', "refused")
@row('outputMode("update")', "refused")
def updates(ground: Ground) -> None:
    rows = ground.spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
    ways: list[Callable[[], Any]] = [
        lambda: rows.writeStream.format("ottla").outputMode("update"),
        lambda: rows.writeStream.outputMode("Update").format("Ottla"),
        lambda: rows.writeStream.start(format="ottla", outputMode="update"),
        lambda: rows.writeStream.format(source="ottla").outputMode(outputMode="update"),
    ]
    for choose in ways:
        with pytest.raises(OptionError, match=r'takes no outputMode\("update"\): .* foreachBatch with ottla\.spark\.write_once'):
            choose()
    rows.writeStream.outputMode("update").format("console")
    rows.writeStream.outputMode("update").outputMode("append").format("ottla")


@row("save() in foreachBatch", "better")
def saves_of_batches(ground: Ground) -> None:
    once, twice = ground.topics.make(1), ground.topics.make(1)
    frame = ground.spark.sql("select 'v' as value")
    for _ in range(2):  # as Spark repeats a batch
        ground.writer(frame, topic=twice).mode("append").save()
        write_once(frame, 0, query_id=once, topic=once, **{"kafka.bootstrap.servers": ground.topics.address})
    assert [len(ground.topics.read(each, 1)) for each in (once, twice)] == [1, 2]


@row("Trigger.Continuous", "refused")
@row("asyncProgressTrackingEnabled", "refused")
def sparks_own(ground: Ground) -> None:
    with pytest.raises(Exception, match="Please deploy the application"):
        ground.spark.read.format("kafka").load()
    with pytest.raises(Exception, match="Data source ottla does not support continuous processing"):
        copy(ground, ground.topic, "t").trigger(continuous="1 second").start()
    ground.refused("asyncProgressTrackingEnabled", {"asyncProgressTrackingEnabled": "true"}, streaming=True)


def copy(ground: Ground, source: str, target: str) -> Any:
    reader = ground.spark.readStream.format("ottla").option("kafka.bootstrap.servers", ground.topics.address)
    rows = reader.options(subscribe=source, startingOffsets="earliest").load().drop("partition")
    writer = rows.writeStream.format("ottla").option("kafka.bootstrap.servers", ground.topics.address).option("topic", target)
    return writer.option("checkpointLocation", str(ground.directory / "checkpoint"))


@row("a checkpoint of the JVM connector", "works")
@row("a checkpoint of another source", "refused")
def checkpoints(ground: Ground) -> None:
    target = ground.topics.make(2)
    copy(ground, ground.topic, target).trigger(availableNow=True).start().awaitTermination(120)
    offsets = ground.directory / "checkpoint" / "offsets"
    (written,) = (each for each in offsets.iterdir() if each.name.isdecimal())
    head = written.read_text().splitlines()[:2]
    (offsets / f".{written.name}.crc").unlink()
    written.write_text(
        "\n".join([*head, at(ground.topic, 5, 5)])
    )  # as the JVM connector writes it: the offsets, and nothing beside
    ground.topics.produce(ground.topic, [{"value": "10", "partition": 0}])
    copy(ground, ground.topic, target).trigger(availableNow=True).start().awaitTermination(120)
    assert sorted(int(each.value() or b"") for each in ground.topics.read(target)) == list(range(11))
    with pytest.raises(OptionError, match="another source wrote it"):
        from_json({"offset": 7})  # type: ignore[dict-item]  # as Spark's source "rate" keeps it


@row("spark.kafka.consumer.cache.*, spark.kafka.producer.cache.*", "no effect")
def caches(ground: Ground) -> None:
    ground.spark.conf.set("spark.kafka.consumer.cache.capacity", "7")
    assert ground.values() == list(range(10))


@pytest.fixture
def ground(spark: Any, topics: Topics, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Ground:
    topic = topics.make(2)
    caplog.set_level(logging.WARNING)
    seconds = ({"timestamp": 1000 * (number + 1), "headers": [("h", b"1")]} for number in range(10))
    topics.produce(topic, [{"value": str(number), "partition": number % 2, **each} for number, each in enumerate(seconds)])
    return Ground(spark, topics, topic, tmp_path, caplog)


EACH = list(dict.fromkeys(CHECKS.values()))
SHORT = [check for check in EACH if check not in (writing, checkpoints)]
"""Those take very much longer than the others."""


def test_every_row_of_the_page_is_run() -> None:
    assert set(ROWS) ^ CHECKS.keys() == set()
    assert len(CELLS) == len(ROWS) + 2 * TOLD.count("|---|\n")


@pytest.mark.parametrize("check", one_of_each(EACH, *SHORT, seconds=25), ids=lambda check: check.__name__)
@pytest.mark.rows(10, seconds=1)
def test_a_row_of_the_page_is_as_it_says(ground: Ground, check: Check) -> None:
    check(ground)
