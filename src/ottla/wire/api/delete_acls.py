"""DeleteAcls (API key 31): ACLs that match filters are deleted.

Version 1 adds pattern types (KIP-290), 3 the resource type USER (KIP-373).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class DeleteAclsRequest(Message, key=31, valid="0-3", flexible="2+"):
    """A request to delete all ACLs that match any of the filters."""

    class DeleteAclsFilter(Struct):
        resource_type_filter: i8 = since()
        resource_name_filter: str | None = since()
        pattern_type_filter: i8 = since("1+", default=3)
        principal_filter: str | None = since()
        host_filter: str | None = since()
        operation: i8 = since()
        permission_type: i8 = since()

    filters: list[DeleteAclsRequest.DeleteAclsFilter] = since()


class DeleteAclsResponse(Message, key=31, valid="0-3", flexible="2+"):
    """The answer to a DeleteAcls request: the deleted ACLs, by filter."""

    class DeleteAclsMatchingAcl(Struct):
        error_code: i16 = since()
        error_message: str | None = since()
        resource_type: i8 = since()
        resource_name: str = since()
        pattern_type: i8 = since("1+", default=3)
        principal: str = since()
        host: str = since()
        operation: i8 = since()
        permission_type: i8 = since()

    class DeleteAclsFilterResult(Struct):
        error_code: i16 = since()
        error_message: str | None = since()
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = since()

    throttle_time_ms: i32 = since()
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = since()
