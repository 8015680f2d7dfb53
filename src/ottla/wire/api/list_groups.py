"""ListGroups (API key 16): the groups that a broker coordinates.

Version 4 filters by state (KIP-518), 5 by type (KIP-848).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, message, since, struct


@message(key=16, valid="0-5", flexible="3+")
class ListGroupsRequest(Message):
    """Filters by state and type; empty means all."""

    states_filter: list[str] = since("4+")
    types_filter: list[str] = since("5+")


@message(key=16, valid="0-5", flexible="3+")
class ListGroupsResponse(Message):
    """Id, protocol type, state and type of each group."""

    @struct
    class ListedGroup(Struct):
        group_id: str = since()
        protocol_type: str = since()
        group_state: str = since("4+", ignorable=True)
        group_type: str = since("5+", ignorable=True)

    throttle_time_ms: i32 = since("1+", ignorable=True)
    error_code: i16 = since()
    groups: list[ListGroupsResponse.ListedGroup] = since()
