"""Records of the `_schemas` topic in the format of Confluent's registry: keys and values are JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.schema_registry.levels import LEVELS
from ottla.schema_registry.values import AVRO, MODES, Reference, SchemaText, Stored, render

SCHEMA, CONFIG, MODE, CONTEXT, NOOP = "SCHEMA", "CONFIG", "MODE", "CONTEXT", "NOOP"
DELETE_SUBJECT, CLEAR_SUBJECT = "DELETE_SUBJECT", "CLEAR_SUBJECT"
TENANT = "default"
MOST_ID = 2**31 - 1


class SchemaEntry(NamedTuple):
    """A decoded record. `subject` is a context for CONTEXT, and None for settings of the registry. A tombstone has no `value`."""

    kind: str
    subject: str | None = None
    version: int = 0
    value: Mapping[str, Any] | None = None


class Foreign(ValueError):
    """A record that no schema registry wrote, with the reason as a clause."""


def encode(entry: SchemaEntry) -> tuple[bytes, bytes | None]:
    """Return the key and the value of a record."""
    key: dict[str, Any] = {"keytype": entry.kind}
    if entry.kind == CONTEXT:
        key |= {"tenant": TENANT, "context": entry.subject}
    elif entry.subject is not None:
        key["subject"] = entry.subject
    if entry.kind == SCHEMA:
        key["version"] = entry.version
    key["magic"] = 1 if entry.kind == SCHEMA else 0
    return _dump(key), None if entry.value is None else _dump(entry.value)


def decode(key: bytes | None, value: bytes | None) -> SchemaEntry:
    """Return a record's content. Raises `Foreign`."""
    found = _load_json(key, "key")
    kind = found.get("keytype")
    if kind not in (SCHEMA, CONFIG, MODE, CONTEXT, NOOP, DELETE_SUBJECT, CLEAR_SUBJECT):
        raise Foreign(f"its keytype is {str(kind)[:50]!r}, and none of a schema registry")
    subject = found.get("context" if kind == CONTEXT else "subject")
    if not isinstance(subject, str) and (subject is not None or kind not in (CONFIG, MODE, NOOP, CLEAR_SUBJECT)):
        raise Foreign("its key names no subject")
    if subject is not None and any("\ud800" <= char <= "\udfff" for char in subject):
        raise Foreign("its key names a subject that UTF-8 cannot encode")
    version = found.get("version", 0)
    if kind == SCHEMA and (type(version) is not int or not 0 < version <= MOST_ID or found.get("magic") not in (0, 1)):
        raise Foreign("its key has no version, or an unknown magic")
    content = None if value is None or kind == NOOP else _load_json(value, "value")
    entry = SchemaEntry(kind, subject, version if kind == SCHEMA else 0, content)
    if content is not None:
        _check(entry, content)
    return entry


def entry_of(stored: Stored) -> SchemaEntry:
    """Return the entry that stores a version of a subject."""
    value = {"subject": stored.subject, "version": stored.version, "id": stored.schema_id}
    return SchemaEntry(SCHEMA, stored.subject, stored.version, value | render(stored.schema) | {"deleted": stored.deleted})


def stored_of(entry: SchemaEntry) -> Stored:
    """Return the version of a subject that an entry stores."""
    value = entry.value or {}
    references = tuple(Reference(each["name"], each["subject"], each["version"]) for each in value.get("references") or ())
    schema = SchemaText(value.get("schemaType") or AVRO, value["schema"], references, value.get("metadata"), value.get("ruleSet"))
    return Stored(entry.subject or "", entry.version, value["id"], schema, bool(value.get("deleted")))


def _check(entry: SchemaEntry, value: Mapping[str, Any]) -> None:
    """Check the fields that the registry reads. Raises `Foreign`."""
    try:
        if entry.kind == SCHEMA:
            stored = stored_of(entry)
            texts = [stored.schema.text, stored.schema.schema_type]
            texts += [text for each in stored.schema.references for text in each[:2]]
            numbers = [stored.schema_id, *(each.version for each in stored.schema.references)]
            right = all(isinstance(each, str) for each in texts) and all(type(each) is int for each in numbers)
            right = right and 0 <= stored.schema_id <= MOST_ID
        elif entry.kind == DELETE_SUBJECT:
            right = type(value["version"]) is int
        elif entry.kind == MODE:
            right = value["mode"] in MODES
        else:
            right = entry.kind != CONFIG or value.get("compatibilityLevel", "NONE") in (None, *LEVELS)
        _dump(value)
    except (KeyError, TypeError, AttributeError, UnicodeEncodeError):
        right = False
    if not right:
        raise Foreign(f"its value is no {entry.kind} of a schema registry")


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _load_json(data: bytes | None, what: str) -> dict[str, Any]:
    try:
        found = json.loads(data or b"")
    except (ValueError, RecursionError):
        raise Foreign(f"its {what} is no JSON") from None
    if not isinstance(found, dict):
        raise Foreign(f"its {what} is no object of JSON")
    return found
