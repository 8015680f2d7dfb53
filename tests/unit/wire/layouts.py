"""The layout of a message in a version as lines of text: from our declarations, and from a schema in Kafka's JSON.

One line says all of one field that matters: path, type, whether it may be null, its tag, default, and whether it is ignorable.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from ottla.wire.schema import END, Field, Message, Struct

_WORDS = {
    "b": "int8",
    "h": "int16",
    "i": "int32",
    "q": "int64",
    "H": "uint16",
    "I": "uint32",
    "d": "float64",
    "?": "bool",
    "16s": "uuid",
    "str": "string",
    "plain": "string never compact",
    "bytes": "bytes",
    "records": "records",
}

# -------------------------------------------------------------------------- ours


def declared(cls: type[Message], version: int) -> list[str]:
    flexible = version in cls.WIRE.flexible
    return [f"{cls.__name__} key {cls.WIRE.key} {'flexible' if flexible else 'plain'}", *_declared(cls, version, "")]


def _declared(cls: type[Struct], version: int, path: str) -> list[str]:
    lines = []
    for f in cls.WIRE.fields:
        if version in f.present:
            kind = f.struct.__name__ if f.kind == "struct" else _WORDS[f.kind]
            null = " null" if version in f.nullable else ""
            tag = "" if f.tag is None else f" tag {f.tag}"
            ignorable = " ignorable" if f.ignorable else ""
            lines.append(f"{path}{f.name}: {'[]' * f.array}{kind}{null}{tag} = {_default(f)}{ignorable}")
            if f.kind == "struct":
                lines += _declared(f.struct, version, f"{path}{f.name}.")
    return lines


def _default(f: Field) -> str:
    if f.fresh or (f.default is None and f.kind == "struct" and f.tag is not None and not f.nullable):
        return "empty"
    if f.kind == "records":
        return "empty" if f.default == b"" else "null"
    if f.default is None:
        return "null"
    return "empty" if f.default in ("", b"", bytes(16)) and not isinstance(f.default, int) else str(f.default)


def digest(cls: type[Message]) -> str:
    """A short sum over the layouts of all versions ever valid."""
    text = "\n".join(f"v{version}\n" + "\n".join(declared(cls, version)) for version in cls.WIRE.valid)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ----------------------------------------------------------------------- Kafka's


def versions(spec: str | None) -> range:
    if spec in (None, "none"):
        return range(0)
    if spec.endswith("+"):
        return range(int(spec[:-1]), END)
    low, _, high = spec.partition("-")
    return range(int(low), int(high or low) + 1)


def load(path: Path) -> dict[str, Any]:
    text = re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*', lambda found: found[1] or "", path.read_text())
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def snake(name: str) -> str:
    name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    return re.sub("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().replace("__", "_")


def specified(schema: dict[str, Any], version: int) -> list[str]:
    flexible = version in versions(schema.get("flexibleVersions"))
    shared = {part["name"]: part["fields"] for part in schema.get("commonStructs", [])}
    head = f"{schema['name']} key {schema.get('apiKey', -1)} {'flexible' if flexible else 'plain'}"
    return [head, *_specified(schema["fields"], shared, version, "")]


def _specified(fields: list[dict[str, Any]], shared: dict[str, Any], version: int, path: str) -> list[str]:
    lines = []
    for f in fields:
        if version in versions(f.get("versions") or f["taggedVersions"]):
            kind, name = f["type"], snake(f["name"])
            base = kind.removeprefix("[]")
            never_compact = " never compact" if f.get("flexibleVersions") == "none" else ""
            null = " null" if version in versions(f.get("nullableVersions")) else ""
            tag = f" tag {int(f['tag'])}" if "tag" in f else ""
            ignorable = " ignorable" if f.get("ignorable") in (True, "true") else ""
            lines.append(f"{path}{name}: {kind}{never_compact}{null}{tag} = {_specified_default(f)}{ignorable}")
            lines += _specified(f.get("fields") or shared.get(base, []), shared, version, f"{path}{name}.")
    return lines


def _specified_default(f: dict[str, Any]) -> str:
    default = "" if f.get("default") is None else str(f["default"])
    kind = f["type"]
    if kind == "records":
        return "null" if default == "null" or f.get("nullableVersions") else "empty"
    if default == "null" or kind.startswith("[]") or kind[0].isupper() or kind in ("string", "bytes", "uuid"):
        return default or "empty"
    if kind == "bool":
        return str(default.lower() == "true")
    return str(float(default or 0)) if kind == "float64" else str(int(default or "0", 0))
