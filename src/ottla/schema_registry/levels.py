"""Compatibility levels: with which older versions a schema is compared, and in which directions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.schema_registry.formats import Parsed


class CompatibilityLevel(NamedTuple):
    """A compatibility level. `reads_old`: the new schema reads data of older ones. `read_by_old`: older ones read its data."""

    reads_old: bool
    read_by_old: bool
    is_transitive: bool


LEVELS = {
    "NONE": CompatibilityLevel(False, False, False),
    "BACKWARD": CompatibilityLevel(True, False, False),
    "BACKWARD_TRANSITIVE": CompatibilityLevel(True, False, True),
    "FORWARD": CompatibilityLevel(False, True, False),
    "FORWARD_TRANSITIVE": CompatibilityLevel(False, True, True),
    "FULL": CompatibilityLevel(True, True, False),
    "FULL_TRANSITIVE": CompatibilityLevel(True, True, True),
}


def level_named(name: object) -> str | None:
    """Return the level with this name in any case, or None."""
    found = name.upper() if isinstance(name, str) else None
    return found if found in LEVELS else None


def differences(name: str, new: Parsed, older: Sequence[tuple[int, Parsed]]) -> list[str]:
    """Return the reasons for which a schema is incompatible with older versions, the newest of which is last."""
    level = LEVELS[name]
    compared = older if level.is_transitive else older[-1:]
    for version, old in reversed(compared if level.reads_old or level.read_by_old else ()):
        found = _between(level, new, old)
        if found:
            return [*found, f"{{oldSchemaVersion: {version}}}", f"{{oldSchema: '{old.text}'}}", f"{{compatibility: '{name}'}}"]
    return []


def _between(level: CompatibilityLevel, new: Parsed, old: Parsed) -> list[str]:
    if type(new) is not type(old):
        return ["{errorType:'SCHEMA_TYPE_CHANGED', description:'Incompatible because of different schema type'}"]
    found = new.unreadable(old, reader="new", writer="old") if level.reads_old else []
    return found + (old.unreadable(new, reader="old", writer="new") if level.read_by_old else [])
