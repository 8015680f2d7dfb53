"""Decoding of many values at once, which finds the few malformed ones and keeps the others.

A run with a malformed value is halved until few values are left, which are decoded one by one. A malformed value thus costs some
repeated decoding, and does not affect its neighbours. Formats are unknown here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

FEW = 64
"""The number of values that are decoded one by one, not halved again."""


class Misfit(ValueError):
    """The exception for a value that does not fit its format or schema; the message is the end of a sentence."""


@dataclass(slots=True)
class Decoded:
    """Typed values, null for malformed ones, and the reasons by row.

    `records` is the record of each row, for formats with many rows in a record.
    """

    values: pa.Array
    wrong: dict[int, str] = field(default_factory=dict)
    records: pa.Array | None = None


class Decoder(Protocol):
    """A converter of the bytes of keys or values into a column of one type."""

    def decode(self, values: pa.Array) -> Decoded:
        """Decode binary values; null ones stay null."""


class Encoder(Protocol):
    """A converter of a column into the bytes of keys or values."""

    def encode(self, column: pa.Array) -> pa.Array:
        """Return a binary array of the same length. Raises `OptionError` for a value that the format cannot contain."""


Few = Callable[[pa.Array, int, dict[int, str]], pa.Array]
"""A function that decodes few values one by one, given the first row, and stores the reasons of malformed ones: null rows."""


def decode_many(values: pa.Array, kind: pa.DataType, many: Callable[[pa.Array], pa.Array | None], few: Few) -> Decoded:
    """Decode `values` into an array of `kind`.

    `many` decodes a whole run, or returns None if any value is malformed. `few` may accept values that `many` does not.
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
    """Decode by `one`, which returns an element for `pyarrow.array`, or raises `Misfit`."""
    return lambda run, start, wrong: pa.array(_singly(run, start, one, None, wrong), kind)


def as_rows(kind: pa.DataType, one: Callable[[bytes], pa.Array]) -> Few:
    """Decode by `one`, which returns an array of one row, or raises `Misfit`.

    No value becomes a Python object: Python has no date before year 1 or after 9999.
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
