"""Decodes many values at once, and finds the few that do not fit without giving up the others.

What a whole run of values does not let through is halved until few are left, which are then looked at one by one. So a bad value
costs some decoding again, and good ones around it stay good. Knows no format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

FEW = 64
"""So many values are looked at one by one, rather than halved again."""


class Misfit(ValueError):
    """A value does not fit its format or its schema; the message says why, as the end of a sentence."""


@dataclass(slots=True)
class Decoded:
    """Typed values, null where a value did not fit, and why it did not, by row.

    `records` says for each row which record it came from, where a record may hold many rows.
    """

    values: pa.Array
    wrong: dict[int, str] = field(default_factory=dict)
    records: pa.Array | None = None


class Decoder(Protocol):
    """Turns the bytes of keys or values into a column of one type."""

    def decode(self, values: pa.Array) -> Decoded:
        """`values` are binary; null ones stay null."""


class Encoder(Protocol):
    """Turns a column into the bytes of keys or values."""

    def encode(self, column: pa.Array) -> pa.Array:
        """A binary array of the same length. Raises `OptionError` for a value that the format cannot hold."""


Few = Callable[[pa.Array, int, dict[int, str]], pa.Array]
"""Decodes a few values one by one, given the row of the first, and notes why others do not fit: their rows are null."""


def decode_many(values: pa.Array, kind: pa.DataType, many: Callable[[pa.Array], pa.Array | None], few: Few) -> Decoded:
    """Decode `values` into an array of `kind`.

    `many` decodes a whole run, or returns None where anything in it does not fit. `few` may let pass what `many` does not.
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
    """Decode by `one`, which returns what `pyarrow.array` takes, or raises `Misfit`."""
    return lambda run, start, wrong: pa.array(_singly(run, start, one, None, wrong), kind)


def as_rows(kind: pa.DataType, one: Callable[[bytes], pa.Array]) -> Few:
    """Decode by `one`, which returns an array of one row, or raises `Misfit`.

    No value becomes an object of Python, which has no date before year 1 or after 9999.
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
