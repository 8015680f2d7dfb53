"""The choice of decoder and encoder by the format of a schema.

The library of a format is imported when the format is first used.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.errors import KafkaError
from ottla.schemas.avro_values import avro_decoder, avro_encoder, avro_writer
from ottla.schemas.frames import frame
from ottla.schemas.json_values import json_decoder, json_encoder, json_writer
from ottla.schemas.protobuf_values import protobuf_decoder, protobuf_encoder, protobuf_writer
from ottla.schemas.schema import AVRO, JSON, PROTOBUF, ValueSchema

Decode = Callable[[bytes], object]
Encode = Callable[[bytes], bytes]
Write = Callable[[object], bytes]
_DECODERS = {AVRO: avro_decoder, JSON: json_decoder, PROTOBUF: protobuf_decoder}
_ENCODERS = {AVRO: avro_encoder, JSON: json_encoder, PROTOBUF: protobuf_encoder}
_WRITERS = {AVRO: avro_writer, JSON: json_writer, PROTOBUF: protobuf_writer}


def decoder_of(schema: ValueSchema) -> Decode:
    """Return a function that decodes values without their frame. It raises `UnfitValue`.

    Raises `KafkaError` for an unusable schema.
    """
    _check(schema)
    return _DECODERS[schema.format_name](schema)


def encoder_of(schema: ValueSchema) -> Encode:
    """Return a function that encodes JSON texts, and adds the frame if the schema has an id. It raises `UnfitValue`.

    Raises `KafkaError` for an unusable schema.
    """
    _check(schema)
    encode = _ENCODERS[schema.format_name](schema)
    if schema.schema_id is None:
        return encode
    prefix = frame(schema.schema_id)
    return lambda text: prefix + encode(text)


def writer_of(schema: ValueSchema) -> Write:
    """Return a function that encodes objects of Python, with the frame if the schema has an id. It raises `UnfitValue`.

    Raises `KafkaError` for an unusable schema.
    """
    _check(schema)
    write = _WRITERS[schema.format_name](schema)
    if schema.schema_id is None:
        return write
    prefix = frame(schema.schema_id)
    return lambda value: prefix + write(value)


def _check(schema: ValueSchema) -> None:
    if schema.format_name not in _DECODERS:
        raise KafkaError(
            f"The schema of {schema.where} has the format {schema.format_name}: Avro, JSON Schema and Protobuf are known."
        )
