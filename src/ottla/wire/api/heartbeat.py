"""Heartbeat (API key 12): a member of a classic group keeps its session alive.

Version 3 adds static members (KIP-345).
"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, since


class HeartbeatRequest(Message, key=12, valid="0-4", flexible="4+"):
    """The group, its generation and the member."""

    group_id: str = since()
    generation_id: i32 = since()
    member_id: str = since()
    group_instance_id: str | None = since("3+", default=None)


class HeartbeatResponse(Message, key=12, valid="0-4", flexible="4+"):
    """The error; after REBALANCE_IN_PROGRESS the member joins again."""

    throttle_time_ms: i32 = since("1+", ignorable=True)
    error_code: i16 = since()
