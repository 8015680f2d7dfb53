"""Heartbeat (API key 12): a member of a classic group says that it lives.

Version 3 knows static members (KIP-345).
"""

from __future__ import annotations

from ottla.wire.schema import Message, i16, i32, message, since


@message(key=12, valid="0-4", flexible="4+")
class HeartbeatRequest(Message):
    """Which member of which generation."""

    group_id: str = since()
    generation_id: i32 = since()
    member_id: str = since()
    group_instance_id: str | None = since("3+", default=None)


@message(key=12, valid="0-4", flexible="4+")
class HeartbeatResponse(Message):
    """REBALANCE_IN_PROGRESS asks the member to join again."""

    throttle_time_ms: i32 = since("1+", ignorable=True)
    error_code: i16 = since()
