"""Heartbeat (API key 12): a member of a classic group keeps its session alive.

Version 3 adds static members (KIP-345).
"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, since


class HeartbeatRequest(Message, key=12, valid="0-4", flexible="4+"):
    """A classic group member's heartbeat to its coordinator: the group, the generation and the member id."""

    group_id: str = since()
    generation_id: i32 = since()
    member_id: str = since()
    group_instance_id: str | None = since("3+", default=None)


class HeartbeatResponse(Message, key=12, valid="0-4", flexible="4+"):
    """The coordinator's answer to a heartbeat. After the error REBALANCE_IN_PROGRESS, the member joins the group again."""

    throttle_time_ms: i32 = since("1+", ignorable=True)
    error_code: i16 = since()
