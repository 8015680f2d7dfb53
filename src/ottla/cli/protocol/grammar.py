"""The protocol's declarations as values to print: grammars of a version, rows of fields, texts of an API.

The module prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple

from ottla.inspection.api_names import spec
from ottla.wire.apis import Api
from ottla.wire.codec.sizes import NUMBERS
from ottla.wire.schema import Field, Message, Struct

_TEXTS: Final = {"str": "string", "plain": "string", "bytes": "bytes", "records": "records"}

TYPES: Final = (
    ("BOOLEAN", "One byte: 0 is false, anything else true."),
    ("INT8 INT16 INT32 INT64", "Signed integers of 1, 2, 4 and 8 bytes, the highest byte first."),
    ("UINT16 UINT32", "Unsigned integers of 2 and 4 bytes, the highest byte first."),
    ("FLOAT64", "A double of IEEE 754, the highest byte first."),
    ("UUID", "16 bytes; printed as base64url without padding."),
    ("UNSIGNED_VARINT", "Seven bits to a byte, the lowest first; its high bit says that another byte follows. At most 5 bytes."),
    ("STRING", "An INT16 length, then UTF-8. NULLABLE_STRING: the length -1 is null."),
    ("COMPACT_STRING", "An UNSIGNED_VARINT length plus one, then UTF-8. COMPACT_NULLABLE_STRING: 0 is null."),
    ("BYTES", "An INT32 length, then bytes. NULLABLE_BYTES: the length -1 is null."),
    ("COMPACT_BYTES", "An UNSIGNED_VARINT length plus one, then bytes. COMPACT_NULLABLE_BYTES: 0 is null."),
    ("RECORDS COMPACT_RECORDS", "As nullable bytes; inside are message sets or record batches."),
    (
        "[field]",
        "An array: an INT32 count, -1 for null, then the items. In flexible versions an UNSIGNED_VARINT, the count plus one.",
    ),
    ("field?", "A struct that may be null: an INT8 first, -1 for null. As a tagged field an UNSIGNED_VARINT, 0 for null."),
    ("_tagged_fields", "After each struct of flexible versions: how many, then of each its tag, size and bytes (KIP-482)."),
    ("field<tag: 3>", "A tagged field: it stands among the _tagged_fields, and is left out where it has its default."),
)
"""The terms of the grammars, each explained in a sentence or two."""


class Row(NamedTuple):
    """A row of a message's table of fields: one field, for all versions. `depth` is the number of structs around the field.

    Texts are empty if there is nothing to say.
    """

    path: str
    depth: int
    name: str
    type: str
    versions: str
    nullable: str
    tag: str
    default: str
    ignorable: bool


def rows(cls: type[Struct], version: int | None = None, path: str = "", depth: int = 0) -> Iterator[Row]:
    """Yield every field in the order of the declaration; with a `version`, only the fields that this version has."""
    for f in cls.WIRE.fields:
        if version is not None and version not in f.present:
            continue
        here = f"{path}.{f.name}" if path else f.name
        tag = "" if f.tag is None else str(f.tag)
        null = spec(f.nullable) if f.nullable else ""
        yield Row(here, depth, f.name, kind(f), spec(f.present), null, tag, default(f), f.ignorable)
        if f.kind == "struct":
            yield from rows(f.struct, version, f"{here}[]" if f.array else here, depth + 1)


def kind(f: Field) -> str:
    """Return a field's type for all versions: "int32", "[]string", "[]FetchTopic"."""
    one = f.struct.__name__ if f.kind == "struct" else NUMBERS.get(f.kind) or _TEXTS[f.kind]
    return f"[]{one}" if f.array else one


def default(f: Field) -> str:
    if f.default is None or (f.kind == "records" and f.nullable):
        return "null" if f.nullable or f.kind == "records" else "not sent"
    if f.fresh:
        return "[]" if f.array else "{}"
    if isinstance(f.default, bytes):
        return "zero" if f.kind == "16s" else '""'
    if isinstance(f.default, str):
        return f'"{f.default}"'
    return str(f.default).lower() if isinstance(f.default, bool) else str(f.default)


