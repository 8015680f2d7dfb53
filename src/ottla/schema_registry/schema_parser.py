"""Schemas with all to which they refer, parsed once: a cache over the state. Pure."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress

from ottla.schema_registry.format_table import PARSERS
from ottla.schema_registry.formats import Parsed
from ottla.schema_registry.refusals import InvalidSchema, invalid_schema
from ottla.schema_registry.state import RegistryState
from ottla.schema_registry.subjects import within
from ottla.schema_registry.values import SchemaText, Stored

MOST_PARSED = 1000
"""The number of parsed schemas that are kept."""
MOST_REFERENCES = 1000
"""The number of schemas to which one schema may refer, directly and indirectly."""
MOST_DEPTH = 100


class SchemaParser:
    """Parses schemas of a registry, and remembers those that were used last."""

    def __init__(self, state: RegistryState) -> None:
        self._state = state
        self._parsed: OrderedDict[object, Parsed] = OrderedDict()

    def parse_new(self, subject: str, schema: SchemaText) -> Parsed:
        """Parse a schema that a client sent for a subject. Raises `RegistryRefusal`."""
        return self._parse(subject, schema, is_new=True)

    def parse_stored(self, stored: Stored) -> Parsed:
        """Parse a stored schema. Raises `RegistryRefusal`."""
        return self._parse(stored.subject, stored.schema, is_new=False)

    def _parse(self, subject: str, schema: SchemaText, *, is_new: bool) -> Parsed:
        parser = PARSERS.get(schema.schema_type)
        if parser is None:
            raise invalid_schema(f"Invalid schema type {schema.schema_type}: choose one of {', '.join(PARSERS)}.")
        try:
            references = self.references(subject, schema)
            key = schema.schema_type, schema.text, tuple(references.items()), is_new
            found = self._parsed.pop(key, None) or parser(schema.text, references, is_new)
        except InvalidSchema as error:
            raise invalid_schema(error) from None
        self._keep(key, found)
        return found

    def _keep(self, key: object, found: Parsed) -> None:
        """Keep a parsed schema as the one that was used last. Another thread may do the same at the same time."""
        self._parsed[key] = found
        while len(self._parsed) > MOST_PARSED:
            with suppress(KeyError):
                self._parsed.popitem(last=False)

    def references(self, subject: str, schema: SchemaText) -> dict[str, str]:
        """Return the texts to which a schema refers by name, each after its own references. Raises `InvalidSchema`."""
        found: dict[str, str] = {}
        self._gather(subject, schema, found, ())
        return found

    def _gather(self, subject: str, schema: SchemaText, found: dict[str, str], path: tuple[tuple[str, int], ...]) -> None:
        for name, other, version in schema.references:
            key = within(subject, other), version
            if name in found:
                continue
            if key in path:
                raise InvalidSchema(f"its references are a circle: {key[0]} version {key[1]} refers to itself")
            stored = self._state.version(*key, deleted=True)
            if stored is None:
                raise InvalidSchema(f'No schema reference found for subject "{other}" and version {version}')
            if stored.schema.schema_type != schema.schema_type:
                raise InvalidSchema(f"reference {name} is of type {stored.schema.schema_type}, and not {schema.schema_type}")
            if len(found) >= MOST_REFERENCES or len(path) >= MOST_DEPTH:
                raise InvalidSchema(f"it refers to more than {MOST_REFERENCES} schemas")
            self._gather(key[0], stored.schema, found, (*path, key))
            found[name] = stored.schema.text
