"""SyncGroup (API key 14): a classic group's assignment goes from the leader to its members.

Version 3 adds static members (KIP-345), 5 names protocol type and name (KIP-559).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, since


class SyncGroupRequest(Message, key=14, valid="0-5", flexible="4+"):
    """A classic group member's request for its assignment. The group's leader sends the assignments of all members."""

    class SyncGroupRequestAssignment(Struct):
        member_id: str = since()
        assignment: bytes = since()

    group_id: str = since()
    generation_id: i32 = since()
    member_id: str = since()
    group_instance_id: str | None = since("3+", default=None)
    protocol_type: str | None = since("5+", default=None, ignorable=True)
    protocol_name: str | None = since("5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = since()


class SyncGroupResponse(Message, key=14, valid="0-5", flexible="4+"):
    """The answer to a SyncGroup request: the member's own assignment, as bytes."""

    throttle_time_ms: i32 = since("1+", ignorable=True)
    error_code: i16 = since()
    protocol_type: str | None = since("5+", default=None, ignorable=True)
    protocol_name: str | None = since("5+", default=None, ignorable=True)
    assignment: bytes = since()
