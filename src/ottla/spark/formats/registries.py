"""The schema registry that option schemaRegistry names."""

from __future__ import annotations

from ottla.formats.registry import SchemaRegistry, option_errors
from ottla.schemas.places import schema_place


def registry_of(place: str) -> SchemaRegistry:
    """Return the registry of option schemaRegistry. Raises `OptionError`."""
    with option_errors():
        return SchemaRegistry(schema_place(place, "option schemaRegistry", "valueSchema, and leave schemaRegistry out"))
