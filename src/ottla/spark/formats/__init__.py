"""Typed keys and values: JSON, CSV, Avro, Protobuf and Arrow, decoded into Arrow columns on the way in and encoded on the way out.

`choice` holds what a job's options say, `ddl` and `schemas` find the columns' types, `registry` is the only door to a schema
registry. Each other module knows one format, or what all of them share: `bulk` (many at once, few one by one), `typed` (a task's
columns), `malformed` (what becomes of values that do not fit). Knows Arrow and PySpark's types; nothing of brokers.
"""
