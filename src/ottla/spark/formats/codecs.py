"""Which decoder and which encoder a format has. Each is imported where it is used: no job pays for the others."""

from __future__ import annotations

import pyarrow as pa

from ottla.spark.formats.bulk import Decoder, Encoder
from ottla.spark.formats.choice import Format, Formats


def decoder_of(column: str, chosen: Format, kind: pa.DataType) -> Decoder:
    """What decodes the keys or values of a task into `kind`."""
    if chosen.name == "arrow":
        from ottla.spark.formats.arrow_values import ArrowDecoder

        return ArrowDecoder(kind)
    if chosen.name == "csv":
        from ottla.spark.formats.csv_values import CsvDecoder

        return CsvDecoder(kind, chosen.delimiter)
    from ottla.spark.formats.json_values import JsonDecoder

    return JsonDecoder(kind)


def encoder_of(column: str, chosen: Format) -> Encoder:
    """What encodes a column into keys or values, row by row."""
    if chosen.name == "csv":
        from ottla.spark.formats.csv_values import CsvEncoder

        return CsvEncoder(chosen.delimiter)
    from ottla.spark.formats.json_text import JsonEncoder

    return JsonEncoder()


class EncodedColumns:
    """Turns rows with typed keys and values into those with bytes. Made once for each task."""

    def __init__(self, formats: Formats) -> None:
        given = formats.given()
        self._packs = formats.packs_rows()
        self._encoders = {column: encoder_of(column, each) for column, each in given.items() if not self._packs}

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Raises `OptionError` for a value that its format cannot hold."""
        if self._packs:
            from ottla.spark.formats.arrow_values import packed

            return packed(batch)
        for column, encoder in self._encoders.items():
            if column in batch.schema.names:
                batch = batch.set_column(batch.schema.get_field_index(column), column, encoder.encode(batch.column(column)))
        return batch
