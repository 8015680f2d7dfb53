"""Jobs over TLS with a login: driver and executors do so, for exactly once and dead letters too; no plan shows a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla

pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")

SECRET = "hidden-from-all"


@pytest.fixture(scope="module")
def secured() -> Iterator[ottla.Broker]:
    with ottla.Broker(users={"alice": SECRET}, tls=True) as broker:
        with ottla.Producer(**broker.client_settings()) as producer:
            for text in ('{"a": 1}', '{"a": 2}', "none"):
                producer.send("in", text.encode()).result()
        yield broker


def _values(broker: ottla.Broker, topic: str) -> list[bytes | None]:
    with ottla.Consumer(
        topic, auto_offset_reset="earliest", isolation_level="read_committed", **broker.client_settings()
    ) as consumer:
        return [record.value for record in consumer.records(timeout_ms=1_000)]


def test_a_stream_reads_and_writes_once_and_puts_aside_what_does_not_fit(spark: Any, secured: ottla.Broker, tmp_path: Path) -> None:
    given = secured.client_settings("spark")
    typed = {"valueFormat": "json", "valueSchema": "a int", "deadLetterTopic": "dead", "startingOffsets": "earliest"}
    rows = spark.readStream.format("ottla").options(subscribe="in", **typed, **given).load()
    writer = rows.selectExpr("cast(value.a as string) as value").writeStream.format("ottla")
    query = writer.options(topic="out", checkpointLocation=str(tmp_path), **given).trigger(availableNow=True).start()
    query.awaitTermination(100)
    assert sorted(map(str, _values(secured, "out"))) == ["b'1'", "b'2'"]
    assert _values(secured, "dead") == [b"none"]
    assert SECRET not in str(query.lastProgress)


def test_no_plan_and_no_message_shows_a_password(spark: Any, secured: ottla.Broker, capsys: pytest.CaptureFixture[str]) -> None:
    given = secured.client_settings("spark")
    rows = spark.read.format("ottla").options(subscribe="in", **given).load()
    rows.explain(True)
    assert rows.count() == 3
    assert SECRET not in capsys.readouterr().out
    assert SECRET not in rows._jdf.queryExecution().toString()
    wrong = {**given, "kafka.sasl.jaas.config": given["kafka.sasl.jaas.config"].replace(SECRET, f"not-{SECRET}")}
    with pytest.raises(Exception, match="refused the login by PLAIN") as refused:
        spark.read.format("ottla").options(subscribe="in", **wrong).load().count()
    assert SECRET not in str(refused.value)
