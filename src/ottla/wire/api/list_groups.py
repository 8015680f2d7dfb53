"""ListGroups (API key 16): …"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, message, since, struct


@message(key=16, valid="0-5", flexible="3+")
class ListGroupsRequest(Message):
    """Request."""

    states_filter: list[str] = since("4+")
    types_filter: list[str] = since("5+")


@message(key=16, valid="0-5", flexible="3+")
class ListGroupsResponse(Message):
    """Response."""

    @struct
    class ListedGroup(Struct):
        group_id: str = since()
        protocol_type: str = since()
        group_state: str = since("4+", ignorable=True)
        group_type: str = since("5+", ignorable=True)

    throttle_time_ms: i32 = since("1+", ignorable=True)
    error_code: i16 = since()
    groups: list[ListGroupsResponse.ListedGroup] = since()
