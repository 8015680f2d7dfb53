"""The splitting of input into rows, without a Python object for each line. A line is a value, or a key and a value."""

from __future__ import annotations

import time

from ottla.cli.record_format.forms import BadInput
from ottla.cli.record_format.input_records import LONGEST_RECORD, InputRecord
from ottla.records.batches.builder import encode_headers
from ottla.records.batches.lines import SplitLines, split_lines
from ottla.records.kernel import HEADERS_SIZE, KEY_SIZE


class RowSplitter:
    """A splitter that gets the input in chunks of any size. An incomplete line is kept until the next chunk.

    `common` has the fields that all records share: their headers, and their key unless there is a `separator`.
    """

    def __init__(self, delimiter: bytes, separator: bytes, null: bytes | None, common: InputRecord) -> None:
        self._delimiter, self._separator, self._null = delimiter, separator, null
        self._key = None if common.key == null else common.key
        self._headers = encode_headers(common.headers)
        self._rest = b""

    def split(self, data: bytes) -> SplitLines:
        """Return the complete lines up to the first line without a separator. That line and the lines after it are `others`."""
        data = self._rest + data
        found = split_lines(data, time.time_ns() // 1_000_000, self._delimiter, self._separator, self._null)
        self._rest = data[found.end :]
        if self._key is not None:
            found.rows.key_data = self._key
            found.rows.fill(KEY_SIZE, len(self._key))
        if len(self._headers) > 1:
            found.rows.header_data = self._headers
            found.rows.fill(HEADERS_SIZE, len(self._headers))
        return found

    def others(self) -> list[bytes]:
        """Return the complete lines that `split` did not return as rows. Raises `BadInput` if the incomplete line is too long."""
        *lines, self._rest = self._rest.split(self._delimiter)
        if len(self._rest) > LONGEST_RECORD:
            raise BadInput(f"it is longer than {LONGEST_RECORD} bytes: set the delimiter with -D.")
        return lines

    def finish(self) -> list[bytes]:
        """Return the incomplete line at the end of the input, if any, and get ready for another input."""
        last, self._rest = self._rest, b""
        return [last] if last else []
