"""The decoder and the encoder of each format. Formats are imported when used, so that no job loads others."""

from __future__ import annotations

import base64
from dataclasses import replace

import pyarrow as pa

from ottla.formats import decoders
from ottla.formats.bulk import Decoder, Encoder
from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import Format, Formats


def decoder_of(column: str, chosen: Format, kind: pa.DataType) -> Decoder:
    """Return the decoder of keys or values into `kind`."""
    if chosen.registry is not None:
        return _framed_decoder(column, chosen, chosen.registry, kind)
    if chosen.name == "avro":
        from ottla.formats import avro_schema
        from ottla.spark.formats.schemas import spark_type, written_schema

        return decoders.decoder_of(
            "avro", kind, avro=avro_schema.read(written_schema(column, chosen, spark_type(kind)), f"Option {column}Schema")
        )
    if chosen.name == "protobuf":
        from ottla.spark.formats.schemas import protobuf_of

        return decoders.decoder_of("protobuf", kind, protobuf=protobuf_of(column, chosen))
    return decoders.decoder_of(chosen.name, kind, delimiter=chosen.delimiter)


def _framed_decoder(column: str, chosen: Format, place: str, kind: pa.DataType) -> Decoder:
    from ottla.formats import avro_schema
    from ottla.spark.formats.registries import registry_of
    from ottla.spark.formats.schemas import readers_schema

    text = readers_schema(column, chosen) if chosen.name == "avro" else None
    asked = None if text is None else avro_schema.read(text, f"Option {column}Schema")
    return decoders.framed_decoder_of(chosen.name, kind, registry_of(place), asked)


def encoder_of(column: str, chosen: Format, kind: pa.DataType, topic: str | None) -> Encoder:
    """Return the encoder of a column of `kind` for a topic. If there is a registry, register the schema in it."""
    if chosen.registry is not None and topic is not None and chosen.name == "protobuf":
        return _registered_protobuf(column, chosen, chosen.registry, topic)
    if chosen.registry is not None and topic is not None:
        from ottla.formats.registry import subject_of
        from ottla.formats.registry_frames import FramedEncoder
        from ottla.spark.formats.registries import registry_of
        from ottla.spark.formats.schemas import spark_type, written_schema

        text = written_schema(column, chosen, spark_type(kind))
        schema_id = registry_of(chosen.registry).register(subject_of(topic, column), chosen.name, text)
        return FramedEncoder(schema_id, encoder_of(column, replace(chosen, registry=None), kind, topic))
    if chosen.name == "csv":
        from ottla.formats.csv_values import CsvEncoder

        return CsvEncoder(chosen.delimiter)
    if chosen.name == "avro":
        from ottla.formats import avro_schema
        from ottla.formats.avro_bytes import AvroEncoder
        from ottla.spark.formats.schemas import spark_type, written_schema

        return AvroEncoder(avro_schema.read(written_schema(column, chosen, spark_type(kind)), f"Option {column}Schema"), column)
    if chosen.name == "protobuf":
        from ottla.formats.protobuf_bytes import ProtobufEncoder
        from ottla.spark.formats.schemas import protobuf_of

        return ProtobufEncoder(protobuf_of(column, chosen), column)
    from ottla.formats.json_values import JsonEncoder

    return JsonEncoder()


def _registered_protobuf(column: str, chosen: Format, place: str, topic: str) -> Encoder:
    """Return an encoder for the schema in option keySchema or valueSchema, which is registered.

    Without the option, use the topic's newest schema.
    """
    from ottla.formats.protobuf_bytes import ProtobufEncoder
    from ottla.formats.protobuf_schema import places, read
    from ottla.formats.registry import subject_of
    from ottla.formats.registry_frames import FramedEncoder
    from ottla.schemas.frames import path_bytes
    from ottla.spark.formats.registries import registry_of
    from ottla.spark.formats.schemas import descriptors_of, newest

    schema_id: int | None = None
    if chosen.schema is None:
        found = newest(place, column, chosen, topic)
        schema_id, held, message = found.schema_id, base64.b64decode(found.text), ""
    else:
        held, message = descriptors_of(column, chosen)
    schema = read(held, message, f"Option {column}Schema")
    named = {name: at for at, name in places(held).items()}
    if schema.root.name not in named:
        raise OptionError(
            f"Option {column}Schema names a message of another file, which is not what is registered: name one of its own."
        )
    if schema_id is None:
        text = base64.b64encode(held).decode()
        schema_id = registry_of(place).register(subject_of(topic, column), chosen.name, text)
    return FramedEncoder(schema_id, ProtobufEncoder(schema, column), path_bytes(named[schema.root.name]))


class EncodedColumns:
    """The encoder of a task's typed keys and values. All rows are for `topic`."""

    def __init__(self, formats: Formats, topic: str | None) -> None:
        self._formats = formats
        self._topic = topic
        self._encoders: dict[str, Encoder] = {}

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with encoded keys and values. Raises `OptionError` for a value that its format cannot represent."""
        if self._formats.packs_rows():
            from ottla.formats.arrow_values import pack

            return pack(batch)
        for column, chosen in self._formats.formats_by_column().items():
            if column in batch.schema.names:
                typed = batch.column(column)
                if column not in self._encoders:
                    self._encoders[column] = encoder_of(column, chosen, typed.type, self._topic)
                encoded = self._encoders[column].encode(typed)
                batch = batch.set_column(batch.schema.get_field_index(column), column, encoded)
        return batch
