"""Typed keys and values: JSON, CSV, Avro, Protobuf and Arrow, decoded into Arrow columns on the way in and encoded on the way out.

`choice` has the options of a job, `ddl` and `schemas` find the types of columns, `registry` connects to schema registries. Each
other module has one format, or what all formats share: `bulk` (many values at once, few one by one), `typed` (a task's columns),
`malformed` (values that do not fit). The package uses Arrow and PySpark's types; brokers are unknown here.
"""
