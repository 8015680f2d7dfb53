"""The authorizer based on ACLs, like Kafka's StandardAuthorizer (KIP-11, KIP-290, KIP-679).

Super users may do everything. Otherwise a DENY ACL takes precedence over all ALLOW ACLs; if no ACL matches a resource at all,
`allow.everyone.if.no.acl.found` decides. Depends on ACLs and peers, and not on requests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from ottla.broker.security.rights import YES
from ottla.broker.serving.request import Peer
from ottla.cluster.acls import EVERYBODY, WILDCARD, Acl, Acls, Operation, Pattern, Permission, Resource

MOST_KEPT: Final = 50_000
"""Upper limit of cached answers, one per client, operation and name."""
LONGEST_KEPT: Final = 249
"""The longest topic name, in characters; answers for longer names are not cached."""

IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset({Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}
"""Operation -> the operations that imply it when they are allowed. Denied operations imply nothing."""

Kind = tuple[str, str, Operation, Resource]
"""(principal, host, operation, resource type): the key of an answer, apart from the resource name."""


class AclAuthorizer:
    """An authorizer that decides by `acls` and caches answers until ACLs change. `super_users` are principals like "User:name"."""

    def __init__(self, acls: Acls, super_users: Collection[str] = (), *, allow_if_none: bool = False) -> None:
        self._acls = acls
        self._super_users = frozenset(super_users)
        self._allow_if_none = allow_if_none
        self._kept: dict[Kind, dict[str, bool]] = {}
        self._kept_at = acls.changes
        self._room = MOST_KEPT

    @property
    def changes(self) -> int:
        return self._acls.changes

    def answers(self, peer: Peer, operation: Operation, resource: Resource) -> Mapping[str, bool]:
        if self._kept_at != self._acls.changes:
            self._forget()
        kind = peer.principal, peer.host, operation, resource
        found = self._kept.get(kind)
        if found is None:
            self._make_room()
            found = self._kept[kind] = YES if peer.principal in self._super_users else _Answers(self, kind)
        return found

    def allows_some(self, peer: Peer, operation: Operation, resource: Resource) -> bool:
        """Return whether some ALLOW ACL matches a resource name that no DENY ACL matches."""
        if self.answers(peer, operation, resource)["hardcode"]:  # an arbitrary name, the same as in Kafka
            return True
        rules = [
            acl
            for acl in self._acls
            if acl.resource is resource
            and acl.principal in (peer.principal, EVERYBODY)
            and acl.host in (peer.host, WILDCARD)
            and acl.operation in (operation, Operation.ALL)
        ]
        denied = {(acl.pattern, acl.name) for acl in rules if acl.permission is Permission.DENY}
        if (Pattern.LITERAL, WILDCARD) in denied:
            return False
        return any(acl.permission is Permission.ALLOW and not _is_within(acl, denied) for acl in rules)

    def decide(self, kind: Kind, name: str) -> bool:
        """Return whether the ACLs allow an operation on the resource of this name."""
        principal, host, operation, resource = kind
        implied = IMPLIED_BY.get(operation, frozenset({operation}))
        allowed, rules = False, 0
        for acl in self._acls.about(resource, name):
            rules += 1
            if acl.principal not in (principal, EVERYBODY) or acl.host not in (host, WILDCARD):
                continue
            if acl.permission is Permission.DENY:
                if acl.operation in (operation, Operation.ALL):
                    return False
            elif acl.operation is Operation.ALL or acl.operation in implied:
                allowed = True
        return allowed if rules else self._allow_if_none

    def keeps(self, name: str) -> bool:
        """Return whether the authorization decision for the resource `name` may be cached."""
        if len(name) > LONGEST_KEPT:
            return False
        self._make_room()
        return True

    def _make_room(self) -> None:
        if not self._room:
            self._forget()
        self._room -= 1

    def _forget(self) -> None:
        for answers in self._kept.values():
            answers.clear()
        self._kept.clear()
        self._kept_at = self._acls.changes
        self._room = MOST_KEPT


class _Answers(dict[str, bool]):
    """A cache of authorization decisions for one client and operation, by resource name."""

    def __init__(self, authorizer: AclAuthorizer, kind: Kind) -> None:
        self._authorizer = authorizer
        self._kind = kind

    def __missing__(self, name: str) -> bool:
        answer = self._authorizer.decide(self._kind, name)
        if self._authorizer.keeps(name):
            self[name] = answer
        return answer


def _is_within(acl: Acl, denied: Collection[tuple[Pattern, str]]) -> bool:
    """Return whether DENY ACLs cover every name that an ALLOW ACL matches. `denied` are their patterns and names."""
    if acl.name == WILDCARD and acl.pattern is Pattern.LITERAL:
        return False
    if acl.pattern is Pattern.LITERAL and (Pattern.LITERAL, acl.name) in denied:
        return True
    return any((Pattern.PREFIXED, acl.name[:length]) in denied for length in range(1, len(acl.name) + 1))
