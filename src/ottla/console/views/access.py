"""Who may do what and how much of it: SCRAM users, ACLs and quotas."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.admin.acls import OPERATIONS, PATTERNS, PERMISSIONS, RESOURCES, AclRule
from ottla.client.admin.quotas import QuotaOf
from ottla.client.admin.users import DEFAULT_ITERATIONS, DEFAULT_MECHANISM
from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import Done, PageRefused, Part
from ottla.console.views.topics import CHANGE_S, check_typed

QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate")


@dataclass(frozen=True, slots=True)
class ScramUser:
    """A user with the SCRAM mechanisms of its credentials, and their iterations."""

    name: str
    mechanisms: dict[str, int]


@dataclass(frozen=True, slots=True)
class UserList:
    """All SCRAM users."""

    users: Part[list[ScramUser]]


@dataclass(frozen=True, slots=True)
class AclRow:
    """An ACL, in the words of Kafka's tools."""

    principal: str
    permission: str
    operation: str
    resource: str
    name: str
    pattern: str
    host: str


@dataclass(frozen=True, slots=True)
class AclList:
    """The ACLs whose principal or resource contains a text, and the words that an ACL is made of."""

    acls: Part[list[AclRow]]
    q: str
    total: int
    resources: list[str]
    patterns: list[str]
    operations: list[str]
    permissions: list[str]


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """The quotas of a user, a client id, both together, or an address. An empty name is the default entity, None is any."""

    user: str | None
    client_id: str | None
    ip: str | None
    quotas: dict[str, float]


@dataclass(frozen=True, slots=True)
class QuotaList:
    """All quotas, and the names of quotas."""

    entries: Part[list[QuotaRow]]
    names: list[str]


async def users(cluster: ClusterSession) -> UserList:
    """Return the users with SCRAM credentials."""
    found = await cluster.part("users", lambda admin: admin.list_users(check=False))
    rows = None if found.value is None else [ScramUser(name, dict(some)) for name, some in found.value.items()]
    return UserList(Part(rows, found.trouble, found.as_of_ms))


async def set_user(
    cluster: ClusterSession, name: str, password: str, mechanism: str = DEFAULT_MECHANISM, iterations: int = DEFAULT_ITERATIONS
) -> Done:
    """Add a SCRAM user, or change its password. The broker gets a salted hash."""
    call = lambda admin: admin.set_user_password(name, password, mechanism=mechanism, iterations=iterations)  # noqa: E731 # a lambda as everywhere in the views
    await cluster.query(call, CHANGE_S)
    return Done(f"The password of {name} for {mechanism} was set.")


async def remove_user(cluster: ClusterSession, name: str, mechanism: str = DEFAULT_MECHANISM, typed: str = "") -> Done:
    """Remove a user's credential for a mechanism. `typed` is the name again, as a confirmation."""
    check_typed(name, typed)
    await cluster.query(lambda admin: admin.remove_user(name, mechanism=mechanism), CHANGE_S)
    return Done(f"{name} has no password for {mechanism} any more.")


async def acls(cluster: ClusterSession, q: str = "") -> AclList:
    """Return the ACLs whose principal or resource contains a text."""
    found = await cluster.part("acls", lambda admin: admin.list_acls())
    rows, wanted = None, q.strip().casefold()
    if found.value is not None:
        rows = [
            AclRow(each.principal, each.permission, each.operation, each.resource, each.name, each.pattern, each.host)
            for each in found.value
            if wanted in each.principal.casefold() or wanted in each.name.casefold()
        ]
    part = Part(rows, found.trouble, found.as_of_ms)
    words = list(RESOURCES), list(PATTERNS), list(OPERATIONS), list(PERMISSIONS)
    return AclList(part, q, len(found.value or ()), *words)


async def add_acl(
    cluster: ClusterSession,
    principal: str,
    operation: str,
    resource: str,
    name: str,
    pattern: str = "literal",
    host: str = "*",
    permission: str = "allow",
) -> Done:
    """Add an ACL. `principal` is User:NAME. `name` is the name of the resource, or `*` for all."""
    rule = AclRule(principal.strip(), operation, resource, name, pattern, host, permission)
    await cluster.query(lambda admin: admin.create_acls([rule]), CHANGE_S)
    return Done(f"The ACL of {rule.principal} for {resource} {name} was added.")


async def remove_acl(
    cluster: ClusterSession, principal: str, operation: str, resource: str, name: str, pattern: str, host: str, permission: str
) -> Done:
    """Remove exactly one ACL."""
    rule = AclRule(principal, operation, resource, name, pattern, host, permission)
    removed = await cluster.query(lambda admin: admin.delete_acls([rule]), CHANGE_S)
    if not removed:
        raise PageRefused(404, "There is no such ACL: it was perhaps removed by somebody else.")
    return Done(f"The ACL of {principal} for {resource} {name} was removed.")


async def quotas(cluster: ClusterSession) -> QuotaList:
    """Return the quotas of users, client ids and addresses."""
    found = await cluster.part("quotas", lambda admin: admin.describe_quotas())
    rows = None
    if found.value is not None:
        rows = [QuotaRow(each.entity.user, each.entity.client_id, each.entity.ip, dict(each.quotas)) for each in found.value]
    return QuotaList(Part(rows, found.trouble, found.as_of_ms), list(QUOTAS))


async def set_quota(
    cluster: ClusterSession,
    quota: str,
    value: float | None = None,
    user: str | None = None,
    client_id: str | None = None,
    ip: str | None = None,
    remove: bool = False,
) -> Done:
    """Set or remove a quota of a user, a client id, both together, or an address. The name `<default>` is the default entity."""
    entity = QuotaOf(*(_entity(name) for name in (user, client_id, ip)))
    if entity == QuotaOf():
        raise PageRefused(400, "Name a user, a client id or an address; <default> means those without a quota of their own.")
    if value is None and not remove:
        raise PageRefused(400, "The value is missing: give a number.")
    changes: dict[str, float | None] = {quota: None if remove else value}
    await cluster.query(lambda admin: admin.alter_quotas_of({entity: changes}), CHANGE_S)
    return Done(f"{quota} of {entity} was {'removed' if remove else 'set'}.")


def _entity(name: str | None) -> str | None:
    return None if name is None or not name.strip() else "" if name.strip() == "<default>" else name
