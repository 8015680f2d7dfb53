"""Apache Kafka's `DumpLogSegments` reads the data directory that a served broker left, internal topics by their decoders."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ottla.testing import BrokerProcess
from tests.support.java import run

confluent_kafka = pytest.importorskip("confluent_kafka")

DUMP = "org.apache.kafka.tools.DumpLogSegments"
SETTINGS = {
    "num.partitions": 2,
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "log.segment.bytes": 1 << 20,
}
COUNT = 400

pytestmark = [pytest.mark.java, pytest.mark.slow]


def fill(address: str) -> dict[int, int]:
    """Produce, consume in a group, commit. Returns each partition's committed offset."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 0})
    for number in range(COUNT):
        producer.produce("t", b"value %d " % number * 700, partition=number % 2)
        if number % 20 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": address, "group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(["t"])
    got = 0
    while got < COUNT:
        messages = consumer.consume(COUNT - got, 10)
        assert messages
        got += len(messages)
    committed = consumer.commit(asynchronous=False)
    consumer.close()
    return {place.partition: place.offset for place in committed}


def test_what_a_broker_left_is_read_without_complaint(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        committed = fill(broker.address)
    assert committed == {0: COUNT // 2, 1: COUNT // 2}
    files = sorted(file for file in (tmp_path / "data").glob("t-*/*") if file.name[0] == "0")
    said = run(DUMP, "--deep-iteration", "--files", ",".join(map(str, files)))
    assert not re.search("(?i)mismatch|missing|not found|out of order|corrupt|exception|isvalid: false", said)
    assert said.count("| offset: ") == COUNT
    logs = [file for file in (tmp_path / "data").glob("__consumer_offsets-*/*.log") if file.stat().st_size]
    assert len(logs) == 1
    said = run(DUMP, "--offsets-decoder", "--files", str(logs[0]))
    found = [(json.loads(key), payload) for key, payload in re.findall(r" key: (\{.*\}) payload: (.*)$", said, re.MULTILINE)]
    offsets = {key["data"]["partition"]: json.loads(payload)["data"]["offset"] for key, payload in found if key["type"] == "1"}
    assert offsets == committed
    assert {key["data"]["group"] for key, _ in found if key["type"] in ("1", "2")} == {"readers"}
    assert {json.loads(payload)["data"]["protocolType"] for key, payload in found if key["type"] == "2"} == {"consumer"}
