"""The machine of the schema registry: `decide` returns the records of a change and its reply, and changes nothing. Pure.

The leader appends the records to `_schemas` and sends the reply once they were read back and applied. A decision that refuses
raises `RegistryRefusal`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ottla.schema_registry import records, refusals
from ottla.schema_registry.formats import Parsed
from ottla.schema_registry.levels import differences
from ottla.schema_registry.records import SchemaEntry, entry_of
from ottla.schema_registry.schema_parser import SchemaParser
from ottla.schema_registry.state import RegistryState
from ottla.schema_registry.subjects import (
    ALL_CONTEXTS,
    DEFAULT_CONTEXT,
    context_of,
    is_valid,
    matches,
    normalize,
    prefix_of,
    split,
    within,
)
from ottla.schema_registry.values import IMPORT, READONLY, READONLY_OVERRIDE, READWRITE, SchemaText, Stored


class RegistryOutcome(NamedTuple):
    """A decision: the records that store it, and the reply."""

    entries: tuple[SchemaEntry, ...]
    reply: Any


@dataclass(frozen=True)
class Register:
    """Adds a schema to a subject. `schema_id` and `version` are for imports; 0 and -1 mean none."""

    subject: str
    schema: SchemaText
    schema_id: int = -1
    version: int = 0
    normalize: bool = False


@dataclass(frozen=True)
class DeleteVersion:
    """Deletes one version of a subject, or removes a deleted one. -1 is the newest."""

    subject: str
    version: int
    permanent: bool = False


@dataclass(frozen=True)
class DeleteSubject:
    """Deletes all versions of a subject, or removes them."""

    subject: str
    permanent: bool = False


@dataclass(frozen=True)
class SetConfig:
    """Changes settings of a subject, of a context, or of the registry (""). A setting of None is removed."""

    subject: str
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DeleteConfig:
    """Removes the settings of a subject."""

    subject: str


@dataclass(frozen=True)
class SetMode:
    """Changes the mode of a subject, of a context, or of the registry. IMPORT needs an empty subject, or `force`."""

    subject: str
    mode: str
    force: bool = False


@dataclass(frozen=True)
class DeleteMode:
    """Removes the mode of a subject; with `recursive` those of all subjects of a context."""

    subject: str
    recursive: bool = False


@dataclass(frozen=True)
class DeleteContext:
    """Removes an empty context."""

    context: str


Change = Register | DeleteVersion | DeleteSubject | SetConfig | DeleteConfig | SetMode | DeleteMode | DeleteContext


class RegistryMachine:
    """The registry's state with its decisions."""

    def __init__(self) -> None:
        self.state = RegistryState()
        self.parser = SchemaParser(self.state)

    def apply(self, entry: SchemaEntry) -> None:
        """Apply a record."""
        self.state.apply(entry)

    def decide(self, change: Change) -> RegistryOutcome:
        """Decide a change. Raises `RegistryRefusal`."""
        handlers: Mapping[type, Callable[[Any], RegistryOutcome]] = {
            Register: self._register,
            DeleteVersion: self._delete_version,
            DeleteSubject: self._delete_subject,
            SetConfig: self._set_config,
            DeleteConfig: self._delete_config,
            SetMode: self._set_mode,
            DeleteMode: self._delete_mode,
            DeleteContext: self._delete_context,
        }
        return handlers[type(change)](change)

    def canonical(self, subject: str, schema: SchemaText, *, normalized: bool) -> tuple[SchemaText, Parsed]:
        """Return a client's schema with its canonical text, and parsed. Raises `RegistryRefusal`."""
        if not schema.text.strip():
            raise refusals.invalid_schema("Empty schema")
        schema = self._with_versions(subject, schema)
        parsed = self.parser.parse_new(subject, schema)
        if not normalized and not self.state.config_of(subject).get("normalize"):
            return replace(schema, text=parsed.text), parsed
        references = tuple(sorted(set(schema.references)))
        return replace(schema, text=parsed.normalize(), references=references), parsed

    def _with_versions(self, subject: str, schema: SchemaText) -> SchemaText:
        """Return a schema whose references to the newest version (-1) name its number."""
        if all(each.version > 0 for each in schema.references):
            return schema
        newest = {each: self.state.version(within(subject, each.subject), -1) for each in schema.references}
        references = [
            each._replace(version=found.version) if (found := newest[each]) and each.version == -1 else each for each in newest
        ]
        return replace(schema, references=tuple(references))

    def find(self, subject: str, schema: SchemaText, *, deleted: bool = False) -> Stored | None:
        """Return the version of a subject that has a canonical schema, or None."""
        found = [each for each in self.state.versions(subject, deleted=deleted) if each.schema.fingerprint == schema.fingerprint]
        return found[-1] if found else None

    def incompatibilities(self, subject: str, new: Parsed, older: list[Stored], group: Any = None) -> list[str]:
        """Return the reasons for which a schema does not fit older versions at the subject's level. Raises `RegistryRefusal`."""
        config = self.state.config_of(subject)
        named = config.get("compatibilityGroup")
        if named:
            older = [each for each in older if property_of(each.schema, named) == group]
        level = config["compatibilityLevel"]
        if level == "NONE":
            return []
        compared = older if level.endswith("_TRANSITIVE") else older[-1:]
        parsed = [(each.version, self.parser.parse_stored(each)) for each in compared]
        try:
            return differences(level, new, parsed)
        except refusals.InvalidSchema as error:
            raise refusals.invalid_schema(error) from None
        except RecursionError:
            raise refusals.invalid_schema("it is nested too deeply to be compared with older versions") from None

    def _register(self, change: Register) -> RegistryOutcome:
        if not is_valid(change.subject):
            raise refusals.invalid_subject(change.subject)
        subject = normalize(change.subject)
        mode = self._check_mode(subject, imports=change.schema_id >= 0)
        schema, parsed = self.canonical(subject, change.schema, normalized=change.normalize)
        existing = self.find(subject, schema)
        if existing is not None and _is_same(change, existing):
            return RegistryOutcome((), registration_reply(existing))
        versions = self.state.versions(subject, deleted=True)
        if mode != IMPORT:
            group = property_of(schema, self.state.config_of(subject).get("compatibilityGroup"))
            active = [each for each in versions if not each.deleted]
            found = self.incompatibilities(subject, parsed, active, group)
            if found:
                raise refusals.incompatible(subject, found)
        version = max((each.version for each in versions), default=0) + 1
        if change.version > 0:
            if change.version != version and mode != IMPORT:
                raise refusals.invalid_schema("Version is not one more than previous version")
            version = change.version
        if version > records.MOST_ID:
            raise refusals.RegistryRefusal(422, f"The version {version} is too large: versions have 31 bits.")
        stored = Stored(subject, version, self._id_for(subject, schema, change.schema_id), schema)
        entries = *self._context_entries(subject), *self._superseded_versions(stored, versions), entry_of(stored)
        return RegistryOutcome(entries, registration_reply(stored))

    def _id_for(self, subject: str, schema: SchemaText, wanted: int) -> int:
        context_name = context_of(subject)
        context = self.state.contexts.get(context_name)
        known = None if context is None else context.id_by_fingerprint.get(schema.fingerprint)
        if wanted < 0:
            wanted = known if known is not None else (0 if context is None else context.max_id) + 1
            if wanted <= records.MOST_ID:
                return wanted
        if wanted > records.MOST_ID:
            raise refusals.RegistryRefusal(422, f"The id {wanted} is too large: ids have 31 bits.")
        if any(each.schema.fingerprint != schema.fingerprint for each in self.state.with_id(wanted, context_name)):
            raise refusals.not_permitted(
                f"Overwrite new schema with id {wanted} in context {prefix_of(context_name)} is not permitted."
            )
        return wanted

    def _context_entries(self, subject: str) -> tuple[SchemaEntry, ...]:
        context = context_of(subject)
        if context == DEFAULT_CONTEXT or context in self.state.stored_contexts:
            return ()
        return (SchemaEntry(records.CONTEXT, context, value={"tenant": records.TENANT, "context": context}),)

    def _superseded_versions(self, new: Stored, versions: list[Stored]) -> list[SchemaEntry]:
        """Return tombstones for deleted versions whose schema is registered again."""
        return [
            SchemaEntry(records.SCHEMA, each.subject, each.version)
            for each in versions
            if each.deleted
            and each.schema_id == new.schema_id
            and each.version < new.version
            and not self.state.referrers_of((each.subject, each.version), deleted=True)
        ]

    def _check_mode(self, subject: str, *, imports: bool) -> str:
        """Return the mode of a subject that allows to register. Raises `RegistryRefusal`."""
        self._check_writable(subject)
        mode = self.state.mode_of(subject)
        if (mode == IMPORT) != imports:
            wanted = "import" if imports else "read-write"
            raise refusals.not_permitted(f"Subject {subject} in context {_context_label(subject)} is not in {wanted} mode")
        return mode

    def _check_writable(self, subject: str) -> None:
        if self.state.mode_of(subject) in (READONLY, READONLY_OVERRIDE):
            raise refusals.not_permitted(f"Subject {subject} in context {_context_label(subject)} is in read-only mode")

    def _delete_version(self, change: DeleteVersion) -> RegistryOutcome:
        subject = normalize(change.subject)
        stored = self.state.version(subject, change.version, deleted=change.permanent or change.version != -1)
        if stored is None:
            if not self.state.has_subject(subject, deleted=True):
                raise refusals.no_subject(subject)
            raise refusals.no_version("latest" if change.version == -1 else change.version)
        if stored.deleted and not change.permanent:
            raise refusals.version_deleted(subject, stored.version)
        self._check_writable(subject)
        if self.state.referrers_of((subject, stored.version), deleted=change.permanent):
            raise refusals.still_referenced(subject, stored.version)
        if not change.permanent:
            return RegistryOutcome((entry_of(replace(stored, deleted=True)),), stored.version)
        if not stored.deleted:
            raise refusals.version_not_deleted(subject, stored.version)
        last = len(self.state.versions(subject, deleted=True)) == 1
        return RegistryOutcome((_tombstone(stored), *(self._settings_tombstones(subject) if last else ())), stored.version)

    def _delete_subject(self, change: DeleteSubject) -> RegistryOutcome:
        subject = normalize(change.subject)
        if not self.state.has_subject(subject, deleted=True):
            raise refusals.no_subject(subject)
        if not change.permanent and not self.state.has_subject(subject):
            raise refusals.subject_deleted(subject)
        self._check_writable(subject)
        versions = self.state.versions(subject, deleted=change.permanent)
        for each in versions:
            referring = self.state.referrers_of((subject, each.version), deleted=change.permanent)
            if any(other.subject != subject for other in referring):
                raise refusals.still_referenced(subject, each.version)
            if change.permanent and not each.deleted:
                raise refusals.subject_not_deleted(subject)
        numbers = [each.version for each in versions]
        if change.permanent:
            return RegistryOutcome((*map(_tombstone, reversed(versions)), *self._settings_tombstones(subject)), numbers)
        value = {"subject": subject, "version": numbers[-1]}
        return RegistryOutcome((SchemaEntry(records.DELETE_SUBJECT, subject, value=value),), numbers)

    def _settings_tombstones(self, subject: str) -> list[SchemaEntry]:
        kept = (records.MODE, self.state.modes), (records.CONFIG, self.state.configs)
        return [SchemaEntry(kind, subject) for kind, found in kept if subject in found]

    def _set_config(self, change: SetConfig) -> RegistryOutcome:
        subject = self._settings_subject(change.subject)
        self._check_writable(subject)
        merged = {**self.state.configs.get(subject, {}), **change.changes, "subject": subject or None}
        value = {name: each for name, each in merged.items() if each is not None}
        return RegistryOutcome((SchemaEntry(records.CONFIG, subject or None, value=value),), None)

    def _delete_config(self, change: DeleteConfig) -> RegistryOutcome:
        subject = self._settings_subject(change.subject)
        if subject and subject not in self.state.configs:
            raise refusals.no_subject(subject)
        self._check_writable(subject)
        kept = subject in self.state.configs
        reply = {"compatibilityLevel": "BACKWARD"} | shown_config(self.state.configs.get(subject, {}))
        return RegistryOutcome((SchemaEntry(records.CONFIG, subject or None),) if kept else (), reply)

    def _set_mode(self, change: SetMode) -> RegistryOutcome:
        subject = self._settings_subject(change.subject)
        entries: list[SchemaEntry] = []
        if change.mode == IMPORT and self.state.mode_of(subject) != IMPORT and not change.force:
            names = self._under(subject)
            if any(self.state.has_subject(each) for each in names):
                raise refusals.not_permitted("Cannot import since found existing subjects")
            removed = [stored for each in names for stored in self.state.versions(each, deleted=True)]
            keys = {(each.subject, each.version) for each in removed}
            for each in removed:
                others = self.state.referrers_of((each.subject, each.version), deleted=True)
                if any((other.subject, other.version) not in keys for other in others):
                    raise refusals.still_referenced(each.subject, each.version)
            entries += map(_tombstone, removed)
            entries.append(SchemaEntry(records.CLEAR_SUBJECT, subject or None, value={"subject": subject or None}))
        value = {"mode": change.mode} | ({"subject": subject} if subject else {})
        return RegistryOutcome((*entries, SchemaEntry(records.MODE, subject or None, value=value)), {"mode": change.mode})

    def _delete_mode(self, change: DeleteMode) -> RegistryOutcome:
        subject = self._settings_subject(change.subject)
        mode = self.state.modes.get(subject)
        if mode is None and subject and not change.recursive:
            raise refusals.no_subject(subject)
        names = [subject] if mode is not None else []
        if change.recursive and not split(subject)[1]:
            names += [each for each in self.state.modes if each != subject and matches(each, subject)]
        return RegistryOutcome(tuple(SchemaEntry(records.MODE, each or None) for each in names), {"mode": mode or READWRITE})

    def _delete_context(self, change: DeleteContext) -> RegistryOutcome:
        context = context_of(change.context)
        if any(matches(subject, prefix_of(context)) for subject in self.state.subjects):
            raise refusals.RegistryRefusal(42211, f"The specified context '{change.context}' is not empty.")
        return RegistryOutcome((SchemaEntry(records.CONTEXT, context),) if context in self.state.stored_contexts else (), None)

    def _settings_subject(self, name: str) -> str:
        """Return the normal name of a subject or a context whose settings change. Raises `RegistryRefusal`."""
        if not is_valid(name, names_settings=True):
            raise refusals.invalid_subject(name)
        return normalize(name)

    def _under(self, subject: str) -> list[str]:
        """Return the subjects for which a setting of `subject` holds."""
        if split(subject)[1]:
            return [each for each in self.state.subjects if each == subject]
        everywhere = subject == prefix_of(".__GLOBAL")
        return [each for each in self.state.subjects if matches(each, ALL_CONTEXTS if everywhere else subject)]


def registration_reply(stored: Stored) -> dict[str, Any]:
    """Return the reply to a registration. Its text is left out: clients keep the one they sent, which can be a descriptor."""
    return {"id": stored.schema_id, "version": stored.version, "guid": stored.schema.fingerprint}


def shown_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as clients see them."""
    return {name: value for name, value in config.items() if name != "subject"}


def property_of(schema: SchemaText, name: Any) -> Any:
    """Return a property of a schema's metadata, or None."""
    properties = (schema.metadata or {}).get("properties") if name else None
    return properties.get(name) if isinstance(properties, dict) else None


def _is_same(change: Register, existing: Stored) -> bool:
    """Return whether a registration has nothing to add to an existing version."""
    return change.version in (0, -1, existing.version) and change.schema_id in (-1, existing.schema_id)


def _tombstone(stored: Stored) -> SchemaEntry:
    return SchemaEntry(records.SCHEMA, stored.subject, stored.version)


def _context_label(subject: str) -> str:
    return prefix_of(context_of(subject))
