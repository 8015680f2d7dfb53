"""Rules of access (KIP-11, KIP-290): what they say, how the registry keeps them, which of them are made and deleted.

Knows Kafka's numbers and its ZooKeeper layout; knows no requests, and nobody who asks for anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ottla.cluster import layout
from ottla.cluster.decision import Decision
from ottla.ports import Change, Entries
from ottla.wire.errors import INVALID_REQUEST, POLICY_VIOLATION

ANY: Final = 1
"""In a filter: whatever a rule has there."""
WILDCARD: Final = "*"
"""The literal name of every resource, and every host."""
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one cluster resource."""
RULE_BYTES: Final = 80
MOST_BYTES: Final = 512 << 10
"""About how many bytes a rule takes in its entry beside its names, and all about one resource: ZooKeeper takes up to 1 MB."""
TOO_MANY: Final = "There are too many rules about this resource already: make one about a prefix, or for fewer principals."


class Operation(IntEnum):
    """What somebody wants to do, with Kafka's numbers."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """What it is done to, with Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """Which names a rule is about; `MATCH` is for filters alone: all rules that a resource of that name is under."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What a rule does."""

    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One rule: `principal` ("User:name") may or may not, from `host`, do `operation` to what the pattern names."""

    resource: Resource
    pattern: Pattern
    name: str
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def key(self) -> Key:
        return self.resource, self.pattern, self.name


Key = tuple[Resource, Pattern, str]
"""What a rule is about."""


class AclFilter(NamedTuple):
    """Rules that are wanted, by Kafka's numbers: `ANY`, or None for a text, fits whatever a rule has there."""

    resource: int = ANY
    pattern: int = ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def fits(self, acl: Acl) -> bool:
        return (
            self.resource in (ANY, acl.resource)
            and self._names(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
        )

    def _names(self, acl: Acl) -> bool:
        if self.pattern == Pattern.MATCH:
            prefixed = acl.pattern is Pattern.PREFIXED
            return self.name is None or (self.name.startswith(acl.name) if prefixed else acl.name in (self.name, WILDCARD))
        return self.pattern in (ANY, acl.pattern) and self.name in (None, acl.name)


class Acls:
    """All rules, by what they are about. Anyone may read it; only `apply` changes it."""

    def __init__(self) -> None:
        self.rules: dict[Key, tuple[Acl, ...]] = {}
        self.changes = 0
        """Grows with each change of a rule."""
        self.lengths: dict[Resource, tuple[int, ...]] = {}
        """How long the prefixes are that there are rules about."""
        self._prefixes: dict[Resource, Counter[int]] = {}

    def __iter__(self) -> Iterator[Acl]:
        for rules in self.rules.values():
            yield from rules

    def about(self, resource: Resource, name: str) -> Iterator[Acl]:
        """The rules that a resource of this name is under."""
        rules = self.rules
        yield from rules.get((resource, Pattern.LITERAL, name), ())
        for length in self.lengths.get(resource, ()):
            if length <= len(name):
                yield from rules.get((resource, Pattern.PREFIXED, name[:length]), ())
        if name != WILDCARD:
            yield from rules.get((resource, Pattern.LITERAL, WILDCARD), ())

    def apply(self, kind: str, entry: str, value: bytes | None, *, is_prefixed: bool) -> None:
        """Take in what an entry of the registry says now. Raises `LookupError` and `ValueError`."""
        pattern = Pattern.PREFIXED if is_prefixed else Pattern.LITERAL
        resource, name = _RESOURCES[kind], layout.name_in(entry)
        key = resource, pattern, name
        rules = () if value is None else tuple(_rule(key, stored) for stored in layout.read(value)["acls"])
        before = self.rules.get(key, ())
        if rules:
            self.rules[key] = rules
        else:
            self.rules.pop(key, None)
        self.changes += 1
        if pattern is Pattern.PREFIXED and bool(rules) is not bool(before):
            counts = self._prefixes.setdefault(resource, Counter())
            counts[len(name)] += 1 if rules else -1
            self.lengths[resource] = tuple(sorted(length for length, count in counts.items() if count))


def create(present: Acls, wanted: Sequence[Acl]) -> list[Decision]:
    """Make these rules: what became of each, in their order. One that is there already is made again."""
    refused = [_refusal(acl) for acl in wanted]
    after: dict[Key, dict[Acl, None]] = {}
    sizes: dict[Key, int] = {}
    changed: set[Key] = set()
    for place, acl in enumerate(wanted):
        key = acl.key
        if key not in after:
            after[key] = dict.fromkeys(present.rules.get(key, ()))
            sizes[key] = sum(map(_size, after[key]))
        if refused[place] or acl in after[key]:
            continue
        if sizes[key] + _size(acl) > MOST_BYTES:
            refused[place] = TOO_MANY
            continue
        after[key][acl] = None
        sizes[key] += _size(acl)
        changed.add(key)
    decisions = []
    for acl, why in zip(wanted, refused, strict=True):
        if why:
            decisions.append(Decision(acl.name, POLICY_VIOLATION if why is TOO_MANY else INVALID_REQUEST, why))
        elif acl.key in changed:  # what is made of one resource is one change, told with the first of them
            changed.discard(acl.key)
            decisions.append(Decision(acl.name, changes=(_change(acl.key, tuple(after[acl.key])),)))
        else:
            decisions.append(Decision(acl.name))
    return decisions


def delete(present: Acls, filters: Iterable[AclFilter], keys: Iterable[Key]) -> tuple[list[list[Acl]], Decision]:
    """Delete the rules about `keys` that filters fit: for each filter those that it fits, and the change that deletes them."""
    about = [acl for key in keys for acl in present.rules.get(key, ())]
    fitting = [[acl for acl in about if wanted.fits(acl)] for wanted in filters]
    gone = {acl for acls in fitting for acl in acls}
    changed = {acl.key: None for acls in fitting for acl in acls}
    left = {key: tuple(acl for acl in present.rules[key] if acl not in gone) for key in changed}
    return fitting, Decision("", changes=tuple(_change(key, rules) for key, rules in left.items()))


def _size(acl: Acl) -> int:
    """Return about how many bytes a rule takes in its entry."""
    return RULE_BYTES + layout.size_in_json(acl.principal) + layout.size_in_json(acl.host)


def paths(registry: Entries) -> Iterator[str]:
    """Every path of the registry at which there are rules."""
    for top in layout.ACLS.values():
        for kind in registry.children(top):
            yield from (f"{top}/{kind}/{entry}" for entry in registry.children(f"{top}/{kind}"))


@lru_cache(maxsize=None, typed=True)  # a topic is 2, and so are all operations
def told(member: IntEnum) -> str:
    """How Kafka's tools write a number: TransactionalId for `TRANSACTIONAL_ID`."""
    return "".join(word.capitalize() for word in member.name.split("_"))


_RESOURCES: Final = {told(resource): resource for resource in Resource}
_OPERATIONS: Final = {told(operation): operation for operation in Operation}
_PERMISSIONS: Final = {told(permission): permission for permission in Permission}


def _rule(key: Key, stored: dict[str, Any]) -> Acl:
    operation, permission = _OPERATIONS[stored["operation"]], _PERMISSIONS[stored["permissionType"]]
    return Acl(*key, stored["principal"], stored["host"], operation, permission)


def _change(key: Key, rules: Sequence[Acl]) -> Change:
    resource, pattern, name = key
    stored = [
        {
            "principal": acl.principal,
            "permissionType": told(acl.permission),
            "operation": told(acl.operation),
            "host": acl.host,
        }
        for acl in rules
    ]
    return Change(layout.acl_path(pattern, told(resource), name), layout.acls_json(stored) if rules else None)


def _refusal(acl: Acl) -> str:
    """Why there can be no such rule, as a sentence; empty if there can."""
    if acl.pattern is Pattern.MATCH:
        return "Invalid patternType MATCH: a rule is about a literal name or about a prefix."
    if acl.resource is Resource.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}."
    kind, colon, name = acl.principal.partition(":")
    if not (kind and colon and name):
        meant = (name if colon else kind) or "alice"
        return f"{acl.principal!r} is no principal: write its type before its name, such as User:{meant}."
    if layout.is_too_long(acl.name, acl.principal, acl.host):
        return f"A resource name, principal or host is longer than {layout.LONGEST_NAME_BYTES} bytes: write a prefix of it."
    if not acl.name:
        return "Invalid empty resource name: give the name of a resource, a prefix of names, or * for all."
    return ""
