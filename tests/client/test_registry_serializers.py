"""Serializers and deserializers with schemas of a registry: frames, subjects, caches, and a registry that is away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any, Literal

import pytest

import ottla
from ottla.client.serializers import FieldSerializer
from tests.support.peers import Peer
from tests.support.registry import PlayedRegistry

pytest.importorskip("fastavro")
AVRO = {"type": "record", "name": "Flight", "namespace": "air", "fields": [{"name": "gate", "type": "int"}]}
TITLED = {"title": "Flight", "type": "object", "properties": {"gate": {"type": "integer"}}, "required": ["gate"]}


@pytest.fixture
def registry() -> Iterator[PlayedRegistry]:
    with PlayedRegistry() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def read(broker: Peer, topic: str, registry: str, count: int, **settings: Any) -> list[object]:
    given = {"auto_offset_reset": "earliest", "value_deserializer": ottla.RegistryDeserializer(registry), **settings}
    with ottla.Consumer(topic, bootstrap_servers=broker.address, **given) as consumer:
        return [record.value for _, record in zip(range(count), consumer, strict=False)]


def test_values_have_the_frame_of_their_schema_which_is_requested_once(broker: Peer, topic: str, registry: PlayedRegistry) -> None:
    serializer = ottla.RegistrySerializer(registry.url, AVRO)
    with ottla.Producer(broker.address, value_serializer=serializer) as producer:
        for gate in range(100):
            producer.send(topic, {"gate": gate}, partition=0)
        with pytest.raises(ottla.SerializationFailed, match=f"topic {topic} .*of type dict .*does not fit the schema"):
            producer.send(topic, {"gate": "B"}, partition=0)
    assert read(broker, topic, registry.url, 100) == [{"gate": gate} for gate in range(100)]
    assert registry.asked == [f"POST /subjects/{topic}-value/versions", "GET /schemas/ids/1"]
    with ottla.Consumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).value == b"\0\0\0\0\1\0"


def test_a_serializer_without_a_schema_takes_the_newest_of_the_subject(broker: Peer, topic: str, registry: PlayedRegistry) -> None:
    with ottla.Producer(broker.address, value_serializer=ottla.RegistrySerializer(registry.url)) as producer:
        with pytest.raises(ottla.KafkaError, match=f"has no subject {topic}-value"):
            producer.send(topic, {"gate": 1})
        registry.subjects[f"{topic}-value"] = {"id": 7, "schema": json.dumps(AVRO)}
        producer.send(topic, {"gate": 2})
    assert read(broker, topic, registry.url, 1) == [{"gate": 2}]


@pytest.mark.parametrize(
    ("subject", "name"), [("topic", "flights-key"), ("record", "air.Flight"), ("topic-record", "flights-air.Flight")]
)
def test_the_subject_follows_its_strategy(
    registry: PlayedRegistry, subject: Literal["topic", "record", "topic-record"], name: str
) -> None:
    made = FieldSerializer("key", ottla.RegistrySerializer(registry.url, json.dumps(AVRO), subject=subject))
    assert made.serialize("flights", {"gate": -1}) == b"\0\0\0\0\1\1"
    assert list(registry.subjects) == [name]


def test_json_schema_checks_and_writes_json(registry: PlayedRegistry) -> None:
    pytest.importorskip("jsonschema")
    serializer = ottla.RegistrySerializer(registry.url, TITLED, format="json", subject="record")
    assert serializer.write("flights", "value", {"gate": 1}) == b'\0\0\0\0\1{"gate": 1}'
    assert list(registry.subjects) == ["Flight"]
    assert ottla.RegistryDeserializer(registry.url)(b'\0\0\0\0\1{"gate": 1}') == {"gate": 1}
    with pytest.raises(ValueError, match="required property"):
        serializer.write("flights", "value", {})


def test_protobuf_names_its_message_in_the_frame(registry: PlayedRegistry, tmp_path: Path) -> None:
    files = pytest.importorskip("google.protobuf.descriptor_pb2").FileDescriptorSet()
    file = files.file.add(name="m.proto", package="air", syntax="proto3")
    file.message_type.add(name="Other")
    outer = file.message_type.add(name="Flight")
    outer.field.add(name="gate", number=1, type=5, label=1)
    outer.nested_type.add(name="Leg").field.add(name="gate", number=1, type=5, label=1)
    path = tmp_path / "m.desc"
    path.write_bytes(files.SerializeToString())
    for place in (registry.url, str(tmp_path)):
        flight = ottla.RegistrySerializer(place, path, message="air.Flight", subject="record")
        leg = ottla.RegistrySerializer(place, path, message="air.Flight.Leg", subject="topic")
        data = flight.write("flights", "value", {"gate": 3})
        assert data[5:] == b"\x02\x02\x08\3"
        assert leg.write("flights", "value", {"gate": 3})[5:] == b"\x04\x02\x00\x08\3"
        with pytest.raises(ValueError, match="does not fit"):
            flight.write("flights", "value", {"seat": 3})
    registry.subjects["air.Flight"]["schemaType"] = "PROTOBUF"
    assert ottla.RegistryDeserializer(str(tmp_path))(data) == {"gate": 3}


def test_a_registry_that_is_away_is_no_bad_record(broker: Peer, topic: str, registry: PlayedRegistry) -> None:
    registry.is_away = True
    with ottla.Producer(broker.address, value_serializer=ottla.RegistrySerializer(registry.url, AVRO)) as producer:
        with pytest.raises(ottla.KafkaError, match="answered 503"):
            producer.send(topic, {"gate": 1}, partition=0)
        registry.is_away = False
        producer.send(topic, {"gate": 2}, partition=0)
    deserializer = ottla.RegistryDeserializer(registry.url)
    with ottla.Consumer(
        topic, bootstrap_servers=broker.address, auto_offset_reset="earliest", value_deserializer=deserializer, on_bad_record="skip"
    ) as consumer:
        registry.is_away = True
        for _ in range(2):
            with pytest.raises(ottla.KafkaError, match="answered 503"):
                consumer.poll(10_000)
        assert consumer.position((topic, 0)) == 0
        registry.is_away = False
        assert [record.value for record in consumer.poll(10_000)] == [{"gate": 2}]


def test_bytes_without_a_known_schema_are_bad_records(broker: Peer, topic: str, registry: PlayedRegistry) -> None:
    registry.subjects["x"] = {"id": 1, "schema": json.dumps(AVRO)}
    with ottla.Producer(broker.address) as producer:
        for value in (b"text", b"\0\0\0\0\x09\2", b"\0\0\0\0\1", b"\0\0\0\0\1\4"):
            producer.send(topic, value, partition=0)
    assert read(broker, topic, registry.url, 1, on_bad_record="skip") == [{"gate": 2}]


def test_the_asynchronous_faces_request_schemas_beside_the_loop(broker: Peer, topic: str, registry: PlayedRegistry) -> None:
    async def main() -> object:
        async with ottla.AsyncProducer(broker.address, value_serializer=ottla.RegistrySerializer(registry.url, AVRO)) as producer:
            await producer.send(topic, {"gate": 5})
        async with ottla.AsyncConsumer(
            topic, bootstrap_servers=broker.address, auto_offset_reset="earliest",
            value_deserializer=ottla.RegistryDeserializer(registry.url),
        ) as consumer:  # fmt: skip
            return [record.value for record in await consumer.poll(10_000)]

    assert asyncio.run(main()) == [{"gate": 5}]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"registry": "localhost:8081"}, "registry 'localhost:8081' is not a URL"),
        ({"subject": "name"}, "subject must be one of topic, record, topic-record"),
        ({"subject": "record"}, "needs a schema"),
        ({"schema": "{}", "format": "protobuf"}, "Protobuf needs schema=Path"),
    ],
)
def test_mistakes_are_one_sentence_at_once(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ottla.SettingError, match=sentence):
        ottla.RegistrySerializer(**{"registry": "http://127.0.0.1:1", **given})
