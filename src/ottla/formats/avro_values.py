"""The decoder of Avro's binary encoding. It decodes one column of all records at a time, and no record becomes a Python object.

Values are decoded by the writer's schema. The fields of the wanted type are found in it by name or alias, as Avro specifies
(`avro_resolution`). A field that the writer lacks gets its default, or null. Fields that the wanted type lacks are skipped. Numbers
are converted if they fit the wanted type.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pyarrow as pa
import pyarrow.compute as compute

from ottla.formats.avro_resolution import UNITS, branch_for, fill, names_of
from ottla.formats.avro_schema import MEMBER, Avro
from ottla.formats.bulk import Misfit
from ottla.formats.cursors import TOO_SHORT, CursorDecoder, Cursors, Ints, flatten, scatter
from ottla.formats.decimals import LONGEST_BYTES, MOST_DIGITS, of_unscaled

TOO_MANY = "it has more items than bytes"
TOO_LARGE = "a decimal in it does not fit into its column"


class AvroDecoder(CursorDecoder):
    """A `Decoder` of values that were all written with the schema `written`."""

    def __init__(self, kind: pa.DataType, written: Avro, asked: Avro | None = None) -> None:
        """Create a decoder of Avro.

        `asked` is the reader's schema, with names, aliases and defaults; None means the writer's schema.
        """
        super().__init__(kind)
        self._written, self._asked = written, asked or written
        self._has_empty_items = written.has_empty_items()

    def _decode(self, cursors: Cursors) -> pa.Array:
        if self._has_empty_items:
            cursors.items_left = cursors.end - cursors.at
        made = _read(self._written, self._kind, cursors, self._asked)
        cursors.check_finished()
        return made


def _read(node: Avro, kind: pa.DataType | None, cursors: Cursors, asked: Avro) -> pa.Array:
    """Read the next value of each cursor into an array of `kind`.

    With `kind` None, skip the values; the returned array is meaningless. `asked` is the reader's schema of the value.
    """
    if node.kind == "union":
        return _union(node, kind, cursors, asked)
    if asked.kind == "union":
        return _member(node, kind, cursors, asked)
    if node.kind == "record":
        return _record(node, kind, cursors, asked if asked.kind == "record" else node)
    if node.inner is not None:
        same = asked.inner if asked.kind == node.kind else None
        return _items(node, node.inner, kind, cursors, same or node.inner)
    if node.kind in ("bytes", "string", "fixed"):
        return _bytes(node, kind, cursors)
    found = _SCALARS[node.kind](node, cursors)
    if kind is None or node.kind == "null":
        return found if kind is None else pa.nulls(len(cursors), kind)
    if node.kind == asked.kind == "enum" and asked.default_symbol:
        known = compute.is_in(found, pa.array(asked.symbols, pa.string()))
        found = compute.if_else(known, found, pa.scalar(asked.default_symbol))
    if found.type == kind:
        return found
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(found.type) and (kind.tz is None) != (found.type.tz is None):
        raise Misfit(
            f"a time {'without' if kind.tz else 'with'} a zone stands where one {'with' if kind.tz else 'without'} is asked for"
        )
    return found.cast(kind)


def _record(node: Avro, kind: pa.DataType | None, cursors: Cursors, asked: Avro) -> pa.Array:
    if kind is not None and not pa.types.is_struct(kind):
        raise Misfit("a record stands where none is asked for")
    wanted = {} if kind is None else {field.name: field.type for field in kind}
    nodes, rules = dict(asked.fields), dict(zip(dict(asked.fields), asked.rules, strict=True))
    names = names_of(node, wanted, rules)
    found: dict[str, pa.Array] = {}
    for name, each in node.fields:
        own = names.get(name)
        made = _read(each, None if own is None else wanted[own], cursors, each if own is None else nodes.get(own, each))
        if own is not None:
            found[own] = made
    if kind is None:
        return pa.nulls(len(cursors))
    for name in wanted.keys() - found.keys():
        found[name] = fill(nodes.get(name), rules.get(name), wanted[name], len(cursors))
    columns = [found[name] for name in wanted]
    return pa.StructArray.from_arrays(columns, fields=list(kind)) if columns else pa.array([{}] * len(cursors), kind)


def _union(node: Avro, kind: pa.DataType | None, cursors: Cursors, asked: Avro) -> pa.Array:
    """Read unions. Each branch is read for the rows that have it."""
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
        made.append(_read(branch, kind, some, asked))
        owners.append(rows)
        cursors.copy_back(rows, some)
    if kind is None or not made:
        return pa.nulls(len(cursors), kind) if kind is not None else pa.nulls(len(cursors))
    return scatter(pa.concat_arrays(made), numpy.concatenate(owners), len(cursors))


def _member(node: Avro, kind: pa.DataType | None, cursors: Cursors, asked: Avro) -> pa.Array:
    """Read values of one type for which the reader's schema has a union."""
    members = asked.members() if kind is not None and _has_members(kind) else ()
    place = branch_for(node, members or asked.branches)
    if not members or kind is None:
        return _read(node, kind, cursors, node if place is None else asked.branches[place])
    if place is None and node.kind != "null":
        raise Misfit(f"it has a {node.kind}, which the union asked for does not have")
    own = {field.name: field.type for field in kind}.get(f"{MEMBER}{place}")
    made = _read(node, own, cursors, node if place is None else members[place])
    if node.kind == "null":
        return pa.nulls(len(cursors), kind)
    columns = [made if field.name == f"{MEMBER}{place}" else pa.nulls(len(cursors), field.type) for field in kind]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _has_members(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and all(field.name.startswith(MEMBER) for field in kind)


def _items(node: Avro, inner: Avro, kind: pa.DataType | None, cursors: Cursors, asked: Avro) -> pa.Array:
    """Read arrays and maps, which consist of blocks of items and end with an empty block.

    The first items of all rows are read together, then all second items, and so on.
    """
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
        cursors.copy_back(rows, block)
        rows, counts = rows[counts > 0], counts[counts > 0]
        for number in range(int(counts.max(initial=0))):
            own = rows[counts > number]
            some = cursors.of(own)
            if maps:
                keys.append(some.texts())
            items.append(_read(inner, wanted, some, asked))
            owners.append(own)
            cursors.copy_back(own, some)
    if kind is None or wanted is None:
        return pa.nulls(len(cursors))
    made, offsets = flatten(items, owners, len(cursors), wanted)
    starts = pa.array(offsets.astype(numpy.int32))
    if not maps:
        return pa.ListArray.from_arrays(starts, made, type=kind)
    names, _ = flatten(keys, owners, len(cursors), pa.binary())
    return pa.MapArray.from_arrays(starts, names.cast(kind.key_type), made, type=kind)


def _block_counts(block: Cursors) -> Ints:
    counts = block.zigzags()
    (sized,) = numpy.nonzero(counts < 0)
    some = block.of(sized)
    some.zigzags()  # skip the size of the block in bytes
    block.copy_back(sized, some)
    counts = numpy.abs(counts)
    if ((counts < 0) | (counts > block.end - block.at)).any():  # numpy's absolute value of -2^63 is negative
        raise Misfit(TOO_SHORT)  # an item has at least one byte
    if block.items_left is not None:
        block.items_left -= counts
        if (block.items_left < 0).any():
            raise Misfit(TOO_MANY)
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
    return found.view(UNITS[node.logical]) if node.logical else found


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
    "float": lambda node, cursors: pa.array(cursors.fixed_size("<f4", 4)),
    "double": lambda node, cursors: pa.array(cursors.fixed_size("<f8", 8)),
    "enum": _symbol,
}
