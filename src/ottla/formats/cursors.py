"""Parallel reading of many byte strings: the next number, or the next bytes, of all of them at once.

Avro and Protobuf consist of numbers and bytes. No byte string becomes a Python object, and a step costs a few numpy operations for
each byte of a number. One malformed string raises `Misfit` for all strings, and `bulk` finds out which string it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as compute

from ottla.formats.bulk import Decoded, Misfit, as_rows, decode_many
from ottla.records import kernel_arrow

Ints = npt.NDArray[numpy.int64]
MOST_VARINT_BYTES = 10
TOO_SHORT = "it ends too early"
_FAILURES = (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError)


@dataclass(slots=True, eq=False)
class Cursors:
    """A cursor for each of many byte strings in one buffer: its position (`at`), and the end of its string.

    `items_left` is the number of items that the string can still have. It is only kept if items can take no bytes; otherwise each
    item has a byte of its own, and None is enough.
    """

    data: npt.NDArray[numpy.uint8]
    at: Ints
    end: Ints
    items_left: Ints | None = None

    @classmethod
    def over(cls, values: pa.Array) -> Cursors:
        """Return cursors at the start of each item of a binary array without nulls."""
        _, offsets, data = values.buffers()
        ends = numpy.frombuffer(offsets, dtype=numpy.int32)[values.offset : values.offset + len(values) + 1].astype(numpy.int64)
        held = numpy.frombuffer(data, dtype=numpy.uint8) if data is not None and data.size else numpy.zeros(1, dtype=numpy.uint8)
        return cls(held, ends[:-1].copy(), ends[1:])

    def __len__(self) -> int:
        return len(self.at)

    def of(self, rows: Ints) -> Cursors:
        """Return cursors for some of the rows. `copy_back` copies their new positions back."""
        return Cursors(self.data, self.at[rows], self.end[rows], None if self.items_left is None else self.items_left[rows])

    def copy_back(self, rows: Ints, others: Cursors) -> None:
        self.at[rows] = others.at
        if self.items_left is not None and others.items_left is not None:
            self.items_left[rows] = others.items_left

    def bytes(self) -> npt.NDArray[numpy.uint8]:
        """Return the next byte of each string."""
        if (self.at >= self.end).any():
            raise Misfit(TOO_SHORT)
        found: npt.NDArray[numpy.uint8] = self.data[self.at]
        self.at += 1
        return found

    def varints(self) -> npt.NDArray[numpy.uint64]:
        """Return the next varint of each string: seven bits to a byte, the least significant first."""
        first = self.bytes()
        values = (first & 0x7F).astype(numpy.uint64)
        (rows,) = numpy.nonzero(first & 0x80)
        for place in range(1, MOST_VARINT_BYTES):
            if not len(rows):
                return values
            some = self.of(rows)
            more = some.bytes()
            self.copy_back(rows, some)
            if place == MOST_VARINT_BYTES - 1 and (more > 1).any():
                raise Misfit("a number in it has more than 64 bits")
            values[rows] |= (more & 0x7F).astype(numpy.uint64) << numpy.uint64(7 * place)
            rows = rows[(more & 0x80) != 0]
        return values

    def zigzags(self) -> Ints:
        """Return the next zigzag varint of each string. Avro and Protobuf's sint64 have this encoding."""
        values = self.varints()
        return (values >> numpy.uint64(1)).astype(numpy.int64) ^ -(values & numpy.uint64(1)).astype(numpy.int64)

    def fixed_size(self, kind: str, size: int) -> npt.NDArray[numpy.generic]:
        """Return the next `size` bytes of each string, as a number of numpy's type `kind`."""
        starts = self.skip(numpy.full(len(self), size, dtype=numpy.int64))
        wide = self.data[starts[:, None] + numpy.arange(size)]
        return numpy.ascontiguousarray(wide).view(kind).reshape(-1)

    def skip(self, sizes: Ints) -> Ints:
        """Skip `sizes` bytes. Return the positions before them."""
        if ((sizes < 0) | (sizes > self.end - self.at)).any():
            raise Misfit(TOO_SHORT)
        starts = self.at.copy()
        self.at += sizes
        return starts

    def gather(self, starts: Ints, sizes: Ints) -> pa.Array:
        """Return the `sizes` bytes at positions `starts`, as a binary array."""
        count = len(starts)
        room = pa.allocate_buffer(int(sizes.sum()))
        offsets = numpy.zeros(count + 1, dtype=numpy.int32)
        at, lengths = (numpy.ascontiguousarray(each, dtype=numpy.int32).data for each in (starts, sizes))
        if count:
            kernel_arrow.gather(self.data.data, at, lengths, offsets.data, 0, 0, memoryview(room).cast("B"), bytearray())
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), room], null_count=0)

    def texts(self) -> pa.Array:
        """Return the next length-prefixed bytes of each string, as a binary array."""
        sizes = self.zigzags()
        return self.gather(self.skip(sizes), sizes)

    def check_finished(self) -> None:
        if (self.at != self.end).any():
            raise Misfit("bytes are left over at its end")


