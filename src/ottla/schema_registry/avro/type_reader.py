"""Parses types of Avro from JSON, with the names that they define. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ottla.schema_registry.avro.defaults import is_default
from ottla.schema_registry.avro.types import NAMED, PRIMITIVES, AvroField, AvroType
from ottla.schema_registry.refusals import InvalidSchema

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(slots=True)
class TypeReader:
    """Parses types. `named` has the types that other schemas define. Raises `InvalidSchema`."""

    named: dict[str, AvroType] = field(default_factory=dict)
    is_new: bool = True

    def read(self, given: Any, space: str = "") -> AvroType:
        """Return the type that a JSON value describes, within a namespace."""
        if isinstance(given, str):
            return self._reference(given, space)
        if isinstance(given, list):
            return self._union(given, space)
        if not isinstance(given, dict):
            _refuse(f"{_shorten(given)} is no type")
        kind = given.get("type")
        if isinstance(kind, dict | list):
            return self.read(kind, space)
        if not isinstance(kind, str):
            _refuse(f"No type: {_shorten(given)}")
        if kind in NAMED:
            return self._define(kind, given, space)
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            if key not in given:
                _refuse(f"{kind} has no {key} type: {_shorten(given)}")
            return AvroType(kind, inner=self.read(given[key], space))
        return self._reference(kind, space)

    def _reference(self, name: str, space: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        found = self.named.get(full_name(name, space)) or self.named.get(name)
        if found is None:
            _refuse(f'Undefined schema: "{full_name(name, space)}"')
        return found

    def _union(self, given: list[Any], space: str) -> AvroType:
        branches = tuple(self.read(each, space) for each in given)
        names: set[str] = set()
        for each in branches:
            if each.kind == "union":
                _refuse("a union directly contains another union")
            name = each.name or each.kind
            if name in names:
                _refuse(f"Duplicate in union: {name}")
            names.add(name)
        return AvroType("union", branches=branches)

    def _define(self, kind: str, given: dict[str, Any], space: str) -> AvroType:
        name, inner_space = name_of(given, space)
        full = f"{inner_space}.{name}" if inner_space else name
        if full in self.named:
            _refuse(f"Can't redefine: {full}")
        for part in full.split("."):
            _check_name(part)
        aliases = tuple(full_name(each, inner_space) for each in _strings(given, "aliases"))
        made = self.named[full] = AvroType("record" if kind == "error" else kind, full, aliases)
        if kind in ("record", "error"):
            made.fields = self._fields(given, inner_space)
        elif kind == "enum":
            _read_enum(made, given)
        else:
            size = given.get("size")
            if type(size) is not int or size < 0:
                _refuse(f"Invalid or no size: {_shorten(given)}")
            made.size = size
        return made

    def _fields(self, given: dict[str, Any], space: str) -> tuple[AvroField, ...]:
        fields = given.get("fields")
        if not isinstance(fields, list):
            _refuse("Record has no fields")
        found: dict[str, AvroField] = {}
        for each in fields:
            if not isinstance(each, dict):
                _refuse(f"Invalid field: {_shorten(each)}")
            name = each.get("name")
            if not isinstance(name, str):
                _refuse(f"No field name: {_shorten(each)}")
            _check_name(name)
            if "type" not in each:
                _refuse(f"No field type: {name}")
            if name in found:
                _refuse(f"Duplicate field {name} in record")
            made = AvroField(name, self.read(each["type"], space), tuple(_strings(each, "aliases")))
            if "default" in each:
                made.has_default, made.default = True, each["default"]
                if self.is_new and not is_default(made.type, made.default):
                    _refuse(f"Invalid default for field {name}: {_shorten(made.default)} not a {_shorten(each['type'])}")
            found[name] = made
        return tuple(found.values())


def full_name(name: str, space: str) -> str:
    """Return a name with its namespace."""
    return name.lstrip(".") if "." in name or not space else f"{space}.{name}"


def name_of(given: dict[str, Any], space: str) -> tuple[str, str]:
    """Return the short name of a definition, and its namespace. Raises `InvalidSchema`."""
    name = given.get("name")
    if not isinstance(name, str) or not name:
        _refuse(f"No name in schema: {_shorten(given)}")
    if "." in name:
        own, _, name = name.rpartition(".")
        return name, own
    own = given.get("namespace", space)
    if not isinstance(own, str):
        _refuse(f"Invalid namespace: {_shorten(own)}")
    return name, own


def _read_enum(made: AvroType, given: dict[str, Any]) -> None:
    symbols = given.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
        _refuse(f"Enum has no symbols: {_shorten(given)}")
    for each in symbols:
        _check_name(each)
    if len(set(symbols)) != len(symbols):
        _refuse(f"Duplicate enum symbol in {made.name}")
    made.symbols = tuple(symbols)
    default = given.get("default")
    if default is not None and default not in symbols:
        _refuse(f"The Enum Default: {_shorten(default)} is not in the enum symbol set: {_shorten(symbols)}")
    made.default_symbol = default


def _strings(given: dict[str, Any], key: str) -> list[str]:
    found = given.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        _refuse(f"{key} not an array of strings: {_shorten(found)}")
    return found


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        _refuse(f"Illegal name: {_shorten(name)}" if name else "Empty name")


def _refuse(reason: str) -> NoReturn:
    raise InvalidSchema(reason)


def _shorten(value: object) -> str:
    return str(value)[:200]
