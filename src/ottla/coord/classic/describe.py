"""The description of a classic group in DescribeGroups. It only reads the group."""

from __future__ import annotations

from ottla.coord.classic.group import ClassicGroup
from ottla.coord.classic.states import State
from ottla.wire.api.describe_groups import DescribeGroupsResponse
from ottla.wire.errors import GROUP_ID_NOT_FOUND

NOT_FOUND_FROM = 6

Described = DescribeGroupsResponse.DescribedGroup


def described(group: ClassicGroup) -> Described:
    """Return a group's description. It contains the members' metadata only while the group is stable."""
    is_stable = group.state is State.STABLE
    members = [
        DescribeGroupsResponse.DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol) if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return Described(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=members,
    )


def not_found(group_id: str, version: int, *, exists: bool = False) -> Described:
    """Return the state Dead for a missing group, or for one that `exists` with another protocol. KIP-1043 added an error."""
    if version < NOT_FOUND_FROM:
        return Described(group_id=group_id, group_state=State.DEAD.value)
    message = f"Group {group_id} is not a classic group." if exists else f"Group {group_id} not found."
    return Described(group_id=group_id, group_state=State.DEAD.value, error_code=GROUP_ID_NOT_FOUND, error_message=message)
