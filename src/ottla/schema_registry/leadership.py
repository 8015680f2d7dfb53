"""The election of a leader among the instances of a schema registry: Confluent's protocol within a classic group. Pure.

Members of the group say at which address they answer. The group's leader names the leader of the registry: the one that was it
before, otherwise the one with the smallest URL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

PROTOCOL_TYPE, PROTOCOL = "sr", "v0"
VERSION = 1
DUPLICATE_URLS = 1


@dataclass(frozen=True)
class InstanceIdentity:
    """An instance of a registry."""

    host: str
    port: int
    scheme: str = "http"
    master_eligibility: bool = True
    leader: bool = False

    @property
    def url(self) -> str:
        """Return the URL at which the instance answers."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True)
class Assignment:
    """The decision of a generation: the leader, or none. `error` is 1 if two instances have one URL."""

    leader: InstanceIdentity | None
    error: int = 0


def encode_identity(identity: InstanceIdentity) -> bytes:
    """Return a member's metadata."""
    return json.dumps({"version": VERSION, **asdict(identity)}).encode()


def decode_identity(data: bytes) -> InstanceIdentity | None:
    """Return the instance that a member's metadata describe, or None for other bytes."""
    try:
        return _identity(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def assign(members: Mapping[str, bytes]) -> bytes:
    """Return the assignment of all members, from their metadata by member id."""
    known = {member: identity for member, data in members.items() if (identity := decode_identity(data)) is not None}
    eligible = {member: identity for member, identity in known.items() if identity.master_eligibility}
    leading = [member for member, identity in eligible.items() if identity.leader]
    chosen = leading[0] if len(leading) == 1 else min(eligible, key=lambda each: eligible[each].url, default=None)
    urls = {identity.url for identity in known.values()}
    made: dict[str, Any] = {"version": VERSION, "error": DUPLICATE_URLS if len(urls) < len(known) else 0}
    if chosen is not None:
        made["master"] = chosen
        made["master_identity"] = {"version": VERSION, **asdict(replace(eligible[chosen], leader=True))}
    return json.dumps(made).encode()


def decode_assignment(data: bytes) -> Assignment:
    """Return a member's assignment. Raises `ValueError` for other bytes."""
    try:
        found = json.loads(data)
        leader = found.get("master_identity")
        return Assignment(None if leader is None else _identity(leader), int(found.get("error", 0)))
    except (TypeError, KeyError, AttributeError, RecursionError):
        raise ValueError("it is no assignment of a schema registry") from None


def _identity(found: Mapping[str, Any]) -> InstanceIdentity:
    scheme = str(found.get("scheme") or "http")
    eligible, leads = bool(found.get("master_eligibility", True)), bool(found.get("leader"))
    return InstanceIdentity(str(found["host"]), int(found["port"]), scheme, eligible, leads)
