"""Typed keys and values: JSON, CSV, Avro, Protobuf and Arrow, decoded into columns of Arrow and encoded from them.

`registry` connects to schema registries, `avro_schema`, `json_schema` and `protobuf_schema` find the types of columns. Each other
module has one format, or what all formats share: `bulk` (many values at once, few one by one), `cursors` (positions in them). The
package uses Arrow, and neither brokers nor Spark: consumers and the data source of Spark are its users.
"""
