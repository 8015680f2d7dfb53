"""The answers of the schema registry to requests that change nothing, as values of JSON. They raise `RegistryRefusal`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.schema_registry import refusals
from ottla.schema_registry.format_table import PARSERS
from ottla.schema_registry.machine import RegistryMachine, property_of, shown_config
from ottla.schema_registry.state import BACKWARD, RegistryState
from ottla.schema_registry.subjects import DEFAULT_CONTEXT, GLOBAL_CONTEXT, context_of, matches, normalize, qualify, split, within
from ottla.schema_registry.values import READWRITE, SchemaText, Stored, render

LATEST = -1
MOST_VERSION = 2**31 - 1


def parse_version(text: str) -> int:
    """Return the number of a version; -1 is the newest."""
    if text in ("latest", "-1"):
        return LATEST
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text[:20]) <= MOST_VERSION:
        raise refusals.invalid_version(text)
    return int(text)


def subjects(state: RegistryState, prefix: str, *, deleted: bool, deleted_only: bool) -> list[str]:
    """Return the subjects with a prefix."""
    found = sorted(each for each in state.subjects if matches(each, prefix))
    if deleted_only:
        return [each for each in found if not state.has_subject(each)]
    return [each for each in found if state.has_subject(each, deleted=deleted)]


def versions(state: RegistryState, subject: str, *, deleted: bool, deleted_only: bool) -> list[int]:
    """Return the versions of a subject."""
    if not state.has_subject(subject, deleted=deleted or deleted_only):
        raise refusals.no_subject(subject)
    found = state.versions(subject, deleted=deleted or deleted_only)
    return [each.version for each in found if each.deleted or not deleted_only]


def find_version(machine: RegistryMachine, subject: str, text: str, *, deleted: bool = False) -> Stored:
    """Return a version of a subject. A subject without a context is searched in all of them, the default one first."""
    number = parse_version(text)
    state = machine.state
    for name in _names_in_contexts(state, subject):
        stored = state.version(name, number, deleted=deleted)
        if stored is not None:
            return stored
    if state.has_subject(subject, deleted=deleted):
        raise refusals.no_version(text if number == LATEST else number)
    raise refusals.no_subject(subject)


def _names_in_contexts(state: RegistryState, subject: str) -> list[str]:
    if context_of(subject) != DEFAULT_CONTEXT:
        return [subject]
    return [qualify(context, subject) for context in state.context_names()]


def show_version(machine: RegistryMachine, stored: Stored, format_name: str = "", *, qualified: bool = False) -> dict[str, Any]:
    """Return a version of a subject with its schema. If `qualified`, references name the context of their subjects."""
    found = {"subject": stored.subject, "version": stored.version, "id": stored.schema_id, "guid": stored.schema.fingerprint}
    found |= _show_schema(machine, stored, format_name, qualified=qualified)
    return found | ({"deleted": True} if stored.deleted else {})


def _show_schema(machine: RegistryMachine, stored: Stored, format_name: str, *, qualified: bool) -> dict[str, Any]:
    found = render(stored.schema)
    if format_name.strip():
        found["schema"] = machine.parser.parse_stored(stored).format_as(format_name)
    if qualified and "references" in found:
        found["references"] = [{**each, "subject": within(stored.subject, each["subject"])} for each in found["references"]]
    return found


def referenced_by(machine: RegistryMachine, subject: str, version: str, *, deleted: bool) -> list[int]:
    """Return the ids of the schemas that refer to a version."""
    stored = find_version(machine, subject, version, deleted=True)
    found = machine.state.referrers_of((stored.subject, stored.version), deleted=deleted)
    return sorted({each.schema_id for each in found})


def with_id(state: RegistryState, schema_id: int, subject: str) -> list[Stored]:
    """Return the versions that have an id in the context of `subject`. A name without a context prefers the default one."""
    found = state.with_id(schema_id, context_of(subject))
    if not found and context_of(subject) == DEFAULT_CONTEXT and split(subject)[1]:
        for context in state.context_names():
            found = [each for each in state.with_id(schema_id, context) if split(each.subject)[1] == subject]
            if found:
                break
    if not found:
        raise refusals.no_schema(schema_id)
    return found


def show_id(
    machine: RegistryMachine, schema_id: int, subject: str, format_name: str, *, max_id: bool, qualified: bool = False
) -> dict[str, Any]:
    """Return the schema with an id."""
    stored = with_id(machine.state, schema_id, subject)[0]
    found = _show_schema(machine, stored, format_name, qualified=qualified)
    found["guid"] = stored.schema.fingerprint
    return found | ({"maxId": machine.state.contexts[context_of(stored.subject)].max_id} if max_id else {})


def uses_of_id(state: RegistryState, schema_id: int, subject: str, *, deleted: bool) -> list[Stored]:
    """Return the versions with an id. Without deleted ones the answer may be empty."""
    found = [each for each in with_id(state, schema_id, subject) if deleted or not each.deleted]
    own = split(subject)[1]
    return [each for each in found if not own or split(each.subject)[1] == own]


def with_guid(state: RegistryState, guid: str) -> list[tuple[str, int]]:
    """Return the contexts that have a schema, and its id in each."""
    ids = ((name, state.contexts[name].id_by_fingerprint.get(guid)) for name in state.context_names() if name in state.contexts)
    found = [(name, schema_id) for name, schema_id in ids if schema_id is not None]
    if not found:
        raise refusals.no_schema(guid)
    return found


def schemas(machine: RegistryMachine, prefix: str, *, deleted: bool, latest_only: bool) -> list[dict[str, Any]]:
    """Return the versions of all subjects with a prefix."""
    found: list[Stored] = []
    for subject in sorted(each for each in machine.state.subjects if matches(each, prefix)):
        own = machine.state.versions(subject, deleted=deleted)
        found += own[-1:] if latest_only else own
    return [show_version(machine, each) for each in found]


def find_schema(machine: RegistryMachine, subject: str, schema: SchemaText, *, normalized: bool, deleted: bool) -> Stored:
    """Return the version of a subject that has a schema."""
    state = machine.state
    for name in _names_in_contexts(state, subject):
        if state.has_subject(name, deleted=deleted):
            canonical, _ = machine.canonical(name, schema, normalized=normalized)
            found = machine.find(name, canonical, deleted=deleted)
            if found is not None:
                return found
    if not state.has_subject(subject, deleted=deleted):
        raise refusals.no_subject(subject)
    raise refusals.no_schema()


def latest_with_metadata(machine: RegistryMachine, subject: str, wanted: Mapping[str, str], *, deleted: bool) -> Stored:
    """Return the newest version of a subject whose metadata has these properties."""
    if not machine.state.has_subject(subject, deleted=deleted):
        raise refusals.no_subject(subject)
    for stored in reversed(machine.state.versions(subject, deleted=deleted)):
        if all(property_of(stored.schema, name) == value for name, value in wanted.items()):
            return stored
    raise refusals.no_schema()


def check_compatibility(
    machine: RegistryMachine, subject: str, version: str | None, schema: SchemaText, *, normalized: bool, verbose: bool
) -> dict[str, Any]:
    """Return whether a schema fits a version of a subject, or all that its level compares it with."""
    state = machine.state
    if version is None:
        older = state.versions(subject)
    else:
        number = parse_version(version)
        stored = state.version(subject, number)
        if stored is None and number != LATEST:
            raise refusals.no_version(number)
        older = [] if stored is None else [stored]
    try:
        canonical, parsed = machine.canonical(subject, schema, normalized=normalized)
        group = property_of(canonical, state.config_of(subject).get("compatibilityGroup"))
        messages = machine.incompatibilities(subject, parsed, older, group)
    except refusals.RegistryRefusal as refusal:
        if not verbose or refusal.code != refusals.INVALID_SCHEMA:
            raise
        messages = [refusal.message]
    return {"is_compatible": not messages} | ({"messages": messages} if verbose else {})


def config(state: RegistryState, subject: str, *, default_to_global: bool) -> dict[str, Any]:
    """Return the settings of a subject, of a context, or of the registry ("")."""
    own = normalize(subject)
    if default_to_global:
        return shown_config(state.config_of(own))
    if own in state.configs:
        return {"compatibilityLevel": BACKWARD} | shown_config(state.configs[own])
    if own and context_of(own) != GLOBAL_CONTEXT:
        raise refusals.no_config(subject)
    return {"compatibilityLevel": BACKWARD}


def mode(state: RegistryState, subject: str, *, default_to_global: bool) -> dict[str, Any]:
    """Return the mode of a subject, of a context, or of the registry ("")."""
    own = normalize(subject)
    if default_to_global or own in state.modes:
        return {"mode": state.mode_of(own)}
    if own and context_of(own) != GLOBAL_CONTEXT:
        raise refusals.no_mode(subject)
    return {"mode": READWRITE}


def types() -> list[str]:
    """Return the formats of schemas."""
    return list(PARSERS)
