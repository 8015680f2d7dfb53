"""Arrow columns as record batches, all rows in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.records.batches.arrow import arrow_rows
from ottla.records.batches.builder import NO_ROWS
from ottla.records.batches.rows import batches_of


def from_arrow(value: Any, key: Any = None, timestamps: Any = 0, headers: Any = None, **options: Any) -> Iterator[bytearray]:
    rows = arrow_rows(value, key, timestamps, headers)
    return batches_of(rows, NO_ROWS, 0, rows.row_count, **options)
