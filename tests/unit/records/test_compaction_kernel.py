"""The loops of compaction against plain dictionaries, compiled and not."""

from __future__ import annotations

from array import array
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

KEY = tuple(int.from_bytes(bytes(range(at, at + 8)), "little") for at in (0, 8))
VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
}
"""What the authors of SipHash publish for the input 00 01 02 … of these lengths."""

Rows = list[tuple[bytes | None, bool]]


@pytest.mark.parametrize("size", VECTORS)
def test_a_key_is_hashed_as_siphash_says(kernels: SimpleNamespace, size: int) -> None:
    words = kernels.kernel_compact.hash_key(bytes(range(size)), *KEY)
    assert b"".join(word.to_bytes(8, "little") for word in words).hex() == VECTORS[size]


def columns_of(rows: Rows) -> tuple[bytes, array[int], array[int], array[int]]:
    """(data, spans, offsets, timestamps) of records with these keys, with or without a value."""
    data = b"".join(key or b"" for key, _ in rows)
    spans = array("i", bytes(4 * 6 * len(rows)))
    position = 0
    for row, (key, has_value) in enumerate(rows):
        spans[row] = position
        spans[len(rows) + row] = -1 if key is None else len(key)
        spans[3 * len(rows) + row] = 0 if has_value else -1
        position += len(key or b"")
    offsets = array("q", range(100, 100 + 2 * len(rows), 2))
    return data, spans, offsets, array("q", (offset * 10 for offset in offsets))


ROWS = st.lists(st.tuples(st.none() | st.binary(max_size=2), st.booleans()), max_size=40)


@given(rows=ROWS, most=st.integers(1, 50), with_tombstones=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_newest_record_of_every_key_stays(kernels: SimpleNamespace, rows: Rows, most: int, with_tombstones: bool) -> None:
    kernel, count = kernels.kernel_compact, len(rows)
    data, spans, offsets, timestamps = columns_of(rows)
    table = memoryview(bytearray((most + 1) * 24)).cast("Q")
    stop, used = kernel.remember(data, spans[:count], spans[count : 2 * count], offsets, 0, count, table, 0, most, *KEY)
    newest = {key: row for row, (key, _) in enumerate(rows[:stop]) if key is not None}
    assert used == len(newest) <= most
    assert stop == count or (used == most and rows[stop][0] not in newest)
    kept_rows, deltas = array("i", bytes(4 * count)), array("q", bytes(8 * count))
    kept, tombstones, latest = kernel.retain(
        data, spans, offsets, timestamps, 0, count, 90, table, with_tombstones, kept_rows, deltas, *KEY
    )
    wanted = [
        row
        for row, (key, has_value) in enumerate(rows)
        if key is not None and newest.get(key, -1) <= row and (has_value or with_tombstones)
    ]
    assert list(kept_rows[:kept]) == wanted
    assert [deltas[row] for row in wanted] == [offsets[row] - 90 for row in wanted]
    assert tombstones == sum(not rows[row][1] for row in wanted)
    assert latest == max((timestamps[row] for row in wanted), default=-1)


def test_columns_that_are_too_short_are_refused(kernels: SimpleNamespace) -> None:
    kernel = kernels.kernel_compact
    data, spans, offsets, timestamps = columns_of([(b"a", True), (b"b", True)])
    table = memoryview(bytearray(24 * 4)).cast("Q")
    with pytest.raises(ValueError, match="outside the columns"):
        kernel.remember(data, spans[:2], spans[2:4], offsets, 0, 3, table, 0, 3, *KEY)
    with pytest.raises(ValueError, match="too few slots"):
        kernel.remember(data, spans[:2], spans[2:4], offsets, 0, 2, table, 0, 4, *KEY)
    with pytest.raises(ValueError, match="outside its data"):
        kernel.remember(b"", spans[:2], spans[2:4], offsets, 0, 2, table, 0, 3, *KEY)
    with pytest.raises(ValueError, match="too little room"):
        kernel.retain(data, spans, offsets, timestamps, 0, 2, 0, table, True, array("i", [0]), array("q", [0, 0]), *KEY)
