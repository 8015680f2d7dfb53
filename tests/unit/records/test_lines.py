"""Lines of text to records and records to lines: as Python's own splitting and formatting, on both runs of the kernel."""

from __future__ import annotations

from array import array
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batches.columns import Record, open_batches
from ottla.records.batches.lines import LineFormat, split_lines
from ottla.records.batches.rows import RowBatch, batches_of
from ottla.records.kernel_lines import KEY, KEY_BYTES, OFFSET, TIME, VALUE, VALUE_BYTES
from tests.unit.records.making import ROWS, Rows, build_rows

pytestmark = pytest.mark.usefixtures("kernels")

FEW = st.binary(max_size=3).map(lambda raw: bytes(b"ab:\n"[byte % 4] for byte in raw))
"""Short texts of four characters, so that delimiters, separators and nulls occur in the data and overlap."""
DATA = st.lists(FEW, max_size=20).map(b"".join)
FIELDS = st.lists(st.binary(max_size=4) | st.sampled_from([KEY, VALUE, OFFSET, TIME, KEY_BYTES, VALUE_BYTES]), max_size=6)

Line = tuple[bytes | None, bytes | None]


def plain_lines(data: bytes, delimiter: bytes, separator: bytes, null: bytes | None) -> tuple[list[Line], int]:
    """The lines up to one without the separator, and the position after the last."""
    found: list[Line] = []
    end = 0
    for line in data.split(delimiter)[:-1]:
        key, between, value = line.partition(separator) if separator else (None, True, line)
        if not between:
            break
        found.append((None if key == null else key, None if value == null else value))
        end += len(line) + len(delimiter)
    return found, end


@given(data=DATA | st.binary(), delimiter=FEW.filter(len), separator=FEW, null=st.none() | FEW, batch_bytes=st.integers(1, 200))
def test_lines_become_the_records_of_plain_splitting(
    data: bytes, delimiter: bytes, separator: bytes, null: bytes | None, batch_bytes: int
) -> None:
    lines, end = plain_lines(data, delimiter, separator, null)
    rows, count, stop = split_lines(data, 7, delimiter, separator, null)
    assert (count, stop) == (len(lines), end)
    batches = batches_of(rows, array("i"), 0, count, batch_bytes=batch_bytes)
    records = [record for batch in batches for record in open_batches(batch, check_crcs=True).records()]
    assert [(record.key, record.value) for record in records] == lines
    assert {record.timestamp for record in records} <= {7}


@given(lines=st.lists(st.binary(max_size=300), max_size=30), cuts=st.lists(st.integers(0, 30)), most=st.integers(0, 2000))
def test_a_batch_that_is_filled_in_parts_is_the_same_as_one_filled_at_once(lines: list[bytes], cuts: list[int], most: int) -> None:
    rows, count, _ = split_lines(b"".join(line.hex().encode() + b"\n" for line in lines), 7, b"\n")
    whole, parts, at = RowBatch(1 << 20), RowBatch(1 << 20), 0
    end = whole.extend(rows, array("i"), 0, count, most)
    for cut in [*sorted(min(cut, count) for cut in cuts), count]:
        if at < cut:
            at = parts.extend(rows, array("i"), at, cut, most)
            if at < cut:
                break
    assert at == end
    assert (parts.record_count, parts.end) == (whole.record_count, whole.end)
    if end:
        assert parts.seal(codec=2) == whole.seal(codec=2)


def shown(field: int | bytes, record: Record, null: bytes) -> bytes:
    if isinstance(field, bytes):
        return field
    key, value = record.key, record.value
    return {
        KEY: null if key is None else key,
        VALUE: null if value is None else value,
        OFFSET: b"%d" % record.offset,
        TIME: b"%d" % record.timestamp,
        KEY_BYTES: b"%d" % (-1 if key is None else len(key)),
        VALUE_BYTES: b"%d" % (-1 if value is None else len(value)),
    }[field]


@given(
    first=ROWS,
    second=ROWS,
    codec=st.integers(0, 4),
    fields=FIELDS,
    null=FEW,
    start=st.integers(0, 24),
    count=st.integers(0, 24),
    base=st.integers(0, 2**60),
)
def test_records_become_the_lines_of_plain_formatting(
    first: Rows, second: Rows, codec: int, fields: list[int | bytes], null: bytes, start: int, count: int, base: int
) -> None:
    view = build_rows(first, base_offset=base, codec=codec) + build_rows(second, base_offset=base + len(first))
    columns = open_batches(view).slice(start, start + count)
    found: list[bytes] = []
    made = LineFormat(fields, null)
    made._out = bytearray(16)  # so that blocks end within the records, and grow
    for block in made.blocks(columns):
        ends = list(block.ends)
        assert (ends[-1], len(ends)) == (len(block.data), block.line_count)
        found += [bytes(block.data[at:end]) for at, end in zip([0, *ends], ends, strict=False)]
    assert found == [b"".join(shown(field, record, null) for field in fields) for record in columns.records()]


def test_ranges_outside_the_data_are_refused(kernels: SimpleNamespace) -> None:
    join, spans = kernels.kernel_lines.join, array("i", [0, -1, 3, 9, 0, 0])
    numbers, out, ends = array("q", [0]), bytearray(100), array("q", [0])
    with pytest.raises(ValueError, match="outside the data"):
        join(b"12345", numbers, numbers, spans, 0, 1, array("i", [VALUE, 0, 0]), b"", b"", out, ends)
    with pytest.raises(ValueError, match="rows"):
        join(b"12345", numbers, numbers, spans, 0, 2, array("i", [VALUE, 0, 0]), b"", b"", out, ends)
    for fields in ([7, 0, 0], [0, 0, 4], [0, 4, 0], [0, -1, 0], [0, 0, -1], [VALUE], [VALUE, 0, 0, VALUE]):
        with pytest.raises(ValueError, match="field"):
            join(b"12345", numbers, numbers, spans, 0, 0, array("i", fields), b"abc", b"", out, ends)
    with pytest.raises(ValueError, match="delimiter"):
        kernels.kernel_lines.split(b"12345", b"", b"", None, spans)
