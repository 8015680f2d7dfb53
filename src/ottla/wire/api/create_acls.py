"""CreateAcls (API key 30): ACLs are created. Version 1 adds pattern types (KIP-290), 3 the resource type USER (KIP-373)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class CreateAclsRequest(Message, key=30, valid="0-3", flexible="2+"):
    """A request to create ACLs."""

    class AclCreation(Struct):
        resource_type: i8 = since()
        resource_name: str = since()
        resource_pattern_type: i8 = since("1+", default=3)
        principal: str = since()
        host: str = since()
        operation: i8 = since()
        permission_type: i8 = since()

    creations: list[CreateAclsRequest.AclCreation] = since()


class CreateAclsResponse(Message, key=30, valid="0-3", flexible="2+"):
    """The answer to a CreateAcls request: an error code for each ACL."""

    class AclCreationResult(Struct):
        error_code: i16 = since()
        error_message: str | None = since()

    throttle_time_ms: i32 = since()
    results: list[CreateAclsResponse.AclCreationResult] = since()
