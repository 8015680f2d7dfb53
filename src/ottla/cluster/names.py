"""Which names a topic may have. Knows Kafka's rules for them and nothing else."""

from __future__ import annotations

import re

LONGEST = 249
"""A partition's directory is the name, a dash and a number, with room for the suffix of a deletion within 255 bytes."""

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that brokers make for themselves."""

PROHIBITED = frozenset({"__cluster_metadata"})

_ALLOWED = re.compile(r"[a-zA-Z0-9._-]*")


def name_error(name: str) -> str | None:
    """Why a topic can't have this name, as a sentence; None if it can."""
    if not name:
        return "The topic's name is empty: give one of letters, digits, '.', '_' and '-'."
    if name in (".", ".."):
        return f"A topic can't be named {name!r}, which is a directory everywhere: choose another name."
    if len(name) > LONGEST:
        return f"The topic's name has {len(name)} characters: at most {LONGEST} are allowed."
    if not _ALLOWED.fullmatch(name):
        return f"The topic's name {name!r} may have only ASCII letters, digits, '.', '_' and '-'."
    return None


def collision_key(name: str) -> str:
    """Equal for names that would share a metric's name, in which '.' and '_' look the same."""
    return name.replace(".", "_")
