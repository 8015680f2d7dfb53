"""Halves of a record batch of magic 2, for a batch that a broker refuses as too large."""

from __future__ import annotations

from ottla.ports import Buffer
from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import read_header


def halves(batch: Buffer) -> tuple[bytearray, bytearray]:
    """Return two batches with the first and the second half of the records, in the codec of `batch` and without a producer id.

    The first half of an odd number of records is the smaller one. Raises `BadBatch` for damaged records.
    """
    header, records = read_header(batch), open_batches(batch).records()
    middle = len(records) // 2
    first, second = (
        build(
            [record.key for record in some],
            [record.value for record in some],
            [record.timestamp for record in some],
            [record.headers for record in some],
            codec=header.codec,
        )
        for some in (records[:middle], records[middle:])
    )
    return first, second
