"""A task's rows with typed keys and values: which columns to open, and what becomes of them.

Made once for each task. Knows Arrow and the columns' names; nothing of brokers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy
import pyarrow as pa
import pyarrow.compute as compute

from ottla.spark.formats.bulk import Decoded
from ottla.spark.formats.choice import CORRUPT, DROP, Formats
from ottla.spark.formats.codecs import decoder_of
from ottla.spark.formats.misfits import Misfits, Put

OPENED = {"key": pa.binary(), "value": pa.binary(), "offset": pa.int64()}
"""What tells of a value that does not fit, and what a dead letter is made of."""
_SOURCES = {corrupt: column for column, corrupt in CORRUPT.items()}


class TypedRows:
    """Turns opened columns into those of `schema`. `finish` is to be called after the last of them."""

    def __init__(self, formats: Formats, schema: pa.Schema, where: str, put: Put | None) -> None:
        """`where` names the partition in messages, `put` writes dead letters."""
        self._schema = schema
        self._drop = formats.mode == DROP
        self._formats = formats.given()
        kinds = {name: schema.field(name).type for name in self._formats if name in schema.names}
        if formats.packs_rows():
            kinds.setdefault("value", pa.struct([]))  # decoded all the same: it says how many rows there are
        self._decoders = {name: decoder_of(name, self._formats[name], kind) for name, kind in kinds.items()}
        self._misfits = Misfits(formats, where, put)
        names = dict.fromkeys([*(_SOURCES.get(name, name) for name in schema.names), *OPENED])
        self.opened = pa.schema([(name, OPENED[name] if name in OPENED else schema.field(name).type) for name in names])
        """What `rows` is to be given."""

    def rows(self, opened: pa.RecordBatch) -> pa.RecordBatch:
        """Raises `MalformedRecord` in mode FAILFAST."""
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
        return _without(rows, wrong, records) if wrong and self._drop else rows

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
        """Write the dead letters that are left, and say in the log how many records did not fit."""
        self._misfits.finish()


def _corrupt(column: pa.Array, wrong: Mapping[int, str]) -> pa.Array:
    """The bytes that did not fit, null in all other rows."""
    if not wrong:
        return pa.nulls(len(column), column.type)
    misfit = numpy.zeros(len(column), dtype=bool)
    misfit[list(wrong)] = True
    return compute.if_else(pa.array(misfit), column, pa.scalar(None, column.type))


def _without(rows: pa.RecordBatch, wrong: Mapping[int, str], records: pa.Array | None) -> pa.RecordBatch:
    """The rows of all other records."""
    origin = numpy.arange(rows.num_rows) if records is None else records.to_numpy()
    return rows.filter(pa.array(~numpy.isin(origin, list(wrong))))
