"""Keys and values in the format of schema registries, as objects of Python: the serializer and the deserializer of clients.

Requests to the registry block. Clients therefore look into the caches first, and load what is missing on another thread.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from ottla.errors import KafkaError, SettingError
from ottla.schemas.frames import FRAME_BYTES, framed_id, set_of_files
from ottla.schemas.libraries import UnfitValue
from ottla.schemas.places import SchemaPlace, schema_place
from ottla.schemas.protobuf_values import message_name
from ottla.schemas.schema import AVRO, JSON, PROTOBUF, ValueSchema, read_schema
from ottla.schemas.values import Decode, Write, decoder_of, writer_of

REGISTRY = "registry"
Subject = Literal["topic", "record", "topic-record"]
SUBJECTS = ("topic", "record", "topic-record")


class SchemaMissing(KafkaError):
    """The schema of a value is not loaded yet. `load` requests it, and blocks; clients call it on another thread."""

    def __init__(self, schema_id: int, load: Callable[[], None]) -> None:
        super().__init__(f"Schema {schema_id} of the registry is not loaded: load it first.")
        self.load = load


class RegistrySerializer:
    """A serializer of values with schemas of a registry, which is a URL or a directory. Several clients and threads may share it.

        Producer(..., value_serializer=RegistrySerializer("http://localhost:8081", schema))

    `schema` is a dict or a text of Avro (`format="json"`: JSON Schema), or the path of a file as of `ottla produce --schema`.
    Protobuf needs a file of descriptors, and `message` names one of its messages. The schema is registered under its subject when
    the first record of a topic is sent. Without `schema`, the newest of the subject is used. `subject` is "topic" (TOPIC-key,
    TOPIC-value), "record" (the name of the schema's record or message, the title of a JSON Schema), or "topic-record" (both).

    Raises `SettingError` for a schema or a subject that cannot be used.
    """

    def __init__(
        self,
        registry: str,
        schema: str | Mapping[str, Any] | Path | None = None,
        *,
        format: Literal["avro", "json"] = "avro",
        message: str = "",
        subject: Subject = "topic",
    ) -> None:
        if subject not in SUBJECTS:
            raise SettingError(f"subject must be one of {', '.join(SUBJECTS)}, not {subject!r}.")
        if schema is None and subject != "topic":
            raise SettingError(f"subject={subject!r} needs a schema, whose record names the subject: give one.")
        self._place = schema_place(registry, REGISTRY, "schema=Path(...)")
        self._schema = None if schema is None else _read(schema, format, message)
        self._subject: Subject = subject
        self._writers: dict[tuple[str, str], Write] = {}
        self._lock = threading.Lock()

    def is_ready(self, topic: str, field: str) -> bool:
        """Return whether keys or values (`field`) of a topic can be written without a request to the registry."""
        return (topic, field) in self._writers

    def load(self, topic: str, field: str) -> None:
        """Register or request the schema of a topic's keys or values, and block meanwhile. Raises `KafkaError`."""
        with self._lock:
            if not self.is_ready(topic, field):
                self._writers[topic, field] = writer_of(self._schema_with_id(self._subject_of(topic, field)))

    def write(self, topic: str, field: str, value: object) -> bytes:
        """Return a value with the frame of its schema. Raises `UnfitValue`, and `KafkaError` if the registry does not answer."""
        if not self.is_ready(topic, field):
            self.load(topic, field)
        return self._writers[topic, field](value)

    def _subject_of(self, topic: str, field: str) -> str:
        if self._subject == "topic" or self._schema is None:
            return f"{topic}-{field}"
        name = _record_name(self._schema)
        return name if self._subject == "record" else f"{topic}-{name}"

    def _schema_with_id(self, subject: str) -> ValueSchema:
        """Return the schema with its id. Raises `KafkaError`."""
        if self._schema is not None:
            text = _text_to_register(self._schema, self._place)
            return self._schema._replace(schema_id=self._place.register(subject, self._schema.format_name, text))
        found = self._place.latest(subject)
        if found is None:
            raise KafkaError(f"The schema registry has no subject {subject}: register a schema, or give RegistrySerializer one.")
        return found


class RegistryDeserializer:
    """A deserializer of values whose frames name their schema in a registry: a URL or a directory. Several clients may share it.

        Consumer(..., value_deserializer=RegistryDeserializer("http://localhost:8081"))

    Avro and JSON Schema give what their libraries return, Protobuf a dict. The schema of an id is requested once.
    """

    def __init__(self, registry: str) -> None:
        self._place = schema_place(registry, REGISTRY, "another format")
        self._decoders: dict[int, Decode] = {}

    def __call__(self, data: bytes) -> Any:
        """Return a value. Raises `UnfitValue` for other bytes, and `KafkaError` if the registry does not answer."""
        try:
            return self.read(data)
        except SchemaMissing as missing:
            missing.load()
        return self.read(data)

    def read(self, data: bytes) -> Any:
        """Return a value by a schema that was loaded before. Raises `UnfitValue`, and `SchemaMissing`."""
        schema_id = framed_id(data)
        if schema_id is None:
            raise UnfitValue("it does not begin with the frame of a schema registry")
        decode = self._decoders.get(schema_id)
        if decode is None:
            raise SchemaMissing(schema_id, lambda: self._load(schema_id))
        return decode(data[FRAME_BYTES:])

    def _load(self, schema_id: int) -> None:
        schema = self._place.by_id(schema_id)
        self._decoders[schema_id] = self._refusal(schema_id) if schema is None else decoder_of(schema)

    def _refusal(self, schema_id: int) -> Decode:
        """Return a decoder that refuses one value. For the next one, the registry is asked again."""

        def refuse(data: bytes) -> object:
            self._decoders.pop(schema_id, None)
            raise UnfitValue(f"the registry has no schema {schema_id}")

        return refuse


def _read(schema: str | Mapping[str, Any] | Path, format_name: str, message: str) -> ValueSchema:
    if isinstance(schema, Path):
        return read_schema(schema, "schema")._replace(message=message)
    if format_name not in (AVRO, JSON):
        raise SettingError(f"format must be avro or json, not {format_name!r}: Protobuf needs schema=Path('FILE.desc').")
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return ValueSchema(format_name, (text.encode(),), "schema")


def _record_name(schema: ValueSchema) -> str:
    """Return the name of a schema's record, for its subject. Raises `SettingError`."""
    if schema.format_name == PROTOBUF:
        return message_name(schema)
    try:
        found = json.loads(schema.texts[-1])
        name, space = (found["title"], "") if schema.format_name == JSON else (found["name"], found.get("namespace", ""))
    except (ValueError, KeyError, TypeError):
        raise SettingError("The schema has no name, which is its subject: name it, or choose subject='topic'.") from None
    return f"{space}.{name}" if space and "." not in name else str(name)


def _text_to_register(schema: ValueSchema, place: SchemaPlace) -> str:
    """Return a schema as `SchemaPlace.register` takes it. Raises `SettingError` for imports that a registry lacks."""
    if schema.format_name != PROTOBUF:
        return schema.texts[-1].decode()
    if place.keeps_sets:
        return base64.b64encode(set_of_files(schema.texts)).decode()
    if len(schema.texts) > 1:
        raise SettingError(f"{schema.where} imports other files: register all of them, and leave out schema.")
    return base64.b64encode(schema.texts[-1]).decode()
