"""Values of JSON Schema: JSON, which is checked when it is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ottla.errors import KafkaError, SettingError
from ottla.schemas.libraries import UnfitValue, first_line, library
from ottla.schemas.schema import ValueSchema


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON text. Raises `UnfitValue`."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnfitValue(f"it is no JSON ({error})") from None


def json_decoder(schema: ValueSchema) -> Callable[[bytes], object]:
    """Return the decoder of values: the schema does not change what they are."""
    return parse_json


def json_encoder(schema: ValueSchema) -> Callable[[bytes], bytes]:
    """Return a function that checks a text. Raises `SettingError`, and `KafkaError` for a schema that refers to others."""
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
