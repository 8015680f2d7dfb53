"""Typed keys and values through Spark: what other clients wrote arrives in columns, and what is written arrives at them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.spark import count_misfits
from ottla.spark.errors import OptionError
from tests.integration.schema_registry.instances import instance
from tests.spark.conftest import Topics

Load = Callable[..., Any]
SCHEMA = "carrier STRING, delay INT, at TIMESTAMP"
JSON = {"valueFormat": "json", "valueSchema": SCHEMA}


def save(frame: Any, topics: Topics, **options: str) -> None:
    frame.write.format("ottla").option("kafka.bootstrap.servers", topics.address).options(**options).mode("append").save()


def test_json_is_read_in_typed_columns_and_what_is_none_in_a_column_of_its_own(topics: Topics, load: Load) -> None:
    from pyspark.sql import Observation

    topic, dead = topics.make(1), topics.make(1)
    good = {"carrier": "UA", "delay": 7, "at": "2013-01-01T10:00:00Z", "more": [1]}
    values = [json.dumps(good), "late", None, json.dumps({"delay": "x"})]
    topics.produce(topic, [{"key": f"k{row}", "value": value} for row, value in enumerate(values)])
    rows = load(topic, **JSON).orderBy("offset")
    assert rows.columns[-1] == "corruptValue"
    found = rows.selectExpr("value.carrier", "value.delay", "unix_seconds(value.at) as at", "corruptValue").collect()
    assert [tuple(row)[:3] for row in found] == [("UA", 7, 1357034400), *[(None, None, None)] * 3]
    assert [row.corruptValue and bytes(row.corruptValue) for row in found] == [None, b"late", None, b'{"delay": "x"}']
    counted = Observation()
    assert count_misfits(load(topic, **JSON), counted).count() == 4
    assert counted.get["misfits"] == 2
    with pytest.raises(OptionError, match="mode PERMISSIVE, and keep column corruptValue"):
        count_misfits(load(topic))
    narrow = load(topic, "value STRUCT<delay: INT>, offset BIGINT", valueFormat="json", mode="DROPMALFORMED")
    assert sorted(row.offset for row in narrow.collect()) == [0, 2]
    with pytest.raises(Exception, match=re.escape(f"{topic}-0 at offset 1: its value does not fit valueFormat json")):
        load(topic, **JSON, mode="FAILFAST").collect()
    assert load(topic, **JSON, deadLetterTopic=dead).where("value is not null").count() == 1
    letters = topics.read(dead, 1)
    assert [(letter.key(), letter.value()) for letter in letters] == [(b"k1", b"late"), (b"k3", b'{"delay": "x"}')]
    assert dict(letters[0].headers() or [])["__connect.errors.offset"] == b"1"


def test_rows_are_written_as_json(spark: Any, topics: Topics, load: Load) -> None:
    topic = topics.make(1)
    flights = spark.sql(
        """
        select named_struct('id', id) as key,
               named_struct('carrier', if(id = 1, null, 'U"A'), 'at', timestamp_micros(id), 'delays', array(id, null)) as value
        from range(0, 3, 1, 1)
        """
    )
    save(flights, topics, topic=topic, keyFormat="json", valueFormat="json")
    there = topics.read(topic, 1)
    assert [message.key() for message in there] == [b'{"id":0}', b'{"id":1}', b'{"id":2}']
    assert json.loads(there[2].value() or b"") == {"carrier": 'U"A', "at": "1970-01-01T00:00:00.000002Z", "delays": [2, None]}
    assert "carrier" not in json.loads(there[1].value() or b"")
    again = load(topic, "value STRUCT<carrier: STRING, at: TIMESTAMP, delays: ARRAY<BIGINT>>", valueFormat="json", mode="FAILFAST")
    assert again.exceptAll(flights.select("value")).count() == 0
    with pytest.raises(Exception, match="valueFormat json needs a STRUCT"):
        save(spark.sql("select 'a' as value"), topics, topic=topic, valueFormat="json")


def test_csv_and_arrow_are_written_and_read_again(spark: Any, topics: Topics, load: Load) -> None:
    flights = spark.sql(
        "select named_struct('carrier', if(id = 7, null, 'U,A'), 'delay', id, 'at', timestamp_millis(id)) as value from range(500)"
    )
    schema = "carrier STRING, delay BIGINT, at TIMESTAMP"
    for more in ({"valueFormat": "csv", "delimiter": ";"}, {"valueFormat": "arrow"}):
        topic = topics.make(2)
        save(flights, topics, topic=topic, **more)
        again = load(topic, valueSchema=schema, mode="FAILFAST", **more)
        assert again.select("value").exceptAll(flights).count() == 0
        assert again.count() == 500
        assert (len(topics.read(topic)) < 10) == (more["valueFormat"] == "arrow")


@pytest.fixture(params=["directory", pytest.param("server", marks=pytest.mark.full(seconds=12))])
def registry(request: pytest.FixtureRequest, topics: Topics, tmp_path: Path) -> Iterator[str]:
    """Return a directory, or the URL of Ottla's own registry."""
    if request.param == "directory":
        yield str(tmp_path)
    else:
        with instance(topics.address) as running:
            yield running.url


def test_avro_of_a_registry_is_written_and_read_with_the_types_that_it_has(
    spark: Any, topics: Topics, load: Load, registry: str
) -> None:
    topic = topics.make(2)
    flights = spark.sql(
        "select named_struct('carrier', if(id = 7, null, 'UA'), 'delay', id, 'at', timestamp_millis(id)) as value from range(50)"
    )
    avro = {"valueFormat": "avro", "schemaRegistry": registry}
    save(flights, topics, topic=topic, **avro)
    topics.produce(topic, [{"value": b"\x00\x00\x00\x00\x07", "partition": 0}])
    again = load(topic, **avro)
    assert again.schema["value"].dataType.simpleString() == flights.schema["value"].dataType.simpleString()
    assert again.where("value is not null").select("value").exceptAll(flights).count() == 0
    assert [bytes(row.corruptValue) for row in again.where("value is null").collect()] == [b"\x00\x00\x00\x00\x07"]
    assert again.count() == 51
