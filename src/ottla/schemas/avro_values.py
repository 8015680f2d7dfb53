"""The decoder and the encoder of Avro values, by the library fastavro."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

from ottla.errors import SettingError
from ottla.schemas.avro_bounds import unbounded_part
from ottla.schemas.json_values import parse_json
from ottla.schemas.libraries import UnfitValue, first_line, library
from ottla.schemas.schema import ValueSchema


def avro_decoder(schema: ValueSchema) -> Callable[[bytes], object]:
    """Return a function that decodes values of a schema. It raises `UnfitValue`.

    Raises `SettingError` for an invalid schema, and for one by which a few bytes become a value of any size.
    """
    fastavro, parsed = _parse(schema)
    if clause := unbounded_part([json.loads(text) for text in schema.texts]):
        raise SettingError(f"Values of {schema.where} cannot be decoded: {clause}; name another schema.")

    def decode(data: bytes) -> object:
        stream = BytesIO(data)
        try:
            found: object = fastavro.schemaless_reader(stream, parsed, None)
        except Exception as error:  # damaged bytes: fastavro raises many kinds
            raise UnfitValue(f"it does not fit {schema.where} of Avro ({type(error).__name__}: {error})") from None
        if stream.tell() != len(data):
            raise UnfitValue(f"{len(data) - stream.tell()} bytes remain after a value of {schema.where} of Avro")
        return found

    return decode


def avro_writer(schema: ValueSchema) -> Callable[[object], bytes]:
    """Return a function that encodes values by a schema. It raises `UnfitValue`. Raises `SettingError` for an invalid schema."""
    fastavro, parsed = _parse(schema)

    def write(value: object) -> bytes:
        out = BytesIO()
        try:
            fastavro.schemaless_writer(out, parsed, value, strict=True)
        except Exception as error:  # fastavro raises errors of its own, KeyError, TypeError and others
            raise UnfitValue(f"it does not fit the schema: {first_line(error)}") from None
        return out.getvalue()

    return write


def avro_encoder(schema: ValueSchema) -> Callable[[bytes], bytes]:
    """Return a function that encodes JSON texts by a schema. It raises `UnfitValue`.

    Raises `SettingError` for an invalid schema.
    """
    write = avro_writer(schema)
    return lambda text: write(parse_json(text))


def _parse(schema: ValueSchema) -> tuple[Any, Any]:
    """Return the module fastavro, and the schema as the module has parsed it. Raises `SettingError` for an invalid schema."""
    fastavro = library("fastavro", "Avro")
    named: dict[str, Any] = {}
    try:
        *_, parsed = [fastavro.parse_schema(json.loads(text), named_schemas=named) for text in schema.texts]
    except Exception as error:  # a schema of users: as above
        raise SettingError(f"{schema.where} is no schema of Avro ({first_line(error)}): correct it, or name another one.") from None
    return fastavro, parsed
