"""Avro's schema resolution: the reasons for which a reader's schema cannot read data of a writer's schema. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ottla.schema_registry.avro.types import AvroType

_PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""The types of a writer that are promoted to a reader's type."""


class Mismatch(NamedTuple):
    """A reason, with its kind and place. `detail` is the name or the symbol that is missing."""

    kind: str
    path: str
    description: str
    detail: str


class AvroComparison:
    """Compares schemas. `reader` and `writer` name the two in descriptions."""

    def __init__(self, reader: str, writer: str) -> None:
        self._reader, self._writer = reader, writer
        self._known: dict[tuple[int, int], list[Mismatch]] = {}
        """The reasons by pair, in the order in which pairs were begun."""

    def mismatches(self, reader: AvroType, writer: AvroType, path: str = "/") -> list[Mismatch]:
        """Return the reasons. A pair of records that contains itself is compared once."""
        if reader.kind != "record" or writer.kind != "record":
            return list(self._compare(reader, writer, path))
        key = id(reader), id(writer)
        if key not in self._known:
            self._known[key] = []  # it is under way, or readable
            self._known[key] = list(self._compare(reader, writer, path))
        return self._known[key]

    def _compare(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Mismatch]:
        if writer.kind == "union":
            for place, branch in enumerate(writer.branches):
                yield from self._union_branch(reader, branch, _join(path, place))
        elif reader.kind == "union":
            yield from self._union_branch(reader, writer, path)
        elif reader.kind != writer.kind:
            if writer.kind not in _PROMOTIONS.get(reader.kind, ()):
                yield self._type_mismatch(reader, writer, path)
        elif reader.kind in ("array", "map"):
            if reader.inner is not None and writer.inner is not None:
                yield from self.mismatches(reader.inner, writer.inner, _join(path, "items" if reader.kind == "array" else "values"))
        elif reader.name:
            yield from self._compare_named(reader, writer, path)

    def _union_branch(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Mismatch]:
        if reader.kind != "union":
            yield from self.mismatches(reader, writer, path)
        elif not any(self._reads(branch, writer) for branch in _candidates(reader, writer)):
            text = f"The {self._reader} schema has a union at path '{path}' that lacks a type of the {self._writer} schema"
            yield Mismatch("MISSING_UNION_BRANCH", path, text, f"reader union lacking writer type: {_label(writer)}")

    def _reads(self, reader: AvroType, writer: AvroType) -> bool:
        """Return whether a branch reads a type, without remembering what a comparison under way assumes."""
        before = len(self._known)
        found = self.mismatches(reader, writer)
        if found:
            while len(self._known) > before:
                self._known.popitem()
        return not found

    def _compare_named(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Mismatch]:
        if reader.short_name != writer.short_name and writer.name not in reader.aliases:
            text = f"The name of the schema has changed (path '{_join(path, 'name')}')"
            yield Mismatch("NAME_MISMATCH", _join(path, "name"), text, f"expected: {writer.name}")
        elif reader.kind == "fixed":
            if reader.size != writer.size:
                text = f"The size of FIXED type field at path '{_join(path, 'size')}' in the {self._reader} schema does not match"
                detail = f"expected: {writer.size}, found: {reader.size}"
                yield Mismatch("FIXED_SIZE_MISMATCH", _join(path, "size"), f"{text} with the {self._writer} schema", detail)
        elif reader.kind == "enum":
            known = set(reader.symbols)
            missing = [each for each in writer.symbols if each not in known]
            if missing and reader.default_symbol is None:
                text = f"The {self._reader} schema is missing enum symbols '{missing}' at path '{_join(path, 'symbols')}'"
                yield Mismatch("MISSING_ENUM_SYMBOLS", _join(path, "symbols"), f"{text} in the {self._writer} schema", f"{missing}")
        else:
            yield from self._record(reader, writer, path)

    def _record(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Mismatch]:
        written = {each.name: each for each in writer.fields}
        own_names = {each.name for each in reader.fields}
        uses = Counter(alias for each in reader.fields for alias in set(each.aliases))
        for place, own in enumerate(reader.fields):
            where = _join(_join(path, "fields"), place)
            aliases = [each for each in own.aliases if each in written and each not in own_names]
            found = [written[each] for each in dict.fromkeys((own.name, *aliases)) if each in written]
            # Libraries differ in their choice where two fields have one alias, or a field has its own name and an alias.
            is_certain = own.name in written or any(uses[each] == 1 for each in aliases)
            for other in found:
                yield from self.mismatches(own.type, other.type, _join(where, "type"))
            if not is_certain and not own.has_default:
                text = f"The field '{own.name}' at path '{where}' in the {self._reader} schema has no default value and is missing"
                yield Mismatch("READER_FIELD_MISSING_DEFAULT_VALUE", where, f"{text} in the {self._writer} schema", own.name)

    def _type_mismatch(self, reader: AvroType, writer: AvroType, path: str) -> Mismatch:
        kinds = f"The type (path '{path}') of a field in the {self._reader} schema does not match with the {self._writer} schema"
        detail = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
        return Mismatch("TYPE_MISMATCH", path, kinds, detail)


def _candidates(union: AvroType, writer: AvroType) -> list[AvroType]:
    """Return the branches that may read a type. One of the same name is used instead of any other."""
    same = [each for each in union.branches if each.name and each.kind == writer.kind and each.name == writer.name]
    return same or list(union.branches)


def _label(kind: AvroType) -> str:
    return kind.kind.upper()


def _join(path: str, part: object) -> str:
    return f"{path.rstrip('/')}/{part}"
