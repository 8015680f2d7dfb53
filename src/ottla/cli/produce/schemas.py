"""The encoder of produced values by a schema: JSON text becomes Avro or Protobuf, or is checked by a JSON Schema."""

from __future__ import annotations

import argparse

from ottla.cli.record_format.forms import BadInput
from ottla.errors import KafkaError
from ottla.schemas.libraries import UnfitValue
from ottla.schemas.places import schema_place
from ottla.schemas.schema import ValueSchema, schema_of_file
from ottla.schemas.values import Encode, encoder_of


def encoder(options: argparse.Namespace) -> Encode | None:
    """Return the function that encodes values, and raises `BadInput`; None without a schema.

    Raises `SettingError` and `KafkaError`.
    """
    if options.schema is None and options.schema_registry is None:
        return None
    encode = encoder_of(_schema(options))

    def encode_value(value: bytes) -> bytes:
        try:
            return encode(value)
        except UnfitValue as error:
            raise BadInput(f"the value cannot be encoded: {error}.") from None

    return encode_value


def _schema(options: argparse.Namespace) -> ValueSchema:
    if options.schema is not None:
        return schema_of_file(options.schema)
    subject = f"{options.topic}-value"
    found = schema_place(options.schema_registry).latest(subject)
    if found is None:
        raise KafkaError(f"The schema registry has no subject {subject}: register a schema, or use --schema.")
    return found
