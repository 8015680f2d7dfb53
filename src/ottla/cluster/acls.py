"""ACLs (KIP-11, KIP-290): their parts, their entries in the registry, and decisions to create and delete them.

The module uses Kafka's numbers and its ZooKeeper layout. It depends on no requests, and not on the principals that send them.
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
"""The number in an `AclFilter` that matches every value of its field."""
WILDCARD: Final = "*"
"""The literal name that matches every resource, and the host that matches every host."""
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only valid name of a cluster resource."""
RULE_BYTES: Final = 80
MOST_BYTES: Final = 512 << 10
"""The approximate bytes of an ACL without principal and host, and the most bytes of one resource's ACLs. ZooKeeper allows 1 MB."""
TOO_MANY: Final = "This resource has too many ACLs: use a prefixed ACL, or fewer principals."


class Operation(IntEnum):
    """The operations that an ACL allows or denies, with Kafka's numbers."""

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
    """The types of the resources that ACLs are about, with Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """The types of an ACL's resource pattern, with Kafka's numbers.

    `MATCH`, only in filters, selects all ACLs that apply to a resource's name.
    """

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """The effects of an ACL, with Kafka's numbers: it allows or denies an operation."""

    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One ACL: it allows or denies `principal` ("User:name") the `operation` from `host` on the resources of the pattern."""

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
"""The resource pattern of an ACL."""


class AclFilter(NamedTuple):
    """A filter for ACLs, with Kafka's numbers. `ANY`, or None for a text, matches every value of that field."""

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
    """All ACLs by their resource pattern. Any module can read it, but only `apply` changes it."""

    def __init__(self) -> None:
        self.rules: dict[Key, tuple[Acl, ...]] = {}
        self.changes = 0
        """The number of changes so far, by which callers detect outdated cached results."""
        self.lengths: dict[Resource, tuple[int, ...]] = {}
        """The lengths of the prefixes that have ACLs, in characters."""
        self._prefixes: dict[Resource, Counter[int]] = {}

    def __iter__(self) -> Iterator[Acl]:
        for rules in self.rules.values():
            yield from rules

    def about(self, resource: Resource, name: str) -> Iterator[Acl]:
        """Yield the ACLs that apply to the resource of this name."""
        rules = self.rules
        yield from rules.get((resource, Pattern.LITERAL, name), ())
        for length in self.lengths.get(resource, ()):
            if length <= len(name):
                yield from rules.get((resource, Pattern.PREFIXED, name[:length]), ())
        if name != WILDCARD:
            yield from rules.get((resource, Pattern.LITERAL, WILDCARD), ())

    def apply(self, key: Key, rules: tuple[Acl, ...]) -> None:
        """Replace all ACLs of a resource pattern."""
        resource, pattern, name = key
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
    """Return a decision for each of the ACLs to create, in their order. An ACL that exists already succeeds without a change."""
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
        elif acl.key in changed:  # all new ACLs of one resource are one change, returned with the first of them
            changed.discard(acl.key)
            decisions.append(Decision(acl.name, changes=(_change(acl.key, tuple(after[acl.key])),)))
        else:
            decisions.append(Decision(acl.name))
    return decisions


def delete(present: Acls, filters: Iterable[AclFilter], keys: Iterable[Key]) -> tuple[list[list[Acl]], Decision]:
    """Delete the ACLs of the resource patterns `keys` that match the filters.

    Return the matching ACLs of each filter, and one decision with all changes.
    """
    about = [acl for key in keys for acl in present.rules.get(key, ())]
    fitting = [[acl for acl in about if wanted.fits(acl)] for wanted in filters]
    gone = {acl for acls in fitting for acl in acls}
    changed = {acl.key: None for acls in fitting for acl in acls}
    left = {key: tuple(acl for acl in present.rules[key] if acl not in gone) for key in changed}
    return fitting, Decision("", changes=tuple(_change(key, rules) for key, rules in left.items()))


def _size(acl: Acl) -> int:
    """Return an estimate of how many bytes an ACL takes in its registry entry."""
    return RULE_BYTES + layout.size_in_json(acl.principal) + layout.size_in_json(acl.host)


def paths(registry: Entries) -> Iterator[str]:
    """Yield the path of every entry of the registry that holds ACLs."""
    for top in layout.ACLS.values():
        for kind in registry.children(top):
            yield from (f"{top}/{kind}/{entry}" for entry in registry.children(f"{top}/{kind}"))


@lru_cache(maxsize=None, typed=True)  # untyped, Resource.TOPIC and Operation.ALL would share an entry: both are 2
def display_name(member: IntEnum) -> str:
    """Return the name of an enum member as Kafka's tools write it: TransactionalId for `TRANSACTIONAL_ID`."""
    return "".join(word.capitalize() for word in member.name.split("_"))


_RESOURCES: Final = {display_name(resource): resource for resource in Resource}
_OPERATIONS: Final = {display_name(operation): operation for operation in Operation}
_PERMISSIONS: Final = {display_name(permission): permission for permission in Permission}


def read(kind: str, entry: str, value: bytes | None, *, is_prefixed: bool) -> tuple[Key, tuple[Acl, ...]]:
    """Parse an entry of the registry. Raises `LookupError` or `ValueError` if it is invalid."""
    key = _RESOURCES[kind], Pattern.PREFIXED if is_prefixed else Pattern.LITERAL, layout.name_in(entry)
    return key, () if value is None else tuple(_rule(key, stored) for stored in layout.read(value)["acls"])


def _rule(key: Key, stored: dict[str, Any]) -> Acl:
    operation, permission = _OPERATIONS[stored["operation"]], _PERMISSIONS[stored["permissionType"]]
    return Acl(*key, stored["principal"], stored["host"], operation, permission)


def _change(key: Key, rules: Sequence[Acl]) -> Change:
    resource, pattern, name = key
    stored = [
        {
            "principal": acl.principal,
            "permissionType": display_name(acl.permission),
            "operation": display_name(acl.operation),
            "host": acl.host,
        }
        for acl in rules
    ]
    return Change(layout.acl_path(pattern, display_name(resource), name), layout.acls_json(stored) if rules else None)


def _refusal(acl: Acl) -> str:
    """Return why this ACL is invalid, as a sentence; empty if it is valid."""
    if acl.pattern is Pattern.MATCH:
        return "Invalid patternType MATCH: use LITERAL or PREFIXED."
    if acl.resource is Resource.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}."
    kind, colon, name = acl.principal.partition(":")
    if not (kind and colon and name):
        meant = (name if colon else kind) or "alice"
        return f"{acl.principal!r} is not a principal: write its type before its name, such as User:{meant}."
    if layout.is_too_long(acl.name, acl.principal, acl.host):
        return f"A resource name, principal or host is longer than {layout.LONGEST_NAME_BYTES} bytes: use a prefix."
    if not acl.name:
        return "Invalid empty resource name: set a name, a prefix of names, or * for all."
    return ""
