"""Values that are streams of Arrow's IPC format with many rows each: the cheapest format to decode and encode.

A record becomes as many rows as its value has. Fields are matched by name. Unknown fields are ignored, and missing fields are null.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.ipc

from ottla.formats.bulk import Decoded, Misfit
from ottla.formats.errors import OptionError

RECORD_BYTES = 256 * 1024
"""The maximum size of a written value, in bytes, unless one row alone is larger."""
_FAILURES = (pa.ArrowException, ValueError, OSError)


class ArrowDecoder:
    """A `Decoder` of Arrow IPC streams, each of which contains many rows. A null or malformed value becomes one null row."""

    def __init__(self, kind: pa.StructType) -> None:
        self._kind = kind

    def decode(self, values: pa.Array) -> Decoded:
        made: list[pa.Array] = [pa.array([], self._kind)]
        wrong: dict[int, str] = {}
        for row, value in enumerate(values):
            if not value.is_valid:
                made.append(pa.nulls(1, self._kind))
                continue
            try:
                made.append(self._rows(value.as_buffer()))
            except Misfit as error:
                wrong[row] = str(error)
                made.append(pa.nulls(1, self._kind))
        counts = [len(each) for each in made[1:]]
        records = pa.array(numpy.repeat(numpy.arange(len(values), dtype=numpy.int64), counts))
        return Decoded(pa.concat_arrays(made), wrong, records)

    def _rows(self, value: pa.Buffer) -> pa.Array:
        try:
            with pyarrow.ipc.open_stream(value) as stream:
                table = stream.read_all()
            table.validate(full=True)  # wrong offsets would point outside of the buffer
        except _FAILURES:
            raise Misfit("it is not a stream of Arrow's IPC format") from None
        columns = []
        for field in self._kind:
            try:
                columns.append(_column(table, field))
            except _FAILURES as error:
                raise Misfit(f"{field.name}: {error}") from None
        if not columns:
            return pa.array([{}] * table.num_rows, self._kind)
        return pa.StructArray.from_arrays(columns, fields=list(self._kind))


def _column(table: pa.Table, field: pa.Field) -> pa.Array:
    if field.name not in table.schema.names:
        return pa.nulls(table.num_rows, field.type)
    found = table.column(field.name).combine_chunks()
    return found if found.type == field.type else found.cast(field.type)


def pack(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Pack rows into records of many rows. Each record has rows of one topic and partition, if the rows have these columns.

    Raises `OptionError`.
    """
    value = batch.column("value")
    if value.null_count:
        raise OptionError("A row's value is null, and the format arrow packs rows that have one: filter such rows out.")
    written: list[dict[str, object]] = []
    kept = [name for name in ("topic", "partition") if name in batch.schema.names]
    for own, names in _alike(batch, kept):
        rows = own.column("value")
        most = max(1, len(rows) * RECORD_BYTES // max(1, rows.nbytes))
        written += [{"value": _stream(rows.slice(start, most)), **names} for start in range(0, len(rows), most)]
    kinds = [pa.field("value", pa.binary()), *(batch.schema.field(name) for name in kept)]
    return pa.RecordBatch.from_pylist(written, schema=pa.schema(kinds))


def _alike(batch: pa.RecordBatch, names: list[str]) -> Iterator[tuple[pa.RecordBatch, dict[str, object]]]:
    """Yield the rows of each topic and partition, together with the topic and partition."""
    if not names:
        yield batch, {}
        return
    choices = [compute.unique(batch.column(name)).to_pylist() for name in names]
    for chosen in itertools.product(*choices):
        own = batch
        for name, each in zip(names, chosen, strict=True):
            column = own.column(name)
            own = own.filter(column.is_null() if each is None else compute.equal(column, each))
        if own.num_rows:
            yield own, dict(zip(names, chosen, strict=True))


def _stream(rows: pa.StructArray) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_struct_array(rows)
    with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())
