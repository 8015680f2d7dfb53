"""The text by which messages to people name a registered broker."""

from __future__ import annotations

from ottla.cluster import layout


def address_in(value: bytes) -> str:
    """Return the endpoints in a broker's entry, for messages to people."""
    try:
        stored = layout.read(value)
        return ", ".join(stored.get("endpoints") or [f"{stored['host']}:{stored['port']}"])
    except (ValueError, LookupError, TypeError, AttributeError):
        return "an invalid address"
