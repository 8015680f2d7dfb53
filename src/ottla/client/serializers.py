"""The serializers of keys and values: functions, and formats by name, whose bytes are those of Java's serializers.

Null is not passed to a serializer or deserializer: None stays None in both directions, so a tombstone remains one. A function gets
the value alone, so that functions such as `str.encode` and `json.loads` fit as they are. The topic is given to what needs it, the
serializers of schema registries. Nobody gets the headers.
"""

from __future__ import annotations

import inspect
import json
import struct
import uuid
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

from ottla.client.errors import DeserializationFailed, KafkaError, SerializationFailed, SettingError
from ottla.client.types import ConsumerRecord
from ottla.schemas.json_values import parse_json
from ottla.schemas.registry_values import RegistryDeserializer, RegistrySerializer

FormatName = Literal["bytes", "str", "bool", "int16", "int32", "int64", "float32", "float64", "uuid", "json"]
Serialize = Callable[[Any], bytes | None]
Deserialize = Callable[[bytes], Any]
UUID_BYTES = 36


class ValueFormat(NamedTuple):
    """A format by name: the functions that write and read its values."""

    serialize: Serialize
    deserialize: Deserialize


def _checked_bytes(value: bytes) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("only bytes are accepted")
    return bytes(value)


def _write_text(value: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError("only strings are accepted")
    return value.encode()


def _write_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _write_uuid(value: uuid.UUID) -> bytes:
    if not isinstance(value, uuid.UUID):
        raise TypeError("only a uuid.UUID is accepted")
    return str(value).encode()


def _read_uuid(data: bytes) -> uuid.UUID:
    if len(data) != UUID_BYTES:
        raise ValueError(f"a UUID has {UUID_BYTES} characters, not {len(data)}")
    return uuid.UUID(data.decode())


def _write_bool(value: bool) -> bytes:  # a value to write
    if not isinstance(value, bool):
        raise TypeError("only True and False are accepted")
    return b"\1" if value else b"\0"


def _read_bool(data: bytes) -> bool:
    if data not in (b"\0", b"\1"):
        raise ValueError("a boolean is one byte, 0 or 1")
    return data == b"\1"


def _number(form: str) -> ValueFormat:
    """Return a format of one number, big-endian, by its letter of the module `struct`."""
    packed = struct.Struct(f">{form}")

    def write(value: float) -> bytes:
        if isinstance(value, bool):
            raise TypeError("True and False are no numbers")
        return packed.pack(value)

    def read(data: bytes) -> int | float:
        if len(data) != packed.size:
            raise ValueError(f"a number of this format has {packed.size} bytes, not {len(data)}")
        found: int | float = packed.unpack(data)[0]
        return found

    return ValueFormat(write, read)


FORMATS: dict[str, ValueFormat] = {
    "bytes": ValueFormat(_checked_bytes, bytes),
    "str": ValueFormat(_write_text, bytes.decode),
    "bool": ValueFormat(_write_bool, _read_bool),
    "int16": _number("h"),
    "int32": _number("i"),
    "int64": _number("q"),
    "float32": _number("f"),
    "float64": _number("d"),
    "uuid": ValueFormat(_write_uuid, _read_uuid),
    "json": ValueFormat(_write_json, parse_json),
}
assert set(FORMATS) == set(get_args(FormatName))


def serializer(name: str, given: object) -> Serialize | RegistrySerializer | None:
    """Return the function of a serializer that is given as a function or by name. Raises `SettingError`."""
    if isinstance(given, RegistrySerializer):
        return given
    found = _resolve(name, given)
    return found.serialize if isinstance(found, ValueFormat) else found


def deserializer(name: str, given: object) -> Deserialize | None:
    """Return the function of a deserializer that is given as a function or by name. Raises `SettingError`."""
    found = given if isinstance(given, RegistryDeserializer) else _resolve(name, given)
    return found.deserialize if isinstance(found, ValueFormat) else found


_NO_SERIALIZERS = (str, int, float, bool, dict, list)
_MISTAKEN_TYPES: dict[tuple[bool, type], str] = {
    **{(True, kind): "makes no bytes: give the name of a format, such as 'str', 'int64' or 'json'" for kind in _NO_SERIALIZERS},
    (False, str): "makes the text \"b'…'\" of bytes: give 'str'",
    (False, dict): "cannot read bytes: give 'json'",
    (False, list): "makes a list of numbers of bytes: give 'json'",
    (False, bool): "is True for all bytes but none: give 'bool'",
}
"""Types that are given as (is a serializer, type) by mistake, with the effect and the remedy. `int` and `float` read text."""


def _resolve(name: str, given: object) -> ValueFormat | Callable[[Any], Any] | None:
    if given is None:
        return None
    if isinstance(given, str) and given in FORMATS:
        return FORMATS[given]
    if isinstance(given, type) and (effect := _MISTAKEN_TYPES.get((name.endswith("_serializer"), given))) is not None:
        raise SettingError(f"{name} is the type {given.__name__}, which {effect}.")
    if isinstance(given, RegistrySerializer | RegistryDeserializer):
        raise SettingError(f"{name} is a {type(given).__name__}: a serializer writes, and a deserializer reads.")
    if inspect.iscoroutinefunction(given):
        raise SettingError(f"{name} is a coroutine function, which nothing awaits: give a plain function.")
    if callable(given):
        return given
    raise SettingError(f"{name} must be a function or one of {', '.join(FORMATS)}, not {given!r}.")


class FieldSerializer:
    """The serializer of keys or of values (`field`), None for one that is sent as it is given."""

    def __init__(self, field: str, given: Serialize | RegistrySerializer | None) -> None:
        self._field = field
        self._given = given
        self._registry = given if isinstance(given, RegistrySerializer) else None

    def is_ready(self, topic: str) -> bool:
        """Return whether `serialize` needs no request to a schema registry for this topic."""
        return self._registry is None or self._registry.is_ready(topic, self._field)

    def load(self, topic: str) -> None:
        """Request what `serialize` needs for a topic, and block meanwhile. Raises `KafkaError`."""
        if self._registry is not None:
            self._registry.load(topic, self._field)

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return a key or value as bytes. Raises `SerializationFailed`, or the serializer's `KafkaError`."""
        given = self._given
        if value is None or given is None:
            return value  # type: ignore[no-any-return]  # the accumulator checks it
        try:
            made = given.write(topic, self._field, value) if isinstance(given, RegistrySerializer) else given(value)
            if not isinstance(made, bytes | bytearray | memoryview | None):
                raise TypeError(f"it returned a {type(made).__name__}, not bytes")
        except KafkaError:
            raise
        except Exception as error:
            raise SerializationFailed(topic, self._field, value, error) from error
        return made


def _without_loading(given: Deserialize | None) -> Deserialize | None:
    """Return the function that raises `SchemaMissing` instead of waiting for a registry, where there is one."""
    return given.read if isinstance(given, RegistryDeserializer) else given


class RecordDeserializer:
    """The deserializers of a consumer's records."""

    def __init__(self, key: Deserialize | None, value: Deserialize | None) -> None:
        self._key, self._value = _without_loading(key), _without_loading(value)

    def deserialize(self, record: ConsumerRecord[Any, Any]) -> ConsumerRecord[Any, Any]:
        """Return a record with key and value read. Raises `DeserializationFailed`, or a deserializer's `KafkaError`."""
        key, value = record.key, record.value
        try:
            if key is not None and self._key is not None:
                key = self._key(key)
        except KafkaError:
            raise
        except Exception as error:
            raise DeserializationFailed(record, "key", error) from error
        try:
            if value is not None and self._value is not None:
                value = self._value(value)
        except KafkaError:
            raise
        except Exception as error:
            raise DeserializationFailed(record, "value", error) from error
        return ConsumerRecord(record.offset, record.timestamp, record.timestamp_type, key, value, record.headers, record.where)
