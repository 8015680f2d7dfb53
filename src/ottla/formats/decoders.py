"""The decoder of each format. Formats are imported when used, so that no program loads others."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pyarrow as pa

from ottla.formats.bulk import Decoder

if TYPE_CHECKING:
    from ottla.formats.avro_schema import Avro
    from ottla.formats.protobuf_schema import ProtobufSchema
    from ottla.formats.registry import SchemaRegistry


def decoder_of(
    name: str,
    kind: pa.DataType,
    *,
    delimiter: str = ",",
    avro: Avro | None = None,
    asked: Avro | None = None,
    protobuf: ProtobufSchema | None = None,
) -> Decoder:
    """Return the decoder of a format into `kind`.

    `avro` is the schema of written values, and `asked` the one to which they are resolved, if there is one. `protobuf` is the
    schema of Protobuf. `delimiter` is for CSV.
    """
    if name == "arrow":
        from ottla.formats.arrow_values import ArrowDecoder

        return ArrowDecoder(kind)
    if name == "csv":
        from ottla.formats.csv_values import CsvDecoder

        return CsvDecoder(kind, delimiter)
    if name == "avro":
        from ottla.formats.avro_values import AvroDecoder

        assert avro is not None
        return AvroDecoder(kind, avro, asked)
    if name == "protobuf":
        from ottla.formats.protobuf_values import ProtobufDecoder

        assert protobuf is not None
        return ProtobufDecoder(kind, protobuf)
    from ottla.formats.json_values import JsonDecoder

    return JsonDecoder(kind)


def framed_decoder_of(name: str, kind: pa.DataType, registry: SchemaRegistry, asked: Avro | None = None) -> Decoder:
    """Return a decoder of values that begin with the id of their schema in a registry.

    `asked` is the schema of Avro to which values are resolved, if there is one.
    """
    from ottla.formats.registry_frames import FramedDecoder

    if name == "json":
        plain = decoder_of(name, kind)
        return FramedDecoder(kind, lambda schema_id: plain)

    def find(schema_id: int) -> Decoder | None:
        text = registry.by_id(schema_id, name)
        if text is None:
            return None
        source = f"Schema {schema_id} of the schema registry"
        if name == "avro":
            from ottla.formats import avro_schema

            return decoder_of(name, kind, avro=avro_schema.read(text, source), asked=asked)
        from ottla.formats.protobuf_values import PlacedProtobufDecoder

        return PlacedProtobufDecoder(kind, base64.b64decode(text), source)

    return FramedDecoder(kind, find)