def scatter(made: pa.Array, rows: Ints, count: int) -> pa.Array:
    """Return an array of `count` rows: the values of `made` at `rows`, in any order, and null elsewhere."""
    if len(rows) == count and (rows[:-1] < rows[1:]).all():
        return made
    where = numpy.full(count, -1, dtype=numpy.int64)
    where[rows] = numpy.arange(len(rows))
    return made.take(pa.array(where, mask=where < 0))


def flatten(items: list[pa.Array], rows: list[Ints], count: int, kind: pa.DataType) -> tuple[pa.Array, Ints]:
    """Return all items sorted by their rows, and the start index of each row's items. The last index is the number of items."""
    owners = numpy.concatenate([numpy.empty(0, dtype=numpy.int64), *rows])
    offsets = numpy.zeros(count + 1, dtype=numpy.int64)
    numpy.cumsum(numpy.bincount(owners, minlength=count), out=offsets[1:])
    together = pa.concat_arrays(items) if items else pa.array([], kind)
    order = numpy.argsort(owners, kind="stable")
    return (together if (order[1:] > order[:-1]).all() else together.take(pa.array(order))), offsets


class CursorDecoder(ABC):
    """A `Decoder` that reads all values in parallel into an array of `kind`."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind

    @abstractmethod
    def _decode(self, cursors: Cursors) -> pa.Array:
        """Read all strings to their ends. For malformed values, raises `Misfit` or Arrow's errors."""

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
        return scatter(self._decode(cursors), rows, len(values))


def _binary(data: npt.NDArray[numpy.uint8], sizes: npt.NDArray[numpy.int64]) -> pa.Array:
    """Return a binary array of items that are adjacent in `data`, with the given sizes."""
    offsets = numpy.zeros(len(sizes) + 1, dtype=numpy.int32)
    numpy.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)], null_count=0)


def varints(values: npt.NDArray[numpy.uint64]) -> pa.Array:
    """Encode varints: seven bits to a byte, the least significant first."""
    sizes = numpy.ones(len(values), dtype=numpy.int64)
    for place in range(1, MOST_VARINT_BYTES):
        larger = values >= numpy.uint64(1 << (7 * place))
        if not larger.any():
            break
        sizes += larger
    most = int(sizes.max(initial=1))
    places = numpy.arange(most, dtype=numpy.uint64)
    wide = ((values[:, None] >> (places * numpy.uint64(7))) & numpy.uint64(0x7F)).astype(numpy.uint8)
    present = places[None, :].astype(numpy.int64) < sizes[:, None]
    wide |= (places[None, :].astype(numpy.int64) < sizes[:, None] - 1).astype(numpy.uint8) << 7
    return _binary(wide[present], sizes)


def zigzags(values: npt.NDArray[numpy.int64]) -> pa.Array:
    """Encode zigzag varints, in which small numbers take few bytes, whether positive or negative."""
    return varints(((values << 1) ^ (values >> 63)).view(numpy.uint64))


def encode_fixed(values: npt.NDArray[numpy.generic]) -> pa.Array:
    """Encode numbers of fixed size, in the byte order of memory."""
    data = numpy.ascontiguousarray(values).view(numpy.uint8)
    return _binary(data, numpy.full(len(values), values.dtype.itemsize, dtype=numpy.int64))


def lengths(items: pa.Array) -> npt.NDArray[numpy.int64]:
    """Return the size in bytes of each item of a binary or text column."""
    found: npt.NDArray[numpy.int64] = compute.binary_length(items).to_numpy(zero_copy_only=False).astype(numpy.int64)
    return found


def together(*parts: pa.Array | bytes) -> pa.Array:
    """Concatenate the items of several columns in each row. At least one of the arguments is a column."""
    scalars = (pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts)
    return compute.binary_join_element_wise(*scalars, pa.scalar(b"", pa.binary()))


def present(column: pa.Array) -> tuple[pa.Array, npt.NDArray[numpy.int64]]:
    """Return the items of a column that are not null, and their rows."""
    if not column.null_count:
        return column, numpy.arange(len(column))
    (rows,) = numpy.nonzero(column.is_valid().to_numpy(zero_copy_only=False))
    return column.take(pa.array(rows)), rows


def fill(made: pa.Array, rows: npt.NDArray[numpy.int64], count: int, otherwise: bytes) -> pa.Array:
    """Return `count` items: the items of `made` at `rows`, and `otherwise` in all other rows."""
    return made if len(rows) == count else scatter(made, rows, count).fill_null(otherwise)


def rejoin(items: pa.Array, counts: npt.NDArray[numpy.int64]) -> pa.Array:
    """Concatenate items so that each row gets the next `counts` items."""
    offsets = numpy.zeros(len(counts) + 1, dtype=numpy.int32)
    numpy.cumsum(counts, out=offsets[1:])
    return compute.binary_join(pa.ListArray.from_arrays(pa.array(offsets), items), pa.scalar(b"", pa.binary()))
