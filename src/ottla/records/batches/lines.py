"""Lines of text as rows to write, and fetched records as lines of text, without a Python object for a record."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ottla.records import kernel_lines
from ottla.records.batches.columns import Columns
from ottla.records.batches.rows import Rows
from ottla.records.kernel_common import SPAN_COLUMNS

BLOCK_BYTES: Final = 256 * 1024
"""The size of a block of lines. A longer line is a block of its own."""
BLOCK_LINES: Final = 8192


class SplitLines(NamedTuple):
    """The result of `split_lines`. The first `line_count` of `rows` are lines, and `end` is the position after the last one.

    The next line has no separator, or is incomplete.
    """

    rows: Rows
    line_count: int
    end: int


def split_lines(data: bytes, timestamp_ms: int, delimiter: bytes, separator: bytes = b"", null: bytes | None = None) -> SplitLines:
    """Return the whole lines of `data` as rows. With a `separator` of key and value, stop before a line that lacks it.

    Without a `separator`, keys are null. A key or value that is equal to `null` is null.
    """
    rows = Rows(data.count(delimiter), timestamp_ms)
    rows.key_data, rows.value_data = data if separator else None, data
    count, end = kernel_lines.split(data, delimiter, separator, null, rows.spans[: SPAN_COLUMNS * rows.row_count])
    return SplitLines(rows, count, end)


class LineBlock(NamedTuple):
    """Joined lines, their number, and the position after each of them."""

    data: memoryview
    line_count: int
    ends: Sequence[int]


class LineFormat:
    """The fields of a printed line: numbers of `kernel_lines` (`KEY`, …) or literal bytes."""

    def __init__(self, fields: Sequence[int | bytes], null: bytes) -> None:
        self._fields, self._literals = array("i"), b""
        for field in fields:
            if isinstance(field, bytes):
                self._fields.extend((kernel_lines.LITERAL, len(self._literals), len(field)))
                self._literals += field
            else:
                self._fields.extend((field, 0, 0))
        self._null = null
        self._out = bytearray(BLOCK_BYTES)
        self._ends = memoryview(array("q", bytes(8 * BLOCK_LINES)))

    def blocks(self, columns: Columns) -> Iterator[LineBlock]:
        """Yield the lines of all records of the columns. Each block reuses the memory of the block before it."""
        for run in columns.pieces():
            row = run.first
            while row < run.end:
                after, size = kernel_lines.join(
                    run.data, columns.all_offsets, columns.all_timestamps, columns.spans, row, run.end, self._fields,
                    self._literals, self._null, self._out, self._ends,
                )  # fmt: skip
                if after == row:
                    self._out = bytearray(2 * len(self._out))
                    continue
                yield LineBlock(memoryview(self._out)[:size], after - row, self._ends[: after - row])
                row = after
