"""Serializers of confluent-kafka and of Ottla write and read values with schemas of Ottla's registry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

import ottla
from ottla.schemas.places import schema_place
from ottla.schemas.registry_values import RegistryDeserializer, RegistrySerializer
from ottla.schemas.values import decoder_of
from tests.integration.schema_registry.instances import Instance, instance

AVRO = '{"type":"record","name":"Flight","namespace":"air","fields":[{"name":"late","type":"int"}]}'
JSON = '{"$schema":"http://json-schema.org/draft-07/schema#","title":"Flight","type":"object","properties":{"late":{"type":"integer"}}}'
DEPRECATED = {"use.deprecated.format": False}
CONTEXT = SerializationContext("flights", MessageField.VALUE)


@pytest.fixture(scope="module")
def registry() -> Iterator[Instance]:
    with ottla.Broker() as broker, instance(broker.address) as running:
        yield running


@pytest.fixture
def client(registry: Instance) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as found:
        yield found


def test_confluent_kafka_writes_and_ottla_reads_avro(registry: Instance, client: SchemaRegistryClient) -> None:
    data = AvroSerializer(client, AVRO)({"late": 12}, CONTEXT)
    assert AvroDeserializer(client)(data, CONTEXT) == {"late": 12}
    assert RegistryDeserializer(registry.url)(data) == {"late": 12}


def test_ottla_writes_and_confluent_kafka_reads_avro_and_json(registry: Instance, client: SchemaRegistryClient) -> None:
    avro = RegistrySerializer(registry.url, AVRO).write("departures", "value", {"late": 5})
    assert AvroDeserializer(client)(avro, SerializationContext("departures", MessageField.VALUE)) == {"late": 5}
    text = RegistrySerializer(registry.url, JSON, format="json").write("arrivals", "value", {"late": 5})
    assert JSONDeserializer(JSON, schema_registry_client=client)(text, SerializationContext("arrivals", MessageField.VALUE)) == {
        "late": 5
    }


def test_confluent_kafka_writes_json_and_protobuf(registry: Instance, client: SchemaRegistryClient) -> None:
    where = SerializationContext("json", MessageField.VALUE)
    data = JSONSerializer(JSON, client)({"late": 3}, where)
    assert RegistryDeserializer(registry.url)(data) == {"late": 3}
    message = _message("air/plane.proto", "Plane")(name="A")
    where = SerializationContext("proto", MessageField.VALUE)
    written = ProtobufSerializer(type(message), client, DEPRECATED)(message, where)
    assert ProtobufDeserializer(type(message), DEPRECATED, client)(written, where) == message
    assert RegistryDeserializer(registry.url)(written) == {"name": "A"}


def _message(file: str, name: str) -> Any:
    """Return the class of a message of two files, one of which imports the other."""
    text = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
    plane = descriptor_pb2.FileDescriptorProto(name="air/plane.proto", package="air", syntax="proto3")
    plane.message_type.add(name="Plane").field.add(name="name", number=1, type=text, label=1)
    flight = descriptor_pb2.FileDescriptorProto(name="air/flight.proto", package="air", syntax="proto3", dependency=[plane.name])
    flight.message_type.add(name="Other")
    flight.message_type.add(name="Flight").field.add(name="plane", number=1, type_name=".air.Plane", type=11, label=1)
    pool = DescriptorPool()
    for each in plane, flight:
        pool.AddSerializedFile(each.SerializeToString())
    return GetMessageClass(pool.FindFileByName(file).message_types_by_name[name])


def test_the_client_of_confluent_kafka_does_what_it_can(registry: Instance, client: SchemaRegistryClient) -> None:
    plane = Schema('{"type":"record","name":"Plane","fields":[]}', "AVRO")
    number = client.register_schema("plane", plane)
    referring = Schema('["null","Plane"]', "AVRO", [SchemaReference("Plane", "plane", 1)])
    assert client.register_schema("hangar", referring) == number + 1
    assert client.get_schema(number + 1).references == [SchemaReference("Plane", "plane", 1)]
    assert client.get_latest_version("hangar").version == 1
    assert client.lookup_schema("plane", plane).schema_id == number
    assert client.test_compatibility("plane", Schema('"int"', "AVRO")) is False
    assert "plane" in client.get_subjects()
    assert client.get_versions("plane") == [1]
    client.set_compatibility("plane", "FULL")
    assert client.get_compatibility("plane") == "FULL"
    with pytest.raises(SchemaRegistryError, match="incompatible"):
        client.register_schema("plane", Schema('"int"', "AVRO"))
    assert client.delete_subject("hangar") == [1]
    assert client.delete_subject("hangar", permanent=True) == [1]


def test_protobuf_with_references_is_read_by_ottla(registry: Instance, tmp_path: Path) -> None:
    plane = 'syntax = "proto3"; package air; message Plane { string name = 1; }'
    flight = 'syntax = "proto3"; package air; import "air/plane.proto"; message Flight { Plane plane = 1; }'
    registry.register("plane-proto", plane, schemaType="PROTOBUF")
    references = [{"name": "air/plane.proto", "subject": "plane-proto", "version": 1}]
    found = registry.register("flight-proto", flight, schemaType="PROTOBUF", references=references)
    schema = schema_place(registry.url).by_id(found["id"])
    assert schema is not None
    assert decoder_of(schema)(b"\0\x0a\x05\x0a\x03abc") == {"plane": {"name": "abc"}}


def test_confluent_kafka_registers_protobuf_with_its_dependencies(registry: Instance, client: SchemaRegistryClient) -> None:
    kind = _message("air/flight.proto", "Flight")
    message = kind()
    message.plane.name = "A"
    where = SerializationContext("dependent", MessageField.VALUE)
    written = ProtobufSerializer(kind, client, DEPRECATED)(message, where)
    with SchemaRegistryClient({"url": registry.url}) as fresh:  # it reads the schema from the registry
        assert ProtobufDeserializer(kind, DEPRECATED, fresh)(written, where) == message
    assert RegistryDeserializer(registry.url)(written) == {"plane": {"name": "A"}}
    references = client.get_latest_version("dependent-value").schema.references
    assert references is not None
    assert [each.name for each in references] == ["air/plane.proto"]
