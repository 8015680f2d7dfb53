"""The decoder and the encoder of values with a JSON Schema. A value is JSON text, and is checked only when it is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ottla.errors import SettingError
from ottla.schemas.libraries import UnfitValue, first_line, library
from ottla.schemas.schema import ValueSchema


def parse_json(data: bytes) -> Any:
    """Parse a JSON text. Raises `UnfitValue`."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnfitValue(f"it is no JSON ({error})") from None


def json_decoder(schema: ValueSchema) -> Callable[[bytes], object]:
    """Return the JSON parser: the schema is not needed for decoding."""
    return parse_json


def json_encoder(schema: ValueSchema) -> Callable[[bytes], bytes]:
    """Return a function that checks a JSON text against a schema, and returns it unchanged. It raises `UnfitValue`.

    Raises `SettingError` for an invalid schema.
    """
    check = _validator(schema)

    def encode(text: bytes) -> bytes:
        check(parse_json(text))
        return text

    return encode


def json_writer(schema: ValueSchema) -> Callable[[object], bytes]:
    """Return a function that writes values as JSON, and checks them by a schema. It raises `UnfitValue`.

    Raises `SettingError` for an invalid schema.
    """
    check = _validator(schema)

    def write(value: object) -> bytes:
        check(value)
        try:
            return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, TypeError) as error:
            raise UnfitValue(f"it is no JSON ({error})") from None

    return write


def _validator(schema: ValueSchema) -> Callable[[object], None]:
    """Return a function that checks a value, and raises `UnfitValue`. Raises `SettingError` for an invalid schema."""
    jsonschema, referencing = library("jsonschema", "JSON Schema"), library("referencing", "JSON Schema")
    try:
        *others, parsed = map(json.loads, schema.texts)
        kind = jsonschema.validators.validator_for(parsed)
        kind.check_schema(parsed)
    except (ValueError, TypeError, jsonschema.exceptions.SchemaError) as error:
        raise SettingError(f"{schema.where} is no JSON Schema ({first_line(error)}): correct it, or name another one.") from None
    validator = kind(parsed, registry=_registry(referencing, dict(zip(schema.names, others, strict=False))))

    def check(value: object) -> None:
        try:
            error = next(validator.iter_errors(value), None)
        except referencing.exceptions.Unresolvable as missing:
            raise UnfitValue(f"its schema refers to {first_line(missing)}, which is missing") from None
        if error is not None:
            raise UnfitValue(f"it does not fit the schema: {first_line(error)} at {error.json_path}")

    return check


def _registry(referencing: Any, others: Mapping[str, Any]) -> Any:
    """Return the schemas that a schema refers to, by the names of its references. Nothing is requested from their URLs."""
    specification = library("referencing.jsonschema", "JSON Schema").DRAFT7

    def retrieve(uri: str) -> Any:
        for name, found in others.items():
            if uri == name or uri.endswith(f"/{name}"):  # a schema with an $id resolves names against it
                return referencing.Resource.from_contents(found, default_specification=specification)
        raise referencing.exceptions.NoSuchResource(ref=uri)

    return referencing.Registry(retrieve=retrieve)
