"""Which names a topic may have, and how names that others chose are logged. Knows Kafka's rules, and its words for a refusal."""

from __future__ import annotations

import re

LONGEST = 249
"""A partition's directory is the name, a dash and a number, with room for the suffix of a deletion within 255 bytes."""

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
"""Topics that brokers create for themselves."""

ADMIN_CLIENT = "__admin_client"
"""The client id of tools that may write to those, as Apache Kafka has it."""

PROHIBITED = frozenset({"__cluster_metadata"})

_ALLOWED = re.compile(r"[a-zA-Z0-9._-]*")


def name_error(name: str) -> str | None:
    """Why a topic can't have this name, as a sentence; None if it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed; give letters, digits, '.', '_' and '-'."
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed, for it is a directory everywhere; choose another name."
    if len(name) > LONGEST:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {LONGEST}; choose a shorter one."
        )
    if not _ALLOWED.fullmatch(name):
        allowed = "ASCII alphanumerics, '.', '_' and '-'; choose another name."
        return f"Topic name is invalid: '{name}' contains one or more characters other than {allowed}"
    return None


def collision_key(name: str) -> str:
    """Equal for names that would share a metric's name, in which '.' and '_' look the same."""
    return name.replace(".", "_")


def printable(name: str) -> str:
    """Return a name as one line of a log may show it: line breaks and control characters are escaped."""
    return name if name.isprintable() else ascii(name)
