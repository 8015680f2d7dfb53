"""What goes wrong reaches a person as one sentence, not behind the lines of a traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import Topics


def read(spark: Any, topics: Topics, **options: str) -> Any:
    spark.read.format("ottla").option("kafka.bootstrap.servers", topics.address).options(**options).load().collect()


def stream(spark: Any, topics: Topics, checkpoint: Path, schema: str | None = None, **options: str) -> Any:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", topics.address).options(**options)
    rows = (reader.schema(schema) if schema else reader).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(60)


def write(spark: Any, topics: Topics, sql: str, **options: str) -> None:
    rows = spark.sql(sql).write.format("ottla").option("kafka.bootstrap.servers", topics.address)
    rows.options(**options).mode("append").save()


def of_another_source(spark: Any, checkpoint: Path) -> Path:
    rows = spark.readStream.format("rate").load().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    rows.trigger(availableNow=True).start().awaitTermination(60)
    return checkpoint


def test_the_sentence_comes_first_and_no_traceback_with_it(
    spark: Any, topics: Topics, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    topic, missing = topics.make(1), unique("missing")
    foreign = of_another_source(spark, tmp_path / "rate")
    cases: dict[str, Callable[[], None]] = {
        "The source has no option startoffsets; did you mean startingOffsets?": lambda: read(
            spark, topics, subscribe=topic, startOffsets="earliest"
        ),
        f"There is no topic {missing}: create it first": lambda: read(spark, topics, subscribe=missing),
        f"There is no topic {missing}: create it": lambda: stream(spark, topics, tmp_path / "missing", subscribe=missing),
        "another source wrote it": lambda: stream(spark, topics, foreign, subscribe=topic),
        "Column value is INT and must be BINARY or STRING": lambda: write(spark, topics, "select 1 as value", topic=topic),
        f"Topic {topic} has no partition 9": lambda: write(spark, topics, "select 'a' value, 9 as partition", topic=topic),
        "There is no client setting kafka.foo": lambda: stream(
            spark, topics, tmp_path / "foo", subscribe=topic, **{"kafka.foo": "x"}
        ),
        "A stream has no end: leave out endingOffsets": lambda: stream(
            spark, topics, tmp_path / "end", subscribe=topic, endingOffsets="latest"
        ),
        "Column value cannot be INT": lambda: stream(spark, topics, tmp_path / "columns", "value INT", subscribe=topic),
        "Option kafka.ssl.engine.factory.class is not for a source": lambda: read(
            spark, topics, subscribe=topic, **{"kafka.ssl.engine.factory.class": "x"}
        ),
    }
    for sentence, run in cases.items():
        with pytest.raises(Exception, match=r"ottla\.spark\.errors") as caught:
            run()
        said = str(caught.value).split("ottla.spark.errors.OptionError: ")
        assert "Traceback" not in said[0], sentence
        assert sentence in said[1].partition("\n")[0]
