"""Halves of a batch: the same records, in two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.halves import halves
from ottla.records.batches.header import read_header
from ottla.records.compression import codecs

RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=20),
        st.integers(0, 1 << 41),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
    min_size=2,
    max_size=20,
)


@pytest.mark.parametrize("codec", [codecs.NONE, codecs.GZIP, codecs.LZ4, codecs.ZSTD])
@given(records=RECORDS)
def test_both_halves_together_have_the_records_in_order(codec: int, records: list[tuple[bytes, bytes, int, list[object]]]) -> None:
    keys, values, timestamps, headers = (list(column) for column in zip(*records, strict=True))
    parts = halves(build(keys, values, timestamps, headers, codec=codec))
    assert [read_header(part).record_count for part in parts] == [len(records) // 2, len(records) - len(records) // 2]
    assert {read_header(part).codec for part in parts} == {codec}
    found = [record for part in parts for record in open_batches(part).records()]
    assert [(record.key, record.value, record.timestamp, list(record.headers)) for record in found] == records
