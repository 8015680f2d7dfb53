"""The bytes of columns in Avro and Protobuf: varints, numbers of fixed size, texts.

No row becomes a Python object.
"""

from __future__ import annotations

import numpy
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as compute

from ottla.spark.formats.cursors import MOST_VARINT_BYTES, scattered


def binary(data: npt.NDArray[numpy.uint8], sizes: npt.NDArray[numpy.int64]) -> pa.Array:
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
    return binary(wide[present], sizes)


def zigzags(values: npt.NDArray[numpy.int64]) -> pa.Array:
    """Encode zigzag varints, in which small numbers take few bytes, whether positive or negative."""
    return varints(((values << 1) ^ (values >> 63)).view(numpy.uint64))


def fixed(values: npt.NDArray[numpy.generic]) -> pa.Array:
    """Encode numbers of fixed size, in the byte order of memory."""
    data = numpy.ascontiguousarray(values).view(numpy.uint8)
    return binary(data, numpy.full(len(values), values.dtype.itemsize, dtype=numpy.int64))


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


def filled(made: pa.Array, rows: npt.NDArray[numpy.int64], count: int, otherwise: bytes) -> pa.Array:
    """Return `count` items: the items of `made` at `rows`, and `otherwise` in all other rows."""
    return made if len(rows) == count else scattered(made, rows, count).fill_null(otherwise)


def rejoined(items: pa.Array, counts: npt.NDArray[numpy.int64]) -> pa.Array:
    """Concatenate items so that each row gets the next `counts` items."""
    offsets = numpy.zeros(len(counts) + 1, dtype=numpy.int32)
    numpy.cumsum(counts, out=offsets[1:])
    return compute.binary_join(pa.ListArray.from_arrays(pa.array(offsets), items), pa.scalar(b"", pa.binary()))
