"""Change notifications between the brokers of a cluster: sequential entries of the registry that name an entry to read again.

The layout is that of Kafka 0.8 to 3.9. Topics, their partitions and brokers have no notifications: the controller watches them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.cluster import layout
from ottla.cluster.acls import Pattern, Resource, display_name
from ottla.ports import Change


class Announcements(NamedTuple):
    """A directory of the registry in which brokers create notifications of changes. `prefix` is the start of their names."""

    path: str
    prefix: str


CONFIGS: Final = Announcements("/config/changes", "config_change_")
LITERAL_ACLS: Final = Announcements("/kafka-acl-changes", "acl_changes_")
OTHER_ACLS: Final = Announcements("/kafka-acl-extended-changes", "acl_changes_")
TOKENS: Final = Announcements("/delegation_token/token_changes", "token_change_")
ALL: Final = (CONFIGS, LITERAL_ACLS, OTHER_ACLS, TOKENS)
CONFIG_KINDS: Final = frozenset(("topics", "brokers", "users", "clients", "ips", "groups", "client-metrics"))
_KINDS: Final = {display_name(resource): resource for resource in Resource}


def notifications_of(changes: Sequence[Change]) -> list[Change]:
    """Return notifications of these changes, to commit with them. All brokers then read the changed entries again.

    If the same changes create or delete a topic, its settings get no notification, because brokers read them with the topic.
    """
    topics = {change.path.removeprefix(f"{layout.TOPICS}/") for change in changes if change.path.startswith(f"{layout.TOPICS}/")}
    found = [_announcement(change.path.split("/")[1:], topics) for change in changes]
    return [
        Change(f"{each.path}/{each.prefix}", value, sequential=True) for each, value in (one for one in found if one is not None)
    ]


def _announcement(parts: Sequence[str], topics: set[str]) -> tuple[Announcements, bytes] | None:
    match parts:
        case ["config", "topics", name] if name in topics:
            return None
        case ["config", kind, *_] if kind in CONFIG_KINDS:
            return CONFIGS, layout.json_bytes({"version": 2, "entity_path": "/".join(parts[1:])})
        case ["kafka-acl", kind, entry]:
            return LITERAL_ACLS, f"{_KINDS[kind].name}:{layout.name_in(entry)}".encode()
        case ["kafka-acl-extended", "prefixed", kind, entry]:
            rule = {"resourceType": _KINDS[kind].name, "name": layout.name_in(entry), "patternType": Pattern.PREFIXED.name}
            return OTHER_ACLS, layout.json_bytes({"version": 1, **rule})
        case ["delegation_token", "tokens", token_id]:
            return TOKENS, token_id.encode()
    return None


def parse_notification(where: Announcements, value: bytes) -> str:
    """Parse a notification from the directory `where`: return the path of the changed entry. Raises `ValueError`."""
    try:
        return _READ[where](value)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it says {value!r}") from error


def _config_path(value: bytes) -> str:
    told: Mapping[str, Any] = layout.read(value)
    if told["version"] == 1:  # Kafka 0.8.1 to 0.10.0
        return f"/config/{told['entity_type']}/{told['entity_name']}"
    kind, slash, rest = str(told["entity_path"]).partition("/")
    if kind not in CONFIG_KINDS or not slash or not rest:
        raise ValueError(f"unknown entity {told['entity_path']}")
    return f"/config/{kind}/{rest}"


def _literal_path(value: bytes) -> str:
    kind, colon, name = value.decode().partition(":")
    if not colon:
        raise ValueError(f"{kind} has no resource name")
    return layout.acl_path(Pattern.LITERAL, _kind(kind), name)


def _other_path(value: bytes) -> str:
    stored = layout.read(value)
    return layout.acl_path(Pattern[stored["patternType"].upper()], _kind(stored["resourceType"]), stored["name"])


def _kind(written: str) -> str:
    """Return the resource type as paths spell it. Notifications spell it TRANSACTIONAL_ID or TransactionalId."""
    plain = written.replace("_", "").lower()
    return {kind.lower(): kind for kind in _KINDS}[plain]


def _token_path(value: bytes) -> str:
    return layout.delegation_token_path(value.decode())


_READ: Final = {CONFIGS: _config_path, LITERAL_ACLS: _literal_path, OTHER_ACLS: _other_path, TOKENS: _token_path}
