"""The state of the schema registry, which only `apply` changes. It follows from the records of `_schemas`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ottla.schema_registry import records
from ottla.schema_registry.records import SchemaEntry
from ottla.schema_registry.subjects import DEFAULT_CONTEXT, GLOBAL_CONTEXT, context_of, matches, normalize, prefix_of, within
from ottla.schema_registry.values import READWRITE, Stored

BACKWARD = "BACKWARD"
Key = tuple[str, int]


class ContextIds:
    """The schemas of one context: ids belong to a context."""

    def __init__(self) -> None:
        self.max_id = 0
        self.keys_by_id: dict[int, dict[Key, None]] = {}
        self.id_by_fingerprint: dict[str, int] = {}


class RegistryState:
    """All that the records of the registry say."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, Stored]] = {}
        self.contexts: dict[str, ContextIds] = {DEFAULT_CONTEXT: ContextIds()}
        self.stored_contexts: dict[str, None] = {}
        self.referrers: dict[Key, dict[Key, None]] = {}
        self.configs: dict[str, Mapping[str, Any]] = {}
        self.modes: dict[str, str] = {}

    def apply(self, entry: SchemaEntry) -> None:
        """Apply a record."""
        if entry.kind == records.SCHEMA:
            self._apply_schema(entry)
        elif entry.kind == records.CONTEXT:
            self._apply_context(entry)
        elif entry.kind in (records.CONFIG, records.MODE):
            self._apply_setting(entry)
        elif entry.kind == records.DELETE_SUBJECT and entry.value is not None:
            self._delete_subject(entry.subject or "", entry.value["version"])
        elif entry.kind == records.CLEAR_SUBJECT and entry.value is not None:
            self._clear(entry.subject or "")

    def _apply_schema(self, entry: SchemaEntry) -> None:
        self._forget((entry.subject or "", entry.version))
        if entry.value is not None:
            self._keep(records.stored_of(entry))

    def _apply_context(self, entry: SchemaEntry) -> None:
        if entry.value is None:
            self.stored_contexts.pop(entry.subject or "", None)
        else:
            self.stored_contexts[entry.subject or ""] = None

    def _apply_setting(self, entry: SchemaEntry) -> None:
        subject = entry.subject or ""
        kept: dict[str, Any] = self.configs if entry.kind == records.CONFIG else self.modes
        if entry.value is None:
            kept.pop(subject, None)
        else:
            kept[subject] = entry.value if entry.kind == records.CONFIG else entry.value["mode"]

    def _delete_subject(self, subject: str, last: int) -> None:
        versions = self.subjects.get(subject, {})
        for version, stored in versions.items():
            if version <= last and not stored.deleted:
                versions[version] = Stored(subject, version, stored.schema_id, stored.schema, deleted=True)

    def _clear(self, subject: str) -> None:
        """Remove the deleted versions of a subject, or of all subjects of a context."""
        for name in [name for name in self.subjects if subject == name or (_is_context(subject) and matches(name, subject))]:
            for version in [version for version, stored in self.subjects[name].items() if stored.deleted]:
                self._forget((name, version))

    def _keep(self, stored: Stored) -> None:
        key = stored.subject, stored.version
        context = self.contexts.setdefault(context_of(stored.subject), ContextIds())
        context.max_id = max(context.max_id, stored.schema_id)
        context.keys_by_id.setdefault(stored.schema_id, {})[key] = None
        context.id_by_fingerprint.setdefault(stored.schema.fingerprint, stored.schema_id)
        versions = self.subjects.setdefault(stored.subject, {})
        versions[stored.version] = stored
        if next(reversed(versions)) != max(versions):  # imported, or restored after a tombstone
            self.subjects[stored.subject] = dict(sorted(versions.items()))
        for each in stored.schema.references:
            self.referrers.setdefault((within(stored.subject, each.subject), each.version), {})[key] = None

    def _forget(self, key: Key) -> None:
        subject, version = key
        versions = self.subjects.get(subject, {})
        stored = versions.pop(version, None)
        if stored is None:
            return
        if not versions:
            del self.subjects[subject]
        context = self.contexts[context_of(subject)]
        keys = context.keys_by_id[stored.schema_id]
        keys.pop(key, None)
        same = [other for other in keys if self.subjects[other[0]][other[1]].schema.fingerprint == stored.schema.fingerprint]
        if not same and context.id_by_fingerprint.get(stored.schema.fingerprint) == stored.schema_id:
            del context.id_by_fingerprint[stored.schema.fingerprint]
        if not keys:
            del context.keys_by_id[stored.schema_id]
        for each in stored.schema.references:
            others = self.referrers.get((within(subject, each.subject), each.version), {})
            others.pop(key, None)

    def versions(self, subject: str, *, deleted: bool = False) -> list[Stored]:
        """Return the versions of a subject in their order, also the deleted ones if `deleted`."""
        return [each for each in self.subjects.get(subject, {}).values() if deleted or not each.deleted]

    def version(self, subject: str, version: int, *, deleted: bool = False) -> Stored | None:
        """Return a version of a subject, or None. -1 is the newest."""
        if version == -1:
            return next(reversed(self.versions(subject, deleted=deleted)), None)
        stored = self.subjects.get(subject, {}).get(version)
        return stored if stored is not None and (deleted or not stored.deleted) else None

    def has_subject(self, subject: str, *, deleted: bool = False) -> bool:
        """Return whether a subject has versions."""
        return any(deleted or not each.deleted for each in self.subjects.get(subject, {}).values())

    def with_id(self, schema_id: int, context: str) -> list[Stored]:
        """Return the versions with an id, in a context."""
        found = self.contexts.get(context)
        keys = found.keys_by_id.get(schema_id, {}) if found is not None else {}
        return [self.subjects[subject][version] for subject, version in keys]

    def referrers_of(self, key: Key, *, deleted: bool) -> list[Stored]:
        """Return the versions that refer to a version, also the deleted ones if `deleted`."""
        found = (self.subjects[subject][version] for subject, version in self.referrers.get(key, {}))
        return [each for each in found if deleted or not each.deleted]

    def context_names(self) -> list[str]:
        """Return the names of contexts; the default one is first."""
        used = {name for name, context in self.contexts.items() if context.keys_by_id}
        return [DEFAULT_CONTEXT, *sorted({*self.stored_contexts, *used} - {DEFAULT_CONTEXT})]

    def mode_of(self, subject: str) -> str:
        """Return the mode of a subject: its own, else the one of its context, or of the registry."""
        return next((self.modes[scope] for scope in _scopes(subject) if scope in self.modes), READWRITE)

    def config_of(self, subject: str) -> dict[str, Any]:
        """Return the settings of a subject. Settings that it lacks are those of its context, or else of the registry."""
        found: dict[str, Any] = {"compatibilityLevel": BACKWARD}
        for scope in reversed(_scopes(subject)):
            found |= {name: value for name, value in self.configs.get(scope, {}).items() if value is not None}
        return found


def _scopes(subject: str) -> tuple[str, ...]:
    """Return the names under which settings of a subject can be, the nearest first."""
    own = normalize(subject)
    return own, prefix_of(context_of(own)), prefix_of(GLOBAL_CONTEXT)


def _is_context(name: str) -> bool:
    return not name or name == prefix_of(context_of(name))


def contents(state: RegistryState) -> Iterator[object]:
    """Iterate over all that a state contains, to compare it with another."""
    yield {subject: dict(sorted(versions.items())) for subject, versions in sorted(state.subjects.items())}
    yield sorted(state.stored_contexts), state.configs, state.modes
    for name, context in sorted(state.contexts.items()):
        if context.keys_by_id:
            yield name, {each: sorted(keys) for each, keys in context.keys_by_id.items()}, context.id_by_fingerprint
    yield {key: sorted(found) for key, found in state.referrers.items() if found}
