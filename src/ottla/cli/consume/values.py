"""Formats of keys and values: text, JSON, hex, base64, Avro, Protobuf and MessagePack. Each imports its library when used."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from enum import Enum
from functools import partial

from ottla.cli.record_format.forms import PackedText
from ottla.errors import SettingError
from ottla.inspection.json_values import plain
from ottla.schemas.frames import FRAME_BYTES, framed_id
from ottla.schemas.json_values import parse_json
from ottla.schemas.libraries import UnfitValue, library
from ottla.schemas.places import schema_place
from ottla.schemas.schema import schema_of_file
from ottla.schemas.values import Decode, decoder_of

AUTO = "auto"
_MAPS_AND_ARRAYS = frozenset((*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF))
"""The first bytes of MessagePack's maps and arrays. Other values are too short to be recognised."""

_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")

Decoder = Callable[[bytes, str], object]


class SchemaSource:
    """The schemas of values. A value with the frame of a registry names its schema.

    All other values have the schema of the file.
    """

    def __init__(self, file: str | None, registry: str | None) -> None:
        """Read the schema file, if one is given. Raises `SettingError`."""
        self._registry = None if registry is None else schema_place(registry)
        self._decoders: dict[int, Decode] = {}
        self._of_file: Decode | None = None
        self._format = ""
        if file is not None:
            schema = schema_of_file(file)
            self._format, self._of_file = schema.format_name, decoder_of(schema)

    def require(self, format_name: str) -> None:
        """Raise `SettingError` if the schema of the file is of another format."""
        if self._format not in ("", format_name):
            raise SettingError(f"The file of --schema is of {self._format}, not of {format_name}: name another one.")

    def decode(self, data: bytes, topic: str) -> object:
        """Return the content of a value. Raises `UnfitValue`, and `KafkaError` if the registry does not answer."""
        schema_id = None if self._registry is None else framed_id(data)
        if schema_id is not None:
            found = self._decoders.get(schema_id) or self._decoder(schema_id)
            return found(data[FRAME_BYTES:])
        # A value without a frame is none of the registry's.
        return data if self._of_file is None else self._of_file(data)

    def _decoder(self, schema_id: int) -> Decode:
        assert self._registry is not None
        schema = self._registry.by_id(schema_id)
        if schema is None:
            raise UnfitValue(f"the registry has no schema {schema_id}")
        return self._decoders.setdefault(schema_id, decoder_of(schema))


class Binary(Enum):
    """The form in which format `auto` shows bytes that are not text: unchanged, in hex for people, or in base64 for JSON."""

    RAW = "raw"
    HEX = "hex"
    BASE64 = "base64"


def decoder(name: str, schemas: SchemaSource | None, binary: Binary) -> Decoder | None:
    """Return the function that decodes a format; None for unchanged bytes, which JSON shows by itself. Raises `SettingError`."""
    if name == AUTO:
        return None if schemas is None and binary is not Binary.HEX else partial(_auto, schemas, binary)
    if name in ("avro", "protobuf"):
        if schemas is None:
            raise SettingError(f"{name} values need their schema: name it with --schema FILE or --schema-registry URL.")
        schemas.require(name)
        return schemas.decode
    if name.startswith("unpack["):
        return partial(_unpack, PackedText(name[len("unpack[") : -1]))
    if name == "msgpack":
        library("msgpack", "msgpack")
    return {"text": _text, "json": _json, "hex": _hex, "base64": _base64, "msgpack": _msgpack}[name]


def as_bytes(found: object) -> bytes:
    """Return a decoded value in the form in which it is printed: text unchanged, everything else as JSON."""
    if isinstance(found, bytes):
        return found
    return found.encode() if isinstance(found, str) else json.dumps(plain(found), ensure_ascii=False).encode()


def _text(data: bytes, topic: str) -> object:
    return data.decode(errors="replace")


def _json(data: bytes, topic: str) -> object:
    return parse_json(data)


def _hex(data: bytes, topic: str) -> object:
    return data.hex()


def _base64(data: bytes, topic: str) -> object:
    return base64.b64encode(data).decode()


def _unpack(form: PackedText, data: bytes, topic: str) -> object:
    return form.encode(data).decode(errors="replace")


def _msgpack(data: bytes, topic: str) -> object:
    msgpack = library("msgpack", "msgpack")
    try:
        return msgpack.unpackb(data, strict_map_key=False, timestamp=3)
    except (ValueError, TypeError, RecursionError) as error:
        raise UnfitValue(f"it is no MessagePack ({error})") from None


def _auto(schemas: SchemaSource | None, binary: Binary, data: bytes, topic: str) -> object:
    """Return a value decoded by its schema, or else as text or MessagePack, or else in the form `binary`.

    Without a schema, the value is not decoded if bytes are wanted. A text for people has no character that directs a terminal.
    """
    found = data if schemas is None else schemas.decode(data, topic)
    if isinstance(found, str) and binary is Binary.HEX:
        return _escaped(found)
    if not isinstance(found, bytes) or binary is Binary.RAW:
        return found
    try:
        text = data.decode()
    except UnicodeDecodeError:
        if binary is Binary.BASE64:
            return data
        if data[0] in _MAPS_AND_ARRAYS:
            try:
                return _msgpack(data, topic)
            except (UnfitValue, SettingError):
                pass
        return data.hex()
    return _escaped(text) if binary is Binary.HEX else text


def _escaped(text: str) -> str:
    """Return a text whose control characters except line feeds and tabs are escapes, even those that begin a colour."""
    return text if text.isprintable() else _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)
