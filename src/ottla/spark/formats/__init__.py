"""Typed keys and values: JSON, CSV, Avro, Protobuf and Arrow.

The source decodes them into Arrow columns, and the sink encodes them.

`choice` has the options of a job, `ddl` and `schemas` find the types of columns, `registry` connects to schema registries. Each
other module has one format, or what all formats share: `bulk` (many values at once, few one by one), `typed_rows` (a task's
columns), `misfits` (values that do not fit). The package uses Arrow and PySpark's types, and no brokers.
"""
