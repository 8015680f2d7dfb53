"""Checks of classic group members that several requests share. They return error codes."""

from __future__ import annotations

from ottla.coord.classic.group import ClassicGroup
from ottla.wire.errors import FENCED_INSTANCE_ID, ILLEGAL_GENERATION, NONE, UNKNOWN_MEMBER_ID


def member_error(group: ClassicGroup, member_id: str, group_instance_id: str | None) -> int:
    """Return why this is no member. A static member is fenced if another joined with its instance id since (KIP-345)."""
    if group_instance_id is not None:
        holder = group.static.get(group_instance_id)
        if holder is None:
            return UNKNOWN_MEMBER_ID
        if holder != member_id:
            return FENCED_INSTANCE_ID
    return NONE if member_id in group.members else UNKNOWN_MEMBER_ID


def generation_error(group: ClassicGroup, member_id: str, group_instance_id: str | None, generation: int) -> int:
    """Return the error of `member_error`, or ILLEGAL_GENERATION if the generation is not the current one."""
    error_code = member_error(group, member_id, group_instance_id)
    if error_code == NONE and generation != group.generation:
        return ILLEGAL_GENERATION
    return error_code
