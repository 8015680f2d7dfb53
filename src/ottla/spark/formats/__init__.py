"""Typed keys and values of Spark's rows. The source decodes them into Arrow columns, and the sink encodes them.

`choice` has the options of a job; `ddl`, `schemas` and `written_schemas` are about the types of columns; `codecs` finds the
decoder and the encoder of `ottla.formats`, `typed_rows` makes a task's columns, `misfits` is about values that do not fit.
"""
