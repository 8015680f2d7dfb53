"""Reads many byte strings side by side: the next number, or the next so many bytes, of all of them at once.

What Avro and Protobuf are made of. No byte string becomes a Python object; a step costs a few operations of numpy for each byte
that a number takes. Anything that does not fit raises `Misfit` for all: `bulk` finds the one it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy
import numpy.typing as npt
import pyarrow as pa

from ottla.records import kernel_arrow
from ottla.spark.formats.bulk import Decoded, Misfit, as_rows, decode_many

Ints = npt.NDArray[numpy.int64]
MOST_VARINT_BYTES = 10
TOO_SHORT = "it ends too early"
_FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError)


class Cursors:
    """Where reading stands in each of many byte strings of one buffer: `at`, up to `end`."""

    def __init__(self, data: npt.NDArray[numpy.uint8], at: Ints, end: Ints) -> None:
        self.data = data
        self.at = at
        self.end = end

    @classmethod
    def over(cls, values: pa.Array) -> Cursors:
        """At the start of each item of a binary array without nulls."""
        _, offsets, data = values.buffers()
        ends = numpy.frombuffer(offsets, dtype=numpy.int32)[values.offset : values.offset + len(values) + 1].astype(numpy.int64)
        held = numpy.frombuffer(data, dtype=numpy.uint8) if data is not None and data.size else numpy.zeros(1, dtype=numpy.uint8)
        return cls(held, ends[:-1].copy(), ends[1:])

    def __len__(self) -> int:
        return len(self.at)

    def of(self, rows: Ints) -> Cursors:
        """Those of some rows; `moved` brings them back."""
        return Cursors(self.data, self.at[rows], self.end[rows])

    def moved(self, rows: Ints, others: Cursors) -> None:
        self.at[rows] = others.at

    def bytes(self) -> npt.NDArray[numpy.uint8]:
        """The next byte of each."""
        if (self.at >= self.end).any():
            raise Misfit(TOO_SHORT)
        found: npt.NDArray[numpy.uint8] = self.data[self.at]
        self.at += 1
        return found

    def varints(self) -> npt.NDArray[numpy.uint64]:
        """The next number of each, least significant bits first, seven to a byte."""
        first = self.bytes()
        values = (first & 0x7F).astype(numpy.uint64)
        (rows,) = numpy.nonzero(first & 0x80)
        for place in range(1, MOST_VARINT_BYTES):
            if not len(rows):
                return values
            some = self.of(rows)
            more = some.bytes()
            self.moved(rows, some)
            if place == MOST_VARINT_BYTES - 1 and (more > 1).any():
                raise Misfit("a number in it has more than 64 bits")
            values[rows] |= (more & 0x7F).astype(numpy.uint64) << numpy.uint64(7 * place)
            rows = rows[(more & 0x80) != 0]
        return values

    def zigzags(self) -> Ints:
        """The next number of each, signed, as Avro and Protobuf's sint64 have it."""
        values = self.varints()
        return (values >> numpy.uint64(1)).astype(numpy.int64) ^ -(values & numpy.uint64(1)).astype(numpy.int64)

    def fixed(self, kind: str, size: int) -> npt.NDArray[numpy.generic]:
        """The next `size` bytes of each, as a number of numpy's `kind`."""
        starts = self.skip(numpy.full(len(self), size, dtype=numpy.int64))
        wide = self.data[starts[:, None] + numpy.arange(size)]
        return numpy.ascontiguousarray(wide).view(kind).reshape(-1)

    def skip(self, sizes: Ints) -> Ints:
        """Pass so many bytes of each; where they began."""
        if ((sizes < 0) | (sizes > self.end - self.at)).any():
            raise Misfit(TOO_SHORT)
        starts = self.at.copy()
        self.at += sizes
        return starts

    def gather(self, starts: Ints, sizes: Ints) -> pa.Array:
        """The bytes at `starts`, as a binary array."""
        count = len(starts)
        room = pa.allocate_buffer(int(sizes.sum()))
        offsets = numpy.zeros(count + 1, dtype=numpy.int32)
        at, lengths = (numpy.ascontiguousarray(each, dtype=numpy.int32).data for each in (starts, sizes))
        if count:
            kernel_arrow.gather(self.data.data, at, lengths, offsets.data, 0, 0, memoryview(room).cast("B"), bytearray())
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), room], null_count=0)

    def texts(self) -> pa.Array:
        """The next bytes of each, after their number, as a binary array."""
        sizes = self.zigzags()
        return self.gather(self.skip(sizes), sizes)

    def check_finished(self) -> None:
        if (self.at != self.end).any():
            raise Misfit("bytes are left over at its end")


def scattered(made: pa.Array, rows: Ints, count: int) -> pa.Array:
    """`made` at its `rows` among `count`, null in all others. Rows may come in any order."""
    if len(rows) == count and (rows[:-1] < rows[1:]).all():
        return made
    where = numpy.full(count, -1, dtype=numpy.int64)
    where[rows] = numpy.arange(len(rows))
    return made.take(pa.array(where, mask=where < 0))


def listed(items: list[pa.Array], rows: list[Ints], count: int, kind: pa.DataType) -> tuple[pa.Array, Ints]:
    """Items found in any order, put in that of their rows, and where those of each row begin (one more than rows)."""
    owners = numpy.concatenate([numpy.empty(0, dtype=numpy.int64), *rows])
    offsets = numpy.zeros(count + 1, dtype=numpy.int64)
    numpy.cumsum(numpy.bincount(owners, minlength=count), out=offsets[1:])
    together = pa.concat_arrays(items) if items else pa.array([], kind)
    order = numpy.argsort(owners, kind="stable")
    return (together if (order[1:] > order[:-1]).all() else together.take(pa.array(order))), offsets


class CursorDecoder(ABC):
    """A `Decoder` of values that are read side by side into an array of `kind`."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind

    @abstractmethod
    def _made(self, cursors: Cursors) -> pa.Array:
        """What is read from all cursors, to their ends. Raises `Misfit`, and what Arrow raises of values that do not fit."""

    def decode(self, values: pa.Array) -> Decoded:
        return decode_many(values, self._kind, self._many, as_rows(self._kind, self._one))

    def _many(self, values: pa.Array) -> pa.Array | None:
        try:
            return self._rows(values)
        except (Misfit, *_FAILURES):
            return None

    def _one(self, raw: bytes) -> pa.Array:
        try:
            return self._rows(pa.array([raw], pa.binary()))
        except _FAILURES as error:
            raise Misfit(str(error)) from None

    def _rows(self, values: pa.Array) -> pa.Array:
        (rows,) = numpy.nonzero(values.is_valid().to_numpy(zero_copy_only=False))
        cursors = Cursors.over(values if len(rows) == len(values) else values.drop_null())
        return scattered(self._made(cursors), rows, len(values))
