"""CreateAcls, DescribeAcls and DeleteAcls: the rules of access that the registry keeps (KIP-11, KIP-140, KIP-290)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeVar

from ottla.broker.scheduler import Steps
from ottla.broker.security.rights import Rights
from ottla.broker.serving.authorization import Need
from ottla.broker.serving.later import LaterReplies, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.serving.slices import Slices
from ottla.broker.topics.commits import Commits
from ottla.cluster import acls
from ottla.cluster.acls import ANY, Acl, AclFilter, Operation, Pattern, Permission, Resource
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.wire.api.create_acls import CreateAclsRequest, CreateAclsResponse
from ottla.wire.api.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.wire.errors import INVALID_REQUEST, NONE, SECURITY_DISABLED, UNKNOWN_SERVER_ERROR

PATTERNS_FROM = 1
"""Before, all names were literal."""
UNKNOWN_NUMBER = "A number is no resource type, pattern, operation or permission of Kafka's: a newer client may know it."
ONLY_A_FILTER = (
    "A rule is about one resource type, literal name or prefix, operation and permission: ANY and MATCH are for filters alone."
)
NO_AUTHORIZER = "No Authorizer is configured on the broker: start it with authorizer.class.name, and rules of access count."

Number = TypeVar("Number", bound=IntEnum)
Creation = CreateAclsRequest.AclCreation
Created = CreateAclsResponse.AclCreationResult
Filter = DeleteAclsRequest.DeleteAclsFilter
Deleted = DeleteAclsResponse.DeleteAclsFilterResult
Matching = DeleteAclsResponse.DeleteAclsMatchingAcl
Described = DescribeAclsResponse.DescribeAclsResource
Entry = DescribeAclsResponse.AclDescription


class AclRooms(NamedTuple):
    """Where the rules are, and what changes them."""

    cluster: ClusterImage
    commits: Commits
    rights: Rights
    later: LaterReplies


@serves(DescribeAclsRequest, Need(Operation.DESCRIBE, Resource.CLUSTER))
def describe_acls(request: Request[DescribeAclsRequest], rooms: AclRooms) -> Reply:
    """The rules that fit a filter, by what they are about."""
    if not rooms.rights.has_rules:
        return DescribeAclsResponse(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    wanted = _filter(request.body, request.version)
    if wanted is None:
        return DescribeAclsResponse(error_message=None)  # no rule has such a number
    return rooms.later.computed(_described(wanted, rooms))


def _described(wanted: AclFilter, rooms: AclRooms) -> Steps[Reply]:
    response = DescribeAclsResponse(error_message=None)
    for (resource, pattern, name), rules in list(rooms.cluster.acls.rules.items()):
        fitting = [_entry(acl) for acl in rules if wanted.fits(acl)]
        if fitting:
            response.resources.append(Described(resource_type=resource, resource_name=name, pattern_type=pattern, acls=fitting))
        yield None
    return response


def _entry(acl: Acl) -> Entry:
    return Entry(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission)


@serves(
    CreateAclsRequest,
    Need(Operation.ALTER, Resource.CLUSTER),
    slices=Slices(((("creations",), ("results",)),), things=100),
)
def create_acls(request: Request[CreateAclsRequest], rooms: AclRooms) -> Reply:
    """Make rules, each with its own result; they are in force when the reply leaves.

    Where one of them is only a filter or has an unknown number, none is made, and all results say so, as in Kafka.
    """
    creations = request.body.creations
    if not rooms.rights.has_rules:
        return CreateAclsResponse(results=[Created(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER) for _ in creations])
    wanted = [_acl(creation, request.version) for creation in creations]
    known = [acl for acl in wanted if isinstance(acl, Acl)]
    if len(known) < len(wanted):
        error_code, sentence = next(why for why in wanted if not isinstance(why, Acl))
        return CreateAclsResponse(results=[Created(error_code=error_code, error_message=sentence) for _ in creations])
    return rooms.later.computed(_created(known, rooms), to_the_end=True)


def _created(wanted: list[Acl], rooms: AclRooms) -> Steps[Reply]:
    decisions = yield from rooms.commits.commit_slowly(lambda: acls.create(rooms.cluster.acls, wanted))
    return CreateAclsResponse(results=[Created(error_code=each.error_code, error_message=each.message) for each in decisions])


@serves(
    DeleteAclsRequest,
    Need(Operation.ALTER, Resource.CLUSTER),
    slices=Slices(((("filters",), ("filter_results",)),), things=20),
)
def delete_acls(request: Request[DeleteAclsRequest], rooms: AclRooms) -> Reply:
    """Delete the rules that filters fit, and say for each filter which these were."""
    filters = request.body.filters
    if not rooms.rights.has_rules:
        refused = [Deleted(error_code=SECURITY_DISABLED, error_message=NO_AUTHORIZER) for _ in filters]
        return DeleteAclsResponse(filter_results=refused)
    wanted = [_filter(each, request.version) for each in filters]
    known = [each for each in wanted if each is not None]
    if len(known) < len(wanted):
        return DeleteAclsResponse(
            filter_results=[Deleted(error_code=INVALID_REQUEST, error_message=UNKNOWN_NUMBER) for _ in filters]
        )
    return rooms.later.computed(_deleted(known, rooms), to_the_end=True)


def _deleted(filters: list[AclFilter], rooms: AclRooms) -> Steps[Reply]:
    fitting: list[list[Acl]] = []

    def decide() -> list[Decision]:
        fitting[:], decision = acls.delete(rooms.cluster.acls, filters)
        return [decision]

    (decision,) = yield from rooms.commits.commit_slowly(decide)
    if decision.error_code:
        refused = [Deleted(error_code=decision.error_code, error_message=decision.message) for _ in filters]
        return DeleteAclsResponse(filter_results=refused)
    results = [Deleted(error_message=None, matching_acls=[_matching(acl) for acl in found]) for found in fitting]
    return DeleteAclsResponse(filter_results=results)


def _matching(acl: Acl) -> Matching:
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
    """The rule that is wanted, or why there is none: Kafka answers what only filters may have as a failure of its own."""
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
    """The rules that are wanted; None where a number means nothing."""
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
