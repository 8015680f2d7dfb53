"""Formats of keys and values: text, JSON, hex, base64, Avro, Protobuf and MessagePack. Each imports its library when used."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from ottla.cli.record_format.forms import PackedText
from ottla.cli.record_format.json_records import plain
from ottla.errors import SettingError
from ottla.schemas.json_values import parse_json
from ottla.schemas.libraries import UnfitValue, library

if TYPE_CHECKING:
    from ottla.cli.consume.schemas import SchemaSource

AUTO = "auto"
_MAPS_AND_ARRAYS = frozenset((*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF))
"""The first bytes of MessagePack's maps and arrays. Other values are too short to be recognised."""

Decoder = Callable[[bytes, str], object]


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

    Without a schema, the value is not decoded if bytes are wanted.
    """
    found = data if schemas is None else schemas.decode(data, topic)
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
    return text
