"""Options of Protobuf's schema language, in descriptors. Pure.

An option that descriptors declare is set as its field. A custom one is kept uninterpreted, as in the descriptors of a parser.
"""

from __future__ import annotations

import re
from typing import Any

from ottla.schema_registry.protobuf.tokens import NAME, NUMBER, STRING

FLOATS, INTEGERS, BOOLEANS, STRINGS, BYTES, ENUMS = (1, 2), (3, 4, 5, 6, 7, 13, 15, 16, 17, 18), (8,), (9,), (12,), (14,)


def set_option(owner: Any, name: str, value: tuple[str, Any]) -> None:
    """Set an option of a descriptor. Raises `ValueError` or `TypeError` for a value of another type."""
    kind, found = value
    if name in ("default", "json_name") and hasattr(owner, "json_name"):
        _set_field_option(owner, name, kind, found)
        return
    options = owner.options
    field = options.DESCRIPTOR.fields_by_name.get(name)
    if field is None or field.message_type is not None or name == "map_entry":
        _keep(options, name, kind, found)
        return
    converted = _convert(field, kind, found)
    if field.label == field.LABEL_REPEATED if hasattr(field, "label") else field.is_repeated:
        getattr(options, name).append(converted)
    else:
        setattr(options, name, converted)


def _set_field_option(field: Any, name: str, kind: str, value: Any) -> None:
    if name == "json_name":
        if kind != STRING:
            raise ValueError(f"{value!r} is no text")
        field.json_name = value.decode()
    elif kind == STRING:
        field.default_value = escape(value) if field.type in BYTES else value.decode()
    else:
        field.default_value = value


def _convert(field: Any, kind: str, value: Any) -> Any:
    if field.type in BOOLEANS and value in ("true", "false"):
        return value == "true"
    if field.type in ENUMS and kind == NAME:
        return field.enum_type.values_by_name[value].number if value in field.enum_type.values_by_name else _no_value(value)
    if field.type in STRINGS and kind == STRING:
        return value.decode()
    if field.type in INTEGERS and kind == NUMBER:
        return int(value, 0)
    raise ValueError(f"{value!r} does not fit")


def _no_value(name: str) -> int:
    raise ValueError(f"there is no {name}")


def _keep(options: Any, name: str, kind: str, value: Any) -> None:
    kept = options.uninterpreted_option.add()
    for part in re.findall(r"\([^)]*\)|[^.()]+", name):
        each = kept.name.add()
        each.name_part, each.is_extension = part.strip("()"), part.startswith("(")
    if kind == STRING:
        kept.string_value = value
    elif kind == NAME:
        kept.identifier_value = value
    elif kind == NUMBER:
        _keep_number(kept, value)
    else:
        kept.aggregate_value = value[1:-1].strip() if value.startswith("{") else value


def _keep_number(kept: Any, text: str) -> None:
    try:
        number = int(text, 0)
    except ValueError:
        kept.double_value = float(text.rstrip("fF"))
        return
    if number < 0:
        kept.negative_int_value = number
    else:
        kept.positive_int_value = number


def escape(data: bytes) -> str:
    """Return bytes in the form of a default value of bytes."""
    known = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(known.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data)
