"""The canonical text of Protobuf's schemas, written from descriptors. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.schema_registry.protobuf.options import escape
from ottla.schema_registry.protobuf.parser import GROUP, LABELS, MOST_FIELD, MOST_NUMBER, OPTIONAL, SCALARS

_SCALAR_NAMES = {number: name for name, number in SCALARS.items()}
_LABEL_NAMES = {number: name for name, number in LABELS.items()}


class Printer:
    """Writes one file. If `is_sorted`, what has no order in Protobuf is sorted: imports, options, fields by their numbers."""

    def __init__(self, file: Any, *, is_sorted: bool = False) -> None:
        self._file, self._is_sorted = file, is_sorted
        self._package = f".{file.package}." if file.package else "."
        self._nested = {name for message in file.message_type for name in _names_within(message)}
        self._proto3 = file.syntax == "proto3"

    def text(self) -> str:
        """Return the text."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        file = self._file
        yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        yield from _separate(self._sort_lines(self._imports()))
        yield from _separate([f"option {each};" for each in self._options(file)])
        groups = {_short(field.type_name) for field in file.extension if field.type == GROUP}
        for message in file.message_type:
            if message.name not in groups:
                yield ""
                yield from self._message(message)
        for enum in file.enum_type:
            yield ""
            yield from self._enum(enum)
        yield from self._extensions(file, file.message_type)
        for service in file.service:
            yield ""
            yield from self._service(service)

    def _imports(self) -> Iterator[str]:
        for place, name in enumerate(self._file.dependency):
            kind = "public " if place in self._file.public_dependency else "weak " if place in self._file.weak_dependency else ""
            yield f"import {kind}{_quote(name)};"

    def _sort_lines(self, found: Iterable[str]) -> list[str]:
        return sorted(found) if self._is_sorted else list(found)

    def _by_number(self, found: Iterable[Any]) -> list[Any]:
        return sorted(found, key=lambda each: each.number) if self._is_sorted else list(found)

    def _message(self, message: Any, head: str = "") -> Iterator[str]:
        yield head or f"message {message.name} {{"
        yield from _indent(self._body(message))
        yield "}"

    def _body(self, message: Any) -> Iterator[str]:
        entries = {each.name: each for each in message.nested_type if each.options.map_entry}
        groups = {each.name: each for each in message.nested_type}
        yield from (f"option {each};" for each in self._options(message))
        yield from self._reserved_lines(message, MOST_FIELD, 1)
        for each in message.extension_range:
            options = self._bracket_options(each)
            yield f"extensions {_range(each.start, each.end - 1, MOST_FIELD)}{options};"
        seen: set[int] = set()
        for field in self._by_number(message.field):
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, entries, groups)
            elif field.oneof_index not in seen:
                seen.add(field.oneof_index)
                members = [each for each in self._by_number(message.field) if _in_oneof(each, field.oneof_index)]
                yield from self._oneof(message.oneof_decl[field.oneof_index], members, groups)
        used = {_short(field.type_name) for field in (*message.field, *message.extension) if field.type == GROUP}
        for nested in message.nested_type:
            if nested.name not in entries and nested.name not in used:
                yield from self._message(nested)
        for enum in message.enum_type:
            yield from self._enum(enum)
        yield from self._extensions(message, message.nested_type)

    def _oneof(self, oneof: Any, members: list[Any], groups: dict[str, Any]) -> Iterator[str]:
        yield f"oneof {oneof.name} {{"
        yield from _indent(f"option {each};" for each in self._options(oneof))
        for field in members:
            yield from _indent(self._field(field, {}, groups, label=""))
        yield "}"

    def _field(self, field: Any, entries: dict[str, Any], groups: dict[str, Any], label: str | None = None) -> Iterator[str]:
        if label is None:
            bare = self._proto3 and field.label == OPTIONAL and not field.proto3_optional
            label = "" if bare else f"{_LABEL_NAMES[field.label]} "
        options = self._bracket_options(field, self._field_options(field))
        entry = entries.get(_short(field.type_name)) if field.type_name else None
        if field.type == GROUP:
            group = groups[_short(field.type_name)]
            yield from self._message(group, f"{label}group {group.name} = {field.number}{options} {{")
        elif entry is not None:
            kinds = ", ".join(self._type(each) for each in entry.field)
            yield f"map<{kinds}> {field.name} = {field.number}{options};"
        else:
            yield f"{label}{self._type(field)} {field.name} = {field.number}{options};"

    def _type(self, field: Any) -> str:
        return self._name(field.type_name) if field.type_name else _SCALAR_NAMES[field.type]

    def _name(self, name: str) -> str:
        """Return the shortest usual name of a type: within the package, unless a nested type hides it."""
        if name.startswith(self._package):
            short = name[len(self._package) :]
            if short.partition(".")[0] not in self._nested:
                return short
        own = name.lstrip(".")
        hidden = {*self._nested, *self._file.package.split(".")[:-1]}
        return name if own.partition(".")[0] in hidden else own

    def _field_options(self, field: Any) -> Iterator[str]:
        if field.HasField("default_value"):
            is_text = field.type in (SCALARS["string"], SCALARS["bytes"])
            raw = field.default_value
            text = f'"{raw}"' if field.type == SCALARS["bytes"] else _quote(raw) if is_text else raw
            yield f"default = {text}"
        if field.HasField("json_name") and field.json_name != json_name(field.name):
            yield f"json_name = {_quote(field.json_name)}"

    def _bracket_options(self, owner: Any, first: Iterable[str] = ()) -> str:
        found = self._sort_lines([*first, *self._options(owner)])
        return f" [{', '.join(found)}]" if found else ""

    def _options(self, owner: Any) -> list[str]:
        found: list[str] = []
        for field, value in owner.options.ListFields():
            values = value if _is_repeated(field) else [value]
            if field.name == "uninterpreted_option":
                found += map(_render_uninterpreted, value)
            elif field.name != "map_entry":
                found += [f"{field.name} = {_literal(field, each)}" for each in values]
        return self._sort_lines(found)

    def _reserved_lines(self, owner: Any, most: int, beyond: int) -> Iterator[str]:
        ranges = [(each.start, each.end - beyond) for each in owner.reserved_range]
        if self._is_sorted:
            ranges.sort()
        if ranges:
            yield f"reserved {', '.join(_range(start, end, most) for start, end in ranges)};"
        if owner.reserved_name:
            yield f"reserved {', '.join(map(_quote, self._sort_lines(owner.reserved_name)))};"

    def _enum(self, enum: Any) -> Iterator[str]:
        yield f"enum {enum.name} {{"
        yield from _indent(f"option {each};" for each in self._options(enum))
        yield from _indent(self._reserved_lines(enum, MOST_NUMBER, 0))
        values = list(enum.value)
        if self._is_sorted:  # the first value is the default
            values[1:] = sorted(values[1:], key=lambda each: (each.number, each.name))
        for each in values:
            yield f"  {each.name} = {each.number}{self._bracket_options(each)};"
        yield "}"

    def _extensions(self, owner: Any, groups: Any) -> Iterator[str]:
        for field in owner.extension:
            yield f"extend {self._name(field.extendee)} {{"
            yield from _indent(self._field(field, {}, {each.name: each for each in groups}))
            yield "}"

    def _service(self, service: Any) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from _indent(f"option {each};" for each in self._options(service))
        for method in service.method:
            sides = (method.input_type, method.client_streaming), (method.output_type, method.server_streaming)
            taken, returned = (f"({'stream ' if streams else ''}{self._name(name)})" for name, streams in sides)
            options = self._options(method)
            yield f"  rpc {method.name} {taken} returns {returned}{' {' if options else ';'}"
            if options:
                yield from _indent(_indent(f"option {each};" for each in options))
                yield "  }"
        yield "}"


def json_name(name: str) -> str:
    """Return the name that a field has in JSON by default."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def _names_within(message: Any) -> Iterator[str]:
    for each in (*message.nested_type, *message.enum_type):
        yield each.name
    for field in message.field:
        yield field.name
    for nested in message.nested_type:
        yield from _names_within(nested)


def _in_oneof(field: Any, index: int) -> bool:
    return field.HasField("oneof_index") and not field.proto3_optional and field.oneof_index == index


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _range(start: int, end: int, most: int) -> str:
    return f"{start}" if start == end else f"{start} to {'max' if end >= most else end}"


def _literal(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quote(value) if isinstance(value, str) else str(value)


def _render_uninterpreted(option: Any) -> str:
    name = ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in option.name)
    if option.HasField("string_value"):
        return f'{name} = "{escape(option.string_value)}"'
    if option.HasField("aggregate_value"):
        text = option.aggregate_value
        return f"{name} = {text if text.startswith('[') else f'{{ {text} }}'}"
    numbers = ("identifier_value", "positive_int_value", "negative_int_value", "double_value")
    return f"{name} = {next(getattr(option, each) for each in numbers if option.HasField(each))}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _separate(lines: list[str]) -> list[str]:
    return ["", *lines] if lines else []
