"""The rules by which a newer schema of Protobuf reads data of an older one: those of Confluent's registry. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ottla.schema_registry.protobuf.parser import MESSAGE, REQUIRED, SCALARS

GROUP = 10
ENUM = 14
_WIRE_KINDS = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "bool"), "number"),
    **dict.fromkeys(("sint32", "sint64"), "signed number"),
    **dict.fromkeys(("string", "bytes"), "text"),
    **dict.fromkeys(("fixed32", "sfixed32"), "fixed32"),
    **dict.fromkeys(("fixed64", "sfixed64"), "fixed64"),
    "float": "float",
    "double": "double",
}
_WIRE_KIND_OF = {SCALARS[name]: kind for name, kind in _WIRE_KINDS.items()} | {ENUM: "number"}
"""Fields whose types are of one kind can read each other's values."""


class ProtobufDifference(NamedTuple):
    """A difference that makes data of the older schema unreadable, or loses it."""

    kind: str
    path: str


class Types(NamedTuple):
    """All types of a schema's files, by their full names, and the package of each."""

    messages: Mapping[str, Any]
    packages: Mapping[str, str]


def index(files: Iterable[Any]) -> Types:
    """Return the types of files."""
    messages: dict[str, Any] = {}
    packages: dict[str, str] = {}
    for file in files:
        waiting = [(f".{file.package}" if file.package else "", each) for each in file.message_type]
        while waiting:
            prefix, message = waiting.pop()
            name = f"{prefix}.{message.name}"
            messages[name], packages[name] = message, file.package
            waiting += [(name, each) for each in message.nested_type]
    return Types(messages, packages)


class ProtobufComparison:
    """Compares an older schema's types with a newer one's."""

    def __init__(self, old: Types, new: Types) -> None:
        self._old, self._new = old, new
        self._compared: set[tuple[str, str]] = set()

    def find_breaking(self, old: Any, new: Any) -> list[ProtobufDifference]:
        """Return the differences of two files that make data of the older one unreadable."""
        found = [ProtobufDifference("PACKAGE_CHANGED", "#")] if old.package != new.package else []
        prefixes = f".{old.package}" if old.package else "", f".{new.package}" if new.package else ""
        return found + list(self._compare_nested(old.message_type, new.message_type, prefixes, "#"))

    def _compare_nested(self, old: Any, new: Any, prefixes: tuple[str, str], path: str) -> Iterator[ProtobufDifference]:
        others = {each.name: each for each in new}
        for message in old:
            if message.options.map_entry:
                continue
            where = f"{path}/{message.name}"
            other = others.get(message.name)
            if other is not None:
                yield from self._messages(f"{prefixes[0]}.{message.name}", f"{prefixes[1]}.{message.name}", where)
            else:
                yield ProtobufDifference("MESSAGE_REMOVED", where)

    def _messages(self, old_name: str, new_name: str, path: str) -> Iterator[ProtobufDifference]:
        if (old_name, new_name) in self._compared:
            return
        self._compared.add((old_name, new_name))
        old, new = self._old.messages[old_name], self._new.messages[new_name]
        before, after = {each.number: each for each in old.field}, {each.number: each for each in new.field}
        yield from _joined_oneofs(old, new, before, path)
        lost = _lost_oneofs(old, new, after)
        for number in sorted({*before, *after}):
            where = f"{path}/{number}"
            own, other = before.get(number), after.get(number)
            if other is None and own is not None:
                yield from _removed_member(old, own, lost, where)
            elif own is None and other is not None:
                if other.label == REQUIRED:
                    yield ProtobufDifference("REQUIRED_FIELD_ADDED", where)
            else:
                yield from self._fields(own, other, where)
        yield from self._compare_nested(old.nested_type, new.nested_type, (old_name, new_name), path)

    def _fields(self, old: Any, new: Any, path: str) -> Iterator[ProtobufDifference]:
        entries = self._entry(self._old, old), self._entry(self._new, new)
        kinds = [_kind(each, entry) for each, entry in zip((old, new), entries, strict=True)]
        if kinds[0] != kinds[1]:
            yield ProtobufDifference("FIELD_KIND_CHANGED", path)
        elif entries[0] is not None and entries[1] is not None:
            for one, two in zip(entries[0].field, entries[1].field, strict=True):
                yield from self._fields(one, two, f"{path}/{one.name}")
        elif kinds[0] == "message":
            yield from self._compare_named(old.type_name, new.type_name, path)
        elif _WIRE_KIND_OF[old.type] != _WIRE_KIND_OF[new.type]:
            yield ProtobufDifference("FIELD_SCALAR_KIND_CHANGED", path)
        elif old.label != new.label and _WIRE_KIND_OF[old.type] != "text":
            yield ProtobufDifference("FIELD_NUMERIC_LABEL_CHANGED", path)

    def _compare_named(self, old: str, new: str, path: str) -> Iterator[ProtobufDifference]:
        names = [name[len(f".{types.packages[name]}") :] if types.packages[name] else name for name, types in self._sides(old, new)]
        if names[0].lstrip(".") != names[1].lstrip("."):
            yield ProtobufDifference("FIELD_NAMED_TYPE_CHANGED", path)
        else:
            yield from self._messages(old, new, path)

    def _sides(self, old: str, new: str) -> tuple[tuple[str, Types], tuple[str, Types]]:
        return (old, self._old), (new, self._new)

    def _entry(self, types: Types, field: Any) -> Any:
        found = types.messages.get(field.type_name) if field.type == MESSAGE else None
        return found if found is not None and found.options.map_entry else None


def _kind(field: Any, entry: Any) -> str:
    if entry is not None:
        return "map"
    return "message" if field.type in (MESSAGE, GROUP) else "scalar"


def _oneof(message: Any, field: Any) -> str:
    """Return the name of the oneof that a field is in, or nothing."""
    return message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") and not field.proto3_optional else ""


def _joined_oneofs(old: Any, new: Any, before: Mapping[int, Any], path: str) -> Iterator[ProtobufDifference]:
    """Iterate over oneofs that make fields exclude each other which could be set together."""
    members: dict[str, list[int]] = {}
    for field in new.field:
        if name := _oneof(new, field):
            members.setdefault(name, []).append(field.number)
    for name, numbers in members.items():
        known = [before[number] for number in numbers if number in before]
        alone = [field for field in known if not _oneof(old, field)]
        groups = {_oneof(old, field) or f"field {field.number}" for field in known}
        if len(groups) > 1:
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if len(alone) > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            yield ProtobufDifference(kind, f"{path}/{name}")


def _lost_oneofs(old: Any, new: Any, after: Mapping[int, Any]) -> set[str]:
    """Return the oneofs that were removed with all their fields."""
    kept = {each.name for each in new.oneof_decl}
    kept |= {_oneof(old, field) for field in old.field if field.number in after}
    return {each.name for each in old.oneof_decl} - kept


def _removed_member(message: Any, field: Any, lost: set[str], path: str) -> Iterator[ProtobufDifference]:
    name = _oneof(message, field)
    if name and name not in lost:
        yield ProtobufDifference("ONEOF_FIELD_REMOVED", path)
    elif field.label == REQUIRED:
        yield ProtobufDifference("REQUIRED_FIELD_REMOVED", path)
