"""The decoder and the encoder of values with a JSON Schema. A value is JSON text, and is checked only when it is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ottla.errors import KafkaError, SettingError
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

    Raises `SettingError` for an invalid schema, and `KafkaError` for a schema with references to other schemas.
    """
    jsonschema = library("jsonschema", "JSON Schema")
    if len(schema.texts) > 1:
        raise KafkaError(f"The schema of {schema.where} refers to others: name a file with all of them by --schema.")
    try:
        parsed = json.loads(schema.texts[-1])
        kind = jsonschema.validators.validator_for(parsed)
        kind.check_schema(parsed)
    except (ValueError, TypeError, jsonschema.exceptions.SchemaError) as error:
        raise SettingError(f"{schema.where} is no JSON Schema ({first_line(error)}): correct it, or name another one.") from None
    validator = kind(parsed)

    def encode(text: bytes) -> bytes:
        error = next(validator.iter_errors(parse_json(text)), None)
        if error is not None:
            raise UnfitValue(f"it does not fit the schema: {first_line(error)} at {error.json_path}")
        return text

    return encode
