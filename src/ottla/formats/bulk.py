"""The decoding of many values at once. It finds the few malformed values, and decodes all others.

A run with a malformed value is halved until few values are left, which are decoded one by one. So a malformed value costs some
repeated decoding, and does not affect its neighbours. The module depends on no format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy
import pyarrow as pa

FEW = 64
"""The number of values up to which a run is decoded one by one, not halved again."""


class Misfit(ValueError):
    """Raised for a value that does not fit its format or schema. The message is the end of a sentence."""


@dataclass(slots=True)
class Decoded:
    """A column of decoded values, in which malformed values are null, and the reasons why values are malformed, by row.

    `records` is the index of each row's record, for formats with many rows in a record.
    """

    values: pa.Array
    wrong: dict[int, str] = field(default_factory=dict)
    records: pa.Array | None = None


class Decoder(Protocol):
    """A converter of the bytes of keys or values into a column of one type."""

    def decode(self, values: pa.Array) -> Decoded:
        """Decode binary values. A null value stays null."""


class Encoder(Protocol):
    """A converter of a column into the bytes of keys or values."""

    def encode(self, column: pa.Array) -> pa.Array:
        """Return a binary array of the same length. Raises `OptionError` for a value that the format cannot represent."""


Few = Callable[[pa.Array, int, dict[int, str]], pa.Array]
"""Decodes a few values. The number is the row of the first value.

Malformed values become null, and the reasons are added to the mapping.
"""


def decode_many(values: pa.Array, kind: pa.DataType, many: Callable[[pa.Array], pa.Array | None], few: Few) -> Decoded:
    """Decode `values` into an array of `kind`.

    `many` decodes a whole run, or returns None if it cannot decode a value. `few` can accept values that `many` cannot decode.
    """
    made: list[pa.Array] = []
    wrong: dict[int, str] = {}
    waiting = [(0, len(values))]
    while waiting:
        start, end = waiting.pop()
        run = values.slice(start, end - start)
        whole = many(run)
        if whole is not None:
            made.append(whole)
        elif end - start <= FEW:
            made.append(few(run, start, wrong))
        else:
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
    return Decoded(made[0] if len(made) == 1 else pa.concat_arrays([pa.array([], kind), *made]), wrong)


def as_objects(kind: pa.DataType, one: Callable[[bytes], Any]) -> Few:
    """Return a `Few` that decodes by `one`. `one` returns an element for `pyarrow.array`, or raises `Misfit`."""
    return lambda run, start, wrong: pa.array(_singly(run, start, one, None, wrong), kind)


def as_rows(kind: pa.DataType, one: Callable[[bytes], pa.Array]) -> Few:
    """Return a `Few` that decodes by `one`. `one` returns an array of one row, or raises `Misfit`.

    The values become no Python objects, because Python has no date before year 1 or after 9999.
    """
    absent = pa.nulls(1, kind)
    return lambda run, start, wrong: pa.concat_arrays([pa.array([], kind), *_singly(run, start, one, absent, wrong)])


def _singly(run: pa.Array, start: int, one: Callable[[bytes], Any], absent: Any, wrong: dict[int, str]) -> list[Any]:
    found: list[Any] = []
    for row, raw in enumerate(run.to_pylist(), start):
        try:
            found.append(absent if raw is None else one(raw))
        except Misfit as error:
            found.append(absent)
            wrong[row] = str(error)
    return found


def without_rows(rows: pa.RecordBatch, wrong: Collection[int], records: pa.Array | None) -> pa.RecordBatch:
    """Return the rows that do not come from malformed records."""
    origin = numpy.arange(rows.num_rows) if records is None else records.to_numpy()
    return rows.filter(pa.array(~numpy.isin(origin, list(wrong))))
