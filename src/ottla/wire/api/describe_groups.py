"""DescribeGroups (API key 15): state and members of classic groups.

Version 3 adds permitted operations (KIP-430), 4 static members (KIP-345), 6 returns GROUP_ID_NOT_FOUND (KIP-1043).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, since


class DescribeGroupsRequest(Message, key=15, valid="0-6", flexible="5+"):
    """A request for descriptions of classic groups, by group id."""

    groups: list[str] = since()
    include_authorized_operations: bool = since("3+")


class DescribeGroupsResponse(Message, key=15, valid="0-6", flexible="5+"):
    """The described classic groups: state, protocol, and members with their metadata as bytes."""

    class DescribedGroupMember(Struct):
        member_id: str = since()
        group_instance_id: str | None = since("4+", default=None, ignorable=True)
        client_id: str = since()
        client_host: str = since()
        member_metadata: bytes = since()
        member_assignment: bytes = since()

    class DescribedGroup(Struct):
        error_code: i16 = since()
        error_message: str | None = since("6+", default=None)
        group_id: str = since()
        group_state: str = since()
        protocol_type: str = since()
        protocol_data: str = since()
        members: list[DescribeGroupsResponse.DescribedGroupMember] = since()
        authorized_operations: i32 = since("3+", default=-(1 << 31))

    throttle_time_ms: i32 = since("1+", ignorable=True)
    groups: list[DescribeGroupsResponse.DescribedGroup] = since()
