"""The rules for names of topics, in Kafka's words, and the escaping of client-chosen names in logs."""

from __future__ import annotations

import re

LONGEST = 249
"""The longest name of a topic, in characters. Its directories add a dash, a number and a deletion's suffix within 255 bytes."""

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""The topics in which brokers store offsets, transactions and the states of share partitions."""

ADMIN_CLIENT = "__admin_client"
"""The client id of tools that may write to internal topics, as in Apache Kafka."""

PROHIBITED = frozenset({"__cluster_metadata"})

_ALLOWED = re.compile(r"[a-zA-Z0-9._-]*")


def name_error(name: str) -> str | None:
    """Return a message that says why a topic's name is invalid; None if it is valid."""
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
    """Return a key that is equal for topic names with the same metric name, because metrics do not distinguish '.' from '_'."""
    return name.replace(".", "_")


def printable(name: str) -> str:
    """Escape line breaks and control characters, so that a name fits into one line of a log."""
    return name if name.isprintable() else ascii(name)
