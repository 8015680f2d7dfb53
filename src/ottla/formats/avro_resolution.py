"""Avro's schema resolution between a reader and a writer: names, aliases, defaults, and branches of unions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

import numpy
import pyarrow as pa

from ottla.formats.avro_schema import MEMBER, Avro, FieldRules
from ottla.formats.bulk import Misfit
from ottla.formats.decimals import of_unscaled

UNITS: Final = {
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_WIDER: Final[Mapping[str, Sequence[str]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""The types to which a writer's type can be promoted for a reader, the nearest first."""


def names_of(written: Avro, wanted: Iterable[str], rules: Mapping[str, FieldRules]) -> dict[str, str]:
    """Return the reader's name of each field of the writer: the same name, or the name of the field with this alias."""
    there = {name for name, _ in written.fields}
    found = {name: name for name in wanted if name in there}
    for name in wanted:
        if name not in there and name in rules:
            alias = next((each for each in rules[name].aliases if each in there and each not in found), None)
            if alias is not None:
                found[alias] = name
    return found


def branch_for(node: Avro, branches: Sequence[Avro]) -> int | None:
    """Return the index of the union's branch for the type `node`.

    It is the branch of the same type, otherwise the branch of the nearest type to which the type can be promoted. Return None if
    there is no such branch.
    """
    kinds = [each.kind for each in branches]
    same = next((at for at, each in enumerate(branches) if (each.kind, each.logical) == (node.kind, node.logical)), None)
    if same is not None:
        return same
    return next((kinds.index(kind) for kind in (node.kind, *_WIDER.get(node.kind, ())) if kind in kinds), None)


def fill(node: Avro | None, rules: FieldRules | None, kind: pa.DataType, count: int) -> pa.Array:
    """Return `count` values of a field that the writer lacks: its default, or null without a default. Raises `Misfit`."""
    if node is None or rules is None or not rules.has_default:
        return pa.nulls(count, kind)
    try:
        one = pa.array([_default(node, rules.default, kind)], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise Misfit("the default of a field in the schema asked for does not fit its type") from error
    return one.take(pa.array(numpy.zeros(count, dtype=numpy.int64)))


def _default(node: Avro, given: Any, kind: pa.DataType) -> Any:
    """Return the default `given` in a schema as a Python value. The default of a union belongs to its first branch."""
    if node.kind == "union":
        made = _default(node.branches[0], given, kind.field(0).type if node.members() else kind)
        return {f"{MEMBER}0": made} if node.members() and node.branches[0].kind != "null" else made
    if node.kind == "record":
        rules = dict(zip(dict(node.fields), node.rules, strict=True))
        nodes = {name: each for name, each in node.fields if name in {field.name for field in kind}}
        values = {name: given.get(name, rules[name].default) for name in nodes}
        return {name: _default(each, values[name], kind.field(name).type) for name, each in nodes.items()}
    if node.inner is not None and node.kind == "array":
        return [_default(node.inner, each, kind.value_type) for each in given]
    if node.inner is not None:
        return [(name, _default(node.inner, each, kind.item_type)) for name, each in given.items()]
    return None if given is None else _scalar(node, given)


def _scalar(node: Avro, given: Any) -> Any:
    if node.kind in ("bytes", "fixed"):
        raw = str(given).encode("latin-1")  # the form of bytes in Avro's JSON
        return of_unscaled(int.from_bytes(raw, "big", signed=True), node.scale) if node.logical == "decimal" else raw
    if node.logical == "date":
        return date(1970, 1, 1) + timedelta(days=given)
    if node.logical in UNITS:
        return pa.array([given], pa.int64()).cast(UNITS[node.logical])[0].as_py()
    return given
