"""The conversion of columns of numbers, times and texts to texts. No row becomes a Python object.

Times are in ISO 8601. Times with a zone are converted to UTC.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as compute

BOUNDLESS = (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity"))
"""The texts of NaN and the infinities: Arrow's and Spark's."""


def as_text(column: pa.Array) -> pa.Array:
    """Return booleans, numbers, dates, times or texts as texts. A null stays null."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        # Arrow formats a time without a zone twenty times as fast, because it looks up a zone for each row.
        plain = column.cast(pa.timestamp("us", tz=kind.tz)).view(pa.timestamp("us"))
        text = compute.utf8_replace_slice(plain.cast(pa.string()), 10, 11, "T")
        return join(text, "Z") if kind.tz else text
    text = column.cast(pa.string())
    if pa.types.is_floating(kind) and not all_finite(column):
        for arrows, sparks in BOUNDLESS:
            text = compute.if_else(compute.equal(text, arrows), sparks, text)
    return text


def bytes_of(text: pa.Array) -> memoryview:
    """Return the joined bytes of a text column's items."""
    _, offsets, data = text.buffers()
    if data is None or not len(text):
        return memoryview(b"")
    ends = memoryview(offsets).cast("B").cast("i")
    return memoryview(data).cast("B")[ends[text.offset] : ends[text.offset + len(text)]]


def all_finite(column: pa.Array) -> bool:
    """Return whether no float of a column is NaN or infinite."""
    return bool(compute.all(compute.is_finite(column), skip_nulls=True, min_count=0).as_py())


def join(*parts: pa.Array | str) -> pa.Array:
    """Concatenate texts in each row. The result is null if a text is null. At least one of the texts is a column."""
    merged: list[pa.Array | str] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    if len(merged) == 1:
        return merged[0]
    return compute.binary_join_element_wise(*(pa.scalar(part) if isinstance(part, str) else part for part in merged), "")
