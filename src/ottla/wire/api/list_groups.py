"""ListGroups (API key 16): the groups that a broker coordinates. Version 4 filters by state (KIP-518), 5 by type (KIP-848)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, since


class ListGroupsRequest(Message, key=16, valid="0-5", flexible="3+"):
    """A request for the groups of a coordinator, filtered by state and type; an empty filter means all groups."""

    states_filter: list[str] = since("4+")
    types_filter: list[str] = since("5+")


class ListGroupsResponse(Message, key=16, valid="0-5", flexible="3+"):
    """The groups of the coordinator, each with id, protocol type, state and type."""

    class ListedGroup(Struct):
        group_id: str = since()
        protocol_type: str = since()
        group_state: str = since("4+", ignorable=True)
        group_type: str = since("5+", ignorable=True)

    throttle_time_ms: i32 = since("1+", ignorable=True)
    error_code: i16 = since()
    groups: list[ListGroupsResponse.ListedGroup] = since()
