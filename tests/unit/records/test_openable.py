"""Batches are opened together only as far as what they open to is little, however well they are compressed."""

from __future__ import annotations

import pytest

from ottla.records.batches.bounded_runs import openable
from ottla.records.batches.columns import build, open_batches
from ottla.records.batches.header import BadBatch, batches
from ottla.records.compression import codecs

MOST_BYTES = 1 << 20


def stored(count: int, value: bytes, codec: int) -> memoryview:
    """`count` batches of ten equal records."""
    return memoryview(b"".join(build(None, [value] * 10, 0, codec=codec, base_offset=10 * number) for number in range(count)))


@pytest.mark.parametrize("codec", [codecs.GZIP, codecs.SNAPPY, codecs.LZ4, codecs.ZSTD])
def test_no_run_opens_to_more_than_is_allowed_and_nothing_is_left_out(codec: int) -> None:
    records = stored(60, bytes(20_000), codec)
    runs = list(openable(records, MOST_BYTES))
    opened = [open_batches(run, limit_bytes=MOST_BYTES) for run in runs]
    assert [offset for columns in opened for offset in columns.offsets] == list(range(600))
    assert b"".join(runs) == records
    assert len(runs) < 60


def test_a_batch_that_opens_to_more_is_alone() -> None:
    records = stored(3, bytes(200_000), codecs.ZSTD)
    assert [len(list(batches(run))) for run in openable(records, MOST_BYTES)] == [1, 1, 1]


def test_batches_without_a_codec_stay_together_and_a_torn_one_is_left_out() -> None:
    records = stored(300, bytes(1000), codecs.NONE)
    assert [bytes(run) for run in openable(records, MOST_BYTES)] == [bytes(records)]
    assert [len(run) for run in openable(records[:-1], MOST_BYTES)] == [len(records) * 299 // 300]
    assert not list(openable(records[:0], MOST_BYTES))


def test_bytes_that_are_no_batches_are_told() -> None:
    with pytest.raises(BadBatch):
        list(openable(memoryview(bytes(100)), MOST_BYTES))
