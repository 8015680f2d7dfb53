"""The parsers of the formats of schemas. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.schema_registry.avro import schema as avro_schema
from ottla.schema_registry.formats import Parse
from ottla.schema_registry.json import schema as json_schema
from ottla.schema_registry.protobuf import schema as protobuf_schema
from ottla.schema_registry.values import AVRO, JSON, PROTOBUF

PARSERS: Mapping[str, Parse] = {JSON: json_schema.parse, PROTOBUF: protobuf_schema.parse, AVRO: avro_schema.parse}
