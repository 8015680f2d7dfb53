"""Batches of Arrow with typed columns against a broker: both faces, bad records, and schemas of a registry."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import ottla
from tests.support.peers import Peer

pa = pytest.importorskip("pyarrow", reason="pyarrow is absent: pip install 'ottla[arrow]'")
GATE = pa.schema([("gate", pa.int32())])
VALUES = [b'{"gate": 0}', b'{"gate": 1}', b"bad", b'{"gate": 3}']
BAD = 2
JSON: Any = {"value_format": "json", "value_schema": GATE, "columns": ["offset", "value"]}
AVRO = {"type": "record", "name": "Flight", "namespace": "air", "fields": [{"name": "gate", "type": "int"}]}
TITLED = {"title": "Flight", "type": "object", "properties": {"gate": {"type": "integer"}}}


def fill(broker: Peer, topic: str, values: list[bytes]) -> None:
    with ottla.Producer(broker.address) as producer:
        for value in values:
            producer.send(topic, value, key=b"k", headers=[("h", b"1")], partition=0)


def reader(broker: Peer, topic: str, **settings: Any) -> ottla.Consumer[Any, Any]:
    return ottla.Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", **settings)


def committed(broker: Peer, topic: str) -> int:
    with ottla.Admin(broker.address) as admin:
        return admin.list_group_offsets(topic)[ottla.TopicPartition(topic, 0)].offset


def gates(batches: Any) -> list[int]:
    return [row["gate"] for batch in batches for row in batch["value"].to_pylist()]


def test_a_record_that_does_not_fit_is_raised_after_those_before_it_until_a_seek(broker: Peer, topic: str) -> None:
    fill(broker, topic, VALUES)
    with reader(broker, topic, group_id=topic) as consumer:
        batches = consumer.batches(**JSON)
        assert gates([next(batches)]) == [0, 1]
        for _ in range(2):
            with pytest.raises(ottla.DeserializationFailed, match=f"offset {BAD} of {topic}-0 cannot be read by value_format=json"):
                next(consumer.batches(**JSON))
        assert consumer.position((topic, 0)) == BAD
        consumer.commit()
        assert committed(broker, topic) == BAD
        consumer.seek((topic, 0), BAD + 1)
        assert gates([next(consumer.batches(**JSON))]) == [3]


@pytest.mark.parametrize("is_copied", [False, True])
def test_records_that_do_not_fit_are_skipped_or_copied(broker: Peer, topic: str, *, is_copied: bool) -> None:
    dead = f"{topic}-dead"
    fill(broker, topic, VALUES)
    with reader(broker, topic, group_id=topic, on_bad_record=dead if is_copied else "skip") as consumer:
        batches = consumer.batches(until=consumer.end_offsets([(topic, 0)]), **JSON)
        assert gates(batches) == [0, 1, 3]
    assert committed(broker, topic) == len(VALUES)
    if is_copied:
        with reader(broker, dead) as consumer:
            copied = next(iter(consumer))
        assert (copied.key, copied.value, copied.headers[0]) == (b"k", b"bad", ("h", b"1"))
        assert dict(copied.headers)["__ottla.errors.offset"] == b"%d" % BAD
        assert b"JSON" in (dict(copied.headers)["__ottla.errors.message"] or b"")


def test_the_asynchronous_face_decodes_too(broker: Peer, topic: str) -> None:
    fill(broker, topic, VALUES)

    async def main() -> list[int]:
        async with ottla.AsyncConsumer(
            topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", on_bad_record="skip"
        ) as consumer:
            ends = await consumer.end_offsets([(topic, 0)])
            return [gate async for batch in consumer.batches(until=ends, **JSON) for gate in gates([batch])]

    assert asyncio.run(main()) == [0, 1, 3]


def protobuf_file(folder: Path) -> Path:
    files = pytest.importorskip("google.protobuf.descriptor_pb2").FileDescriptorSet()
    file = files.file.add(name="m.proto", package="air", syntax="proto3")
    file.message_type.add(name="Flight").field.add(name="gate", number=1, type=5, label=1)
    path = folder / "m.desc"
    path.write_bytes(files.SerializeToString())
    return path


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_values_of_a_registry_are_those_that_its_deserializer_returns(broker: Peer, topic: str, tmp_path: Path, name: Any) -> None:
    pytest.importorskip({"avro": "fastavro", "json": "jsonschema", "protobuf": "google.protobuf"}[name])
    schema: Any = {"avro": AVRO, "json": TITLED, "protobuf": protobuf_file(tmp_path)}[name]
    place = tmp_path / "registry"
    place.mkdir()
    with ottla.Producer(broker.address, value_serializer=ottla.RegistrySerializer(str(place), schema, format=name)) as producer:
        for gate in range(1, 6):
            producer.send(topic, {"gate": gate}, partition=0)
    with reader(broker, topic, value_deserializer=ottla.RegistryDeserializer(str(place))) as consumer:
        ends = consumer.end_offsets([(topic, 0)])
        one_by_one: list[Any] = [record.value for record in consumer.records(until=ends)]
    with reader(broker, topic) as consumer:
        (batch,) = consumer.batches(until=ends, value_format=name, schema_registry=str(place))
    assert batch["value"].to_pylist() == one_by_one == [{"gate": gate} for gate in range(1, 6)]


def test_a_registry_that_does_not_answer_leaves_the_position(broker: Peer, topic: str) -> None:
    fill(broker, topic, [b"\0\0\0\0\1\0"])
    with reader(broker, topic) as consumer:
        with pytest.raises(ottla.KafkaError, match=r"127\.0\.0\.1:9"):
            next(consumer.batches(value_format="avro", value_schema=GATE, schema_registry="http://127.0.0.1:9"))
        assert consumer.position((topic, 0)) == 0
