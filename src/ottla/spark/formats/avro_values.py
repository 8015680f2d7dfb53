"""Values in Avro's binary encoding, decoded column by column: all records side by side, none becomes a Python object.

Values are read by the schema that they were written with, and what the query asks for is found in it by name: fields that it does
not name are passed, those that the schema lacks are null, and numbers become wider or narrower where they fit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pyarrow as pa

from ottla.spark.formats.avro_schema import Avro
from ottla.spark.formats.bulk import Misfit
from ottla.spark.formats.cursors import TOO_SHORT, CursorDecoder, Cursors, Ints, listed, scattered
from ottla.spark.formats.decimals import LONGEST_BYTES, MOST_DIGITS, of_unscaled

TOO_LARGE = "a decimal in it does not fit into its column"
_UNITS = {
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}


class AvroDecoder(CursorDecoder):
    """A `Decoder` of values that were all written with `written`."""

    def __init__(self, kind: pa.DataType, written: Avro) -> None:
        super().__init__(kind)
        self._written = written

    def _made(self, cursors: Cursors) -> pa.Array:
        made = _read(self._written, self._kind, cursors)
        cursors.check_finished()
        return made


def _read(node: Avro, kind: pa.DataType | None, cursors: Cursors) -> pa.Array:
    """The next value of each as an array of `kind`; None where nobody asks for it, and what comes back is of no use."""
    if node.kind == "record":
        return _record(node, kind, cursors)
    if node.kind == "union":
        return _union(node, kind, cursors)
    if node.inner is not None:
        return _items(node, node.inner, kind, cursors)
    if node.kind in ("bytes", "string", "fixed"):
        return _bytes(node, kind, cursors)
    found = _SCALARS[node.kind](node, cursors)
    if kind is None or found.type == kind:
        return found
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(found.type) and (kind.tz is None) != (found.type.tz is None):
        raise Misfit(
            f"a time {'without' if kind.tz else 'with'} a zone stands where one {'with' if kind.tz else 'without'} is asked for"
        )
    return found.cast(kind)


def _record(node: Avro, kind: pa.DataType | None, cursors: Cursors) -> pa.Array:
    if kind is not None and not pa.types.is_struct(kind):
        raise Misfit("a record stands where none is asked for")
    wanted = {} if kind is None else {field.name: field.type for field in kind}
    found = {name: _read(each, wanted.get(name), cursors) for name, each in node.fields}
    if kind is None:
        return pa.nulls(len(cursors))
    columns = [found[name] if name in found else pa.nulls(len(cursors), each) for name, each in wanted.items()]
    return pa.StructArray.from_arrays(columns, fields=list(kind)) if columns else pa.array([{}] * len(cursors), kind)


def _union(node: Avro, kind: pa.DataType | None, cursors: Cursors) -> pa.Array:
    """Each branch is read by the rows that are in it."""
    branches = cursors.zigzags()
    if ((branches < 0) | (branches >= len(node.branches))).any():
        raise Misfit("it names a branch that its union does not have")
    made: list[pa.Array] = []
    owners: list[Ints] = []
    for place, branch in enumerate(node.branches):
        (rows,) = numpy.nonzero(branches == place)
        if not len(rows) or branch.kind == "null":
            continue
        some = cursors.of(rows)
        made.append(_read(branch, kind, some))
        owners.append(rows)
        cursors.moved(rows, some)
    if kind is None or not made:
        return pa.nulls(len(cursors), kind) if kind is not None else pa.nulls(len(cursors))
    return (
        scattered(pa.concat_arrays(made), numpy.concatenate(owners), len(cursors))
        if len(made) > 1
        else scattered(made[0], owners[0], len(cursors))
    )


def _items(node: Avro, inner: Avro, kind: pa.DataType | None, cursors: Cursors) -> pa.Array:
    """Arrays and maps: blocks of items, until one has none. The first items of all are read together, then the second ones."""
    maps = node.kind == "map"
    if kind is not None and not (pa.types.is_map(kind) if maps else pa.types.is_list(kind)):
        raise Misfit(f"{'a map' if maps else 'an array'} stands where none is asked for")
    wanted = None if kind is None else kind.item_type if maps else kind.value_type
    keys: list[pa.Array] = []
    items: list[pa.Array] = []
    owners: list[Ints] = []
    rows = numpy.arange(len(cursors))
    while len(rows):
        block = cursors.of(rows)
        counts = _block_counts(block)
        cursors.moved(rows, block)
        rows, counts = rows[counts > 0], counts[counts > 0]
        for number in range(int(counts.max(initial=0))):
            own = rows[counts > number]
            some = cursors.of(own)
            if maps:
                keys.append(some.texts())
            items.append(_read(inner, wanted, some))
            owners.append(own)
            cursors.moved(own, some)
    if kind is None or wanted is None:
        return pa.nulls(len(cursors))
    made, offsets = listed(items, owners, len(cursors), wanted)
    starts = pa.array(offsets.astype(numpy.int32))
    if not maps:
        return pa.ListArray.from_arrays(starts, made, type=kind)
    names, _ = listed(keys, owners, len(cursors), pa.binary())
    return pa.MapArray.from_arrays(starts, names.cast(kind.key_type), made, type=kind)


def _block_counts(block: Cursors) -> Ints:
    counts = block.zigzags()
    (sized,) = numpy.nonzero(counts < 0)
    some = block.of(sized)
    some.zigzags()  # how many bytes the block has, for those who pass it
    block.moved(sized, some)
    counts = numpy.abs(counts)
    if (counts > block.end - block.at).any():
        raise Misfit(TOO_SHORT)  # an item has a byte at least
    return counts


def _bytes(node: Avro, kind: pa.DataType | None, cursors: Cursors) -> pa.Array:
    sizes = numpy.full(len(cursors), node.size, dtype=numpy.int64) if node.kind == "fixed" else cursors.zigzags()
    starts = cursors.skip(sizes)
    if kind is None:
        return pa.nulls(len(cursors))
    found = cursors.gather(starts, sizes)
    if node.logical == "decimal":
        return _decimals(node, kind, found)
    return found if found.type == kind else found.cast(kind)


def _decimals(node: Avro, kind: pa.DataType, found: pa.Array) -> pa.Array:
    raw = found.to_pylist()
    if any(len(each) > LONGEST_BYTES for each in raw):
        raise Misfit(TOO_LARGE)
    try:
        numbers = [of_unscaled(int.from_bytes(each, "big", signed=True), node.scale) for each in raw]
        return pa.array(numbers, pa.decimal128(MOST_DIGITS, node.scale)).cast(kind)
    except pa.ArrowInvalid as invalid:
        raise Misfit(TOO_LARGE) from invalid


def _boolean(node: Avro, cursors: Cursors) -> pa.Array:
    found = cursors.bytes()
    if (found > 1).any():
        raise Misfit("a boolean in it is neither 0 nor 1")
    return pa.array(found.astype(bool))


def _integer(node: Avro, cursors: Cursors) -> pa.Array:
    found = pa.array(cursors.zigzags())
    if node.logical == "date":
        return found.cast(pa.int32()).cast(pa.date32())
    return found.view(_UNITS[node.logical]) if node.logical else found


def _symbol(node: Avro, cursors: Cursors) -> pa.Array:
    found = cursors.zigzags()
    if ((found < 0) | (found >= len(node.symbols))).any():
        raise Misfit("it names a symbol that its enum does not have")
    return pa.array(node.symbols, pa.string()).take(pa.array(found))


_SCALARS: dict[str, Callable[[Avro, Cursors], pa.Array]] = {
    "null": lambda node, cursors: pa.nulls(len(cursors)),
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": lambda node, cursors: pa.array(cursors.fixed("<f4", 4)),
    "double": lambda node, cursors: pa.array(cursors.fixed("<f8", 8)),
    "enum": _symbol,
}
