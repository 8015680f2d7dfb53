"""The conversion of a task's columns to rows with typed keys and values. It uses no brokers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy
import pyarrow as pa
import pyarrow.compute as compute

from ottla.formats.bulk import Decoded, without_rows
from ottla.spark.formats.choice import CORRUPT, DROP, Formats
from ottla.spark.formats.codecs import decoder_of
from ottla.spark.formats.misfits import Misfits, Put

OPENED = {"key": pa.binary(), "value": pa.binary(), "offset": pa.int64()}
"""The undecoded columns from which malformed values and dead letters are made."""
_SOURCES = {corrupt: column for column, corrupt in CORRUPT.items()}


class TypedRows:
    """A converter of columns before decoding (`opened`) to the columns of `schema`. Call `finish` after the last batch."""

    def __init__(self, formats: Formats, schema: pa.Schema, where: str, put: Put | None) -> None:
        """Create the converter of a task's rows. `where` names the partition in messages, `put` writes dead letters."""
        self._schema = schema
        self._drop = formats.mode == DROP
        self._formats = formats.formats_by_column()
        kinds = {name: schema.field(name).type for name in self._formats if name in schema.names}
        if formats.packs_rows():
            kinds.setdefault("value", pa.struct([]))  # decoded even if it is not selected, because it determines the number of rows
        self._decoders = {name: decoder_of(name, self._formats[name], kind) for name, kind in kinds.items()}
        self._misfits = Misfits(formats, where, put)
        names = dict.fromkeys([*(_SOURCES.get(name, name) for name in schema.names), *OPENED])
        self.opened = pa.schema([(name, OPENED[name] if name in OPENED else schema.field(name).type) for name in names])
        """The schema of the batches that `rows` accepts."""

    def rows(self, opened: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch. Raises `MalformedRecord` in mode FAILFAST."""
        decoded = {name: each.decode(opened.column(name)) for name, each in self._decoders.items()}
        wrong = {
            row: f"its {name} does not fit {name}Format {self._formats[name].name}: {why}"
            for name, each in decoded.items()
            for row, why in each.wrong.items()
        }
        self._misfits.meet(opened, wrong)
        records = decoded["value"].records if "value" in decoded else None
        made = [self._column(field, opened, decoded, records) for field in self._schema]
        rows = pa.RecordBatch.from_arrays(made, schema=self._schema)
        return without_rows(rows, wrong, records) if wrong and self._drop else rows

    def _column(
        self, field: pa.Field, opened: pa.RecordBatch, decoded: Mapping[str, Decoded], records: pa.Array | None
    ) -> pa.Array:
        if field.name in decoded:
            made = decoded[field.name].values
        elif field.name in CORRUPT.values():
            source = _SOURCES[field.name]
            made = _corrupt(opened.column(source), decoded[source].wrong)
        else:
            made = opened.column(field.name)
        if records is not None and field.name != "value":
            made = made.take(records)
        return made if made.type == field.type else made.view(field.type)

    def finish(self) -> None:
        """Write the remaining dead letters, and log the number of malformed records."""
        self._misfits.finish()


def _corrupt(column: pa.Array, wrong: Mapping[int, str]) -> pa.Array:
    """Return the bytes of malformed values, and null in all other rows."""
    if not wrong:
        return pa.nulls(len(column), column.type)
    misfit = numpy.zeros(len(column), dtype=bool)
    misfit[list(wrong)] = True
    return compute.if_else(pa.array(misfit), column, pa.scalar(None, column.type))
