"""DescribeAcls (API key 29): ACLs that match a filter.

Version 1 adds pattern types (KIP-290), 3 the resource type USER (KIP-373).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class DescribeAclsRequest(Message, key=29, valid="0-3", flexible="2+"):
    """A request for all ACLs that match a filter."""

    resource_type_filter: i8 = since()
    resource_name_filter: str | None = since()
    pattern_type_filter: i8 = since("1+", default=3)
    principal_filter: str | None = since()
    host_filter: str | None = since()
    operation: i8 = since()
    permission_type: i8 = since()


class DescribeAclsResponse(Message, key=29, valid="0-3", flexible="2+"):
    """The matching ACLs, by resource."""

    class AclDescription(Struct):
        principal: str = since()
        host: str = since()
        operation: i8 = since()
        permission_type: i8 = since()

    class DescribeAclsResource(Struct):
        resource_type: i8 = since()
        resource_name: str = since()
        pattern_type: i8 = since("1+", default=3)
        acls: list[DescribeAclsResponse.AclDescription] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since()
    resources: list[DescribeAclsResponse.DescribeAclsResource] = since()
