"""Values that are rows of CSV, joined into one text and decoded by Arrow's reader: no record becomes a Python object.

Each value gets one more field, a random mark, so that a quotation mark or line break in a value cannot merge or split rows
unnoticed. If the numbers of rows and values differ, or a mark is missing, the run has a malformed value. An empty field is null; an
empty text is in quotes.
"""

from __future__ import annotations

import re
import secrets
import string

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv

from ottla.formats.bulk import Decoded, Misfit, as_rows, decode_many
from ottla.formats.decimals import of_texts
from ottla.formats.errors import OptionError
from ottla.formats.python_values import type_name
from ottla.formats.scalars import as_text, bytes_of, join

_CONVERSION = re.compile(r"In CSV column #(\d+): ")

PLAIN = string.ascii_letters + string.digits + "+-.: "
"""The characters that numbers and times consist of. If the delimiter is one of them, fields with numbers or times are quoted."""
_VALUE = re.compile(r"'(.*)'", re.DOTALL)


class CsvDecoder:
    """A `Decoder` of CSV without a header, with the type's fields in their order."""

    def __init__(self, kind: pa.StructType, delimiter: str) -> None:
        self._kind = kind
        self._delimiter = delimiter
        self._mark = secrets.token_hex(16).replace(delimiter, "")  # because any digit can be the delimiter
        self._parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=False)
        # Arrow's reader parses either times with a zone or times without one. Both are tried, first the one that succeeded last.
        self._ways = [self._convert_options(zoned) for zoned in (True, False)]

    def _convert_options(self, zoned: bool) -> pyarrow.csv.ConvertOptions:
        kinds = {field.name: _read_as(field.type, zoned) for field in self._kind}
        return pyarrow.csv.ConvertOptions(
            column_types=kinds | {self._mark: pa.string()},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def decode(self, values: pa.Array) -> Decoded:
        return decode_many(values, self._kind, self._many, as_rows(self._kind, self._one))

    def _many(self, values: pa.Array) -> pa.Array | None:
        try:
            return self._rows(values) if len(values) else pa.array([], self._kind)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None

    def _one(self, raw: bytes) -> pa.Array:
        try:
            found = self._rows(pa.array([raw], pa.binary()))
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise Misfit(self._reason(str(error))) from None
        if found is None:
            raise Misfit("it is more than one row")
        return found

    def _rows(self, values: pa.Array) -> pa.Array | None:
        """Parse values. Return None if the rows do not correspond to the values. Raises Arrow's errors."""
        text = values.cast(pa.string())
        nulls = text.is_null() if text.null_count else None
        if nulls is not None:
            text = text.fill_null(self._delimiter * (self._kind.num_fields - 1))
        names = [*(field.name for field in self._kind), self._mark]
        data = bytes_of(join(text, f"{self._delimiter}{self._mark}\n"))
        reading = pyarrow.csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names)
        table = self._table(data, reading)
        marks = table.column(self._mark)
        if len(marks) != len(values) or not compute.all(compute.equal(marks, self._mark), min_count=0).as_py():
            return None
        columns = [_column(at, table.column(field.name).combine_chunks(), field.type) for at, field in enumerate(self._kind)]
        return pa.StructArray.from_arrays(columns, fields=list(self._kind), mask=nulls)

    def _table(self, data: memoryview, reading: pyarrow.csv.ReadOptions) -> pa.Table:
        for way in self._ways:
            try:
                table = pyarrow.csv.read_csv(
                    pa.BufferReader(data), read_options=reading, parse_options=self._parse, convert_options=way
                )
            except pa.ArrowInvalid as error:
                failure = error
            else:
                self._ways.sort(key=lambda each: each is not way)
                return table
        raise failure

    def _reason(self, error: str) -> str:
        conversion = _CONVERSION.search(error)
        if conversion is not None and int(conversion[1]) < self._kind.num_fields:
            field = self._kind.field(int(conversion[1]))
            shown = _VALUE.search(error)
            return f"{field.name}: {shown[1][:40] if shown else 'what stands there'} is no {type_name(field.type)}"
        if "UTF" in error:
            return "it is not UTF-8"
        return f"it is no row of {self._kind.num_fields} fields with {self._delimiter!r} between them"


def _read_as(kind: pa.DataType, zoned: bool) -> pa.DataType:
    """Return the type that Arrow's reader parses, before the cast to `kind`. Times without a zone are in UTC.

    Decimals are read as text, because Arrow's reader does not detect that one is too large.
    """
    if pa.types.is_decimal(kind):
        return pa.string()
    return kind if zoned or not pa.types.is_timestamp(kind) else pa.timestamp("us")


def _column(at: int, found: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column to `kind`. Raises `ArrowInvalid`, like Arrow's reader, for a number that does not fit."""
    if not pa.types.is_decimal(kind):
        return found.cast(kind)
    try:
        return of_texts(found, kind)
    except pa.ArrowInvalid:
        raise pa.ArrowInvalid(f"In CSV column #{at}: '{found[0]}'") from None


class CsvEncoder:
    """An `Encoder` of CSV. Texts are quoted if necessary, and null becomes an empty field."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter
        self._special = f'[{re.escape(delimiter)}"\r\n]'
        self._special_bytes = re.compile(self._special.encode())

    def encode(self, column: pa.Array) -> pa.Array:
        parts: list[pa.Array | str] = []
        for values in column.flatten():
            parts += [self._delimiter, self._field(values).fill_null("")]
        text = join(*parts[1:])
        whole = compute.if_else(column.is_valid(), text, pa.scalar(None, pa.string())) if column.null_count else text
        return whole.cast(pa.binary())

    def _field(self, values: pa.Array) -> pa.Array:
        try:
            text = as_text(values)
        except pa.ArrowInvalid:
            raise OptionError(
                "A BINARY column is not UTF-8 in a row, and csv is text: cast it to STRING, or write base64(…)."
            ) from None
        is_text = pa.types.is_string(values.type) or pa.types.is_binary(values.type)
        if not is_text and self._delimiter not in PLAIN:
            return text
        empty = compute.equal(text, "")
        if self._special_bytes.search(bytes_of(text)) is None and not compute.any(empty, min_count=0).as_py():
            return text
        needs = compute.or_(compute.match_substring_regex(text, self._special), empty)
        return compute.if_else(needs, join('"', compute.replace_substring(text, '"', '""'), '"'), text)
