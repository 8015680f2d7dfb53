"""CreateAcls, DescribeAcls and DeleteAcls: the ACLs in the registry (KIP-11, KIP-140, KIP-290).

Served if the broker has an authorizer that stores ACLs; else SECURITY_DISABLED. Changes are in force when the reply is sent.
Version 0 has literal names only; version 1 added prefixes and the pattern type MATCH of filters.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import partial
from typing import NamedTuple, TypeVar

from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need
from ottla.broker.serving.parts import Budget, Parts, ResponseWriter, by_weight
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.topics.commits import Commits
from ottla.cluster import acls
from ottla.cluster.acls import ANY, Acl, AclFilter, Acls, Key, Operation, Pattern, Permission, Resource
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.ports import Steps
from ottla.wire.api.create_acls import CreateAclsRequest, CreateAclsResponse
from ottla.wire.api.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.wire.errors import INVALID_REQUEST, NONE, SECURITY_DISABLED, UNKNOWN_SERVER_ERROR

RESULTS = ("filter_results", "matching_acls")
RULES_AT_ONCE = 200
"""ACLs evaluated, deleted or described between two pauses."""

PATTERNS_FROM = 1
"""The first version with pattern types. In earlier versions, all names are literal."""
UNKNOWN_NUMBER = "A number is not a resource type, pattern type, operation or permission of this broker: use an older client."
ONLY_A_FILTER = (
    "An ACL has one resource type, LITERAL or PREFIXED pattern, operation and permission: use ANY and MATCH in filters only."
)
NO_AUTHORIZER = "No Authorizer is configured on the broker: start it with authorizer.class.name."

Number = TypeVar("Number", bound=IntEnum)
Creation = CreateAclsRequest.AclCreation
Created = CreateAclsResponse.AclCreationResult
Filter = DeleteAclsRequest.DeleteAclsFilter
Deleted = DeleteAclsResponse.DeleteAclsFilterResult
Matching = DeleteAclsResponse.DeleteAclsMatchingAcl
Described = DescribeAclsResponse.DescribeAclsResource
Entry = DescribeAclsResponse.AclDescription


class AclContext(NamedTuple):
    """The ACLs, and the commits that change them."""

    cluster: ClusterImage
    commits: Commits
    rights: Rights


@serves(DescribeAclsRequest, Need(Operation.DESCRIBE, Resource.CLUSTER))
def describe_acls(request: Request[DescribeAclsRequest], context: AclContext) -> Steps[Reply]:
    """Describe the ACLs that match a filter, grouped by resource."""
    if not context.rights.has_rules:
        return DescribeAclsResponse(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    wanted = _filter(request.body, request.version)
    if wanted is None:
        return DescribeAclsResponse(error_message=None)  # no ACL has an unknown number
    writer = ResponseWriter(request, ("resources", "acls"), DescribeAclsResponse(error_message=None))
    for key, rules in list(context.cluster.acls.rules.items()):
        fitting = [_entry(acl) for acl in rules if wanted.fits(acl)]
        yield from writer.put(_piece(key, fitting[at : at + RULES_AT_ONCE]) for at in range(0, len(fitting), RULES_AT_ONCE))
        yield None
    return writer.reply()


def _piece(key: Key, acls: list[Entry]) -> DescribeAclsResponse:
    resource, pattern, name = key
    described = Described(resource_type=resource, resource_name=name, pattern_type=pattern, acls=acls)
    return DescribeAclsResponse(error_message=None, resources=[described])


def _entry(acl: Acl) -> Entry:
    return Entry(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission)


@serves(
    CreateAclsRequest,
    Need(Operation.ALTER, Resource.CLUSTER),
    to_the_end=True,
    parts=Parts(((("creations",), ("results",)),), things=100),
)
def create_acls(request: Request[CreateAclsRequest], context: AclContext) -> Steps[Reply]:
    """Create ACLs, each with its own result; they are effective when the response is sent.

    If an ACL is valid only in a filter, or has an unknown number, no ACL is created and all results have the error, as in Kafka.
    """
    creations = request.body.creations
    if not context.rights.has_rules:
        return CreateAclsResponse(results=[Created(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER) for _ in creations])
    wanted = [_acl(creation, request.version) for creation in creations]
    known = [acl for acl in wanted if isinstance(acl, Acl)]
    if len(known) < len(wanted):
        error_code, sentence = next(why for why in wanted if not isinstance(why, Acl))
        return CreateAclsResponse(results=[Created(error_code=error_code, error_message=sentence) for _ in creations])
    decisions = yield from context.commits.commit_slowly(lambda: acls.create(context.cluster.acls, known))
    return CreateAclsResponse(results=[Created(error_code=each.error_code, error_message=each.message) for each in decisions])


@serves(
    DeleteAclsRequest,
    Need(Operation.ALTER, Resource.CLUSTER),
    to_the_end=True,
    parts=Parts(((("filters",), RESULTS),), things=5, whole_bytes=256, together=True),
)
def delete_acls(request: Request[DeleteAclsRequest], context: AclContext) -> Steps[Reply]:
    """Delete the ACLs that match the filters, and return the deleted ACLs of each filter."""
    writer = ResponseWriter(request, RESULTS, DeleteAclsResponse())
    for part in writer.admit(request):
        for acls_of_one, result in (yield from _deleted_by(part, context)):
            yield from writer.put(_result(result, acls_of_one))
    return writer.reply()


def _result(error: Deleted, found: list[Acl]) -> Iterator[DeleteAclsResponse]:
    """Yield the result of one filter: its error, or its deleted ACLs in several responses."""
    for at in range(0, max(1, len(found)), RULES_AT_ONCE):
        some = [_describe(acl) for acl in found[at : at + RULES_AT_ONCE]]
        one = Deleted(error_code=error.error_code, error_message=error.error_message, matching_acls=some)
        yield DeleteAclsResponse(filter_results=[one])


def _deleted_by(part: Request[DeleteAclsRequest], context: AclContext) -> Steps[list[tuple[list[Acl], Deleted]]]:
    """Delete the ACLs that match some filters, in one commit for some resources at a time."""
    filters = part.body.filters
    if not context.rights.has_rules:
        return [([], Deleted(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER)) for _ in filters]
    wanted = [each for each in (_filter(each, part.version) for each in filters) if each is not None]
    if len(wanted) < len(filters):
        return [([], Deleted(error_code=INVALID_REQUEST, error_message=UNKNOWN_NUMBER)) for _ in filters]
    present, found = context.cluster.acls, [list[Acl]() for _ in wanted]
    for keys in by_weight(list(present.rules), lambda key: len(present.rules.get(key, ())), RULES_AT_ONCE):
        if not (yield from _fit_any(wanted, present, keys)):
            continue
        fitting: list[list[Acl]] = []
        (decision,) = yield from context.commits.commit_slowly(partial(_decide, present, wanted, keys, fitting))
        if decision.error_code:
            return [([], Deleted(error_code=decision.error_code, error_message=decision.message)) for _ in filters]
        for before, now in zip(found, fitting, strict=True):
            before += now
    return [(each, Deleted(error_message=None)) for each in found]


def _fit_any(wanted: list[AclFilter], present: Acls, keys: list[Key]) -> Steps[bool]:
    """Return whether any filter in `wanted` matches an ACL on the resources `keys`."""
    budget = Budget(RULES_AT_ONCE)
    for key in keys:
        for acl in present.rules.get(key, ()):
            if any(each.fits(acl) for each in wanted):
                return True
            yield from budget.spend()
    yield None
    return False


def _decide(present: Acls, filters: list[AclFilter], keys: list[Key], fitting: list[list[Acl]]) -> list[Decision]:
    """Decide the deletion of ACLs on the resources `keys`, and set `fitting` to the ACLs that match each filter."""
    fitting[:], decision = acls.delete(present, filters, keys)
    return [decision]


def _describe(acl: Acl) -> Matching:
    return Matching(
        error_code=NONE,
        error_message=None,
        resource_type=acl.resource,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _acl(creation: Creation, version: int) -> Acl | tuple[int, str]:
    """Return the requested ACL, or (error code, message) if a value is unknown or valid only in filters."""
    pattern_type = creation.resource_pattern_type if version >= PATTERNS_FROM else Pattern.LITERAL
    numbers = creation.resource_type, pattern_type, creation.operation, creation.permission_type
    if ANY in numbers or pattern_type == Pattern.MATCH:
        return UNKNOWN_SERVER_ERROR, ONLY_A_FILTER
    resource, pattern = _member(Resource, creation.resource_type), _member(Pattern, pattern_type)
    operation, permission = _member(Operation, creation.operation), _member(Permission, creation.permission_type)
    if resource is None or pattern is None or operation is None or permission is None:
        return INVALID_REQUEST, UNKNOWN_NUMBER
    return Acl(resource, pattern, creation.resource_name, creation.principal, creation.host, operation, permission)


def _filter(given: DescribeAclsRequest | Filter, version: int) -> AclFilter | None:
    """Return the requested filter; None if a number is unknown."""
    pattern = given.pattern_type_filter if version >= PATTERNS_FROM else Pattern.LITERAL
    kinds = (given.resource_type_filter, Resource), (pattern, Pattern), (given.operation, Operation)
    for number, kind in (*kinds, (given.permission_type, Permission)):
        if number != ANY and _member(kind, number) is None:
            return None
    return AclFilter(
        given.resource_type_filter,
        pattern,
        given.resource_name_filter,
        given.principal_filter,
        given.host_filter,
        given.operation,
        given.permission_type,
    )


def _member(kind: type[Number], number: int) -> Number | None:
    return kind(number) if number in kind._value2member_map_ else None