# ---------------------------------------------------------------------- grammar


def title(cls: type[Message], version: int) -> str:
    """Return a message's title in grammars: "Fetch Request (Version: 4)"."""
    name = cls.__name__
    for suffix in ("Request", "Response"):
        if name.endswith(suffix) and name != suffix:
            name = f"{name.removesuffix(suffix)} {suffix}"
    return f"{name} (Version: {version})"


def grammar(cls: type[Message], version: int) -> list[str]:
    """Return the lines of a version's grammar, in the BNF of Kafka's protocol guide."""
    flexible = version in cls.WIRE.flexible
    return [f"{title(cls, version)} => {_symbols(cls, version, flexible)}".rstrip(), *_rules(cls, version, flexible, 1)]


def _rules(cls: type[Struct], version: int, flexible: bool, depth: int) -> Iterator[str]:
    for f in _in_order(cls, version, flexible):
        if f.kind == "struct":
            yield f"{'  ' * depth}{f.name} => {_symbols(f.struct, version, flexible)}".rstrip()
            yield from _rules(f.struct, version, flexible, depth + 1)
        else:
            yield f"{'  ' * depth}{f.name} => {_terminal(f, version, flexible)}"


def _in_order(cls: type[Struct], version: int, flexible: bool) -> list[Field]:
    """Return the fields in wire order: tagged ones last, by tag."""
    here = [f for f in cls.WIRE.fields if version in f.present]
    if not flexible:
        return here
    return [f for f in here if f.tag is None] + sorted((f for f in here if f.tag is not None), key=lambda f: f.tag or 0)


def _symbols(cls: type[Struct], version: int, flexible: bool) -> str:
    shown = [_symbol(f, version, flexible) for f in _in_order(cls, version, flexible)]
    return " ".join([*shown, "_tagged_fields"] if flexible else shown)


def _symbol(f: Field, version: int, flexible: bool) -> str:
    text = f"[{f.name}]" if f.array else f.name
    if f.kind == "struct" and not f.array and version in f.nullable:
        text += "?"
    return f"{text}<tag: {f.tag}>" if f.tag is not None and flexible else text


def _terminal(f: Field, version: int, flexible: bool) -> str:
    if f.kind in NUMBERS:
        return NUMBERS[f.kind].upper()
    compact = "COMPACT_" if flexible and f.kind != "plain" else ""
    null = "NULLABLE_" if version in f.nullable and not f.array and f.kind != "records" else ""
    return f"{compact}{null}{_TEXTS[f.kind].upper()}"


# ------------------------------------------------------------------------ texts


def about(api: Api) -> tuple[str, str]:
    """Return an API's purpose, in one sentence, and its version history. Both are from the docstring of the API's module."""
    text = (import_module(f"ottla.wire.api.{api.module}").__doc__ or "").strip()
    first, _, rest = text.partition("\n\n")
    _, _, sentence = " ".join(first.split()).partition(": ")
    return sentence[:1].upper() + sentence[1:], "\n\n".join(" ".join(part.split()) for part in rest.split("\n\n") if part)


def sentence(cls: type[Any]) -> str:
    """Return the docstring of a message, on one line."""
    return " ".join((cls.__doc__ or "").split())


def as_json(cls: type[Message], versions: list[int]) -> dict[str, Any]:
    """Return a message's grammars of `versions`, and its fields of all versions, for programs."""
    only = versions[0] if len(versions) == 1 else None
    return {
        "name": cls.__name__,
        "about": sentence(cls),
        "versions": spec(cls.WIRE.valid),
        "flexible": spec(cls.WIRE.flexible),
        "grammar": {str(version): grammar(cls, version) for version in versions},
        "fields": [row._asdict() for row in rows(cls, only)],
    }
