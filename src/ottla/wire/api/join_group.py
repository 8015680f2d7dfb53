"""JoinGroup (API key 11): a member joins a classic group, which rebalances.

Version 1 adds the rebalance timeout (KIP-62), 4 requires a member id (KIP-394), 5 adds static members (KIP-345), 7 returns the
protocol type (KIP-559), 8 adds a reason (KIP-800). In 9 the response can make the leader skip the assignment (KIP-814).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, since


class JoinGroupRequest(Message, key=11, valid="0-9", flexible="6+"):
    """A request to join a classic group, with the member's protocols, best first, each with its subscription as bytes."""

    class JoinGroupRequestProtocol(Struct):
        name: str = since()
        metadata: bytes = since()

    group_id: str = since()
    session_timeout_ms: i32 = since()
    rebalance_timeout_ms: i32 = since("1+", default=-1, ignorable=True)
    member_id: str = since()
    group_instance_id: str | None = since("5+", default=None)
    protocol_type: str = since()
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = since()
    reason: str | None = since("8+", default=None, ignorable=True)


class JoinGroupResponse(Message, key=11, valid="0-9", flexible="6+"):
    """The answer to a JoinGroup request: the generation, the chosen protocol, and for the leader also all members."""

    class JoinGroupResponseMember(Struct):
        member_id: str = since()
        group_instance_id: str | None = since("5+", default=None, ignorable=True)
        metadata: bytes = since()

    throttle_time_ms: i32 = since("2+", ignorable=True)
    error_code: i16 = since()
    generation_id: i32 = since(default=-1)
    protocol_type: str | None = since("7+", default=None, ignorable=True)
    protocol_name: str | None = since(null="7+")
    leader: str = since()
    skip_assignment: bool = since("9+")
    member_id: str = since()
    members: list[JoinGroupResponse.JoinGroupResponseMember] = since()
