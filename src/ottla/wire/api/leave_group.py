"""LeaveGroup (API key 13): members leave a classic group at once.

Version 3 removes several members, and static members (KIP-345), 5 adds a reason (KIP-800).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, since


class LeaveGroupRequest(Message, key=13, valid="0-5", flexible="4+"):
    """A request to remove members from a classic group: one member before version 3, otherwise a list."""

    class MemberIdentity(Struct):
        member_id: str = since("3+")
        group_instance_id: str | None = since("3+", default=None)
        reason: str | None = since("5+", default=None, ignorable=True)

    group_id: str = since()
    member_id: str = since("0-2")
    members: list[LeaveGroupRequest.MemberIdentity] = since("3+")


class LeaveGroupResponse(Message, key=13, valid="0-5", flexible="4+"):
    """The answer to a LeaveGroup request: an error code for each member."""

    class MemberResponse(Struct):
        member_id: str = since("3+")
        group_instance_id: str | None = since("3+")
        error_code: i16 = since("3+")

    throttle_time_ms: i32 = since("1+", ignorable=True)
    error_code: i16 = since()
    members: list[LeaveGroupResponse.MemberResponse] = since("3+")
