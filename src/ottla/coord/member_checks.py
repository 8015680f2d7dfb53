"""Checks of heartbeats that consumer, share and streams groups share: texts, member ids, epochs, instance ids, and memory.

Each returns a `Refusal`, or None if nothing is wrong. They are the same for each kind of group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ottla.coord.group_draft import GroupDraft
from ottla.wire.errors import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
)

JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH = 0, -1, -2
"""The special values of a member's epoch. `STATIC_LEAVING_EPOCH` is stored for a static member that is temporarily absent."""

_BLANKS = "".join(map(chr, range(33)))


class Refusal(NamedTuple):
    """The refusal of a request, after which the draft must be discarded. `message` is one sentence for the client."""

    error_code: int
    message: str


class StaticMember(Protocol):
    """A member with an epoch, and with an instance id if it is static."""

    @property
    def member_id(self) -> str: ...

    @property
    def instance_id(self) -> str | None: ...

    @property
    def epoch(self) -> int: ...


def invalid(message: str) -> Refusal:
    return Refusal(INVALID_REQUEST, message)


def blank_error(**texts: str | None) -> Refusal | None:
    """Refuse a request with an empty or blank text, unless it is None. The keywords are the names of its fields."""
    name = next((name for name, text in texts.items() if text is not None and not text.strip(_BLANKS)), None)
    return None if name is None else invalid(f"{name} can't be empty: set it, or use null where that is allowed.")


def static_leave_error(epoch: int, instance_id: str | None) -> Refusal | None:
    if epoch == STATIC_LEAVING_EPOCH and instance_id is None:
        return invalid("InstanceId can't be null: only a static member leaves with MemberEpoch -2.")
    return None


def unknown_member(group_id: str, member_id: str) -> Refusal:
    return Refusal(UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}: join first.")


def wrong_epoch(kind: str, epoch: int, known: int, remedy: str) -> Refusal:
    """Return the refusal of a member of this `kind` of groups with a wrong epoch. The `remedy` is what the member does next."""
    comparison = "greater" if epoch > known else "smaller"
    subject = f"The {kind} group member has a {comparison} member epoch ({epoch})"
    return Refusal(FENCED_MEMBER_EPOCH, f"{subject} than the one known by the group coordinator ({known}): {remedy} and rejoin.")


def static_error(static: Mapping[str, str], member_id: str, instance_id: str) -> Refusal | None:
    """Return a refusal unless the static member with this instance id has this member id. `static`: member ids by instance id."""
    holder = static.get(instance_id)
    if holder is None:
        return Refusal(UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown: join first.")
    if holder != member_id:
        sentence = f"Static member {member_id} with instance id {instance_id} was fenced by member {holder}, which is newer."
        return Refusal(FENCED_INSTANCE_ID, sentence)
    return None


def release_error(holder: StaticMember, member_id: str) -> Refusal | None:
    """Return a refusal unless the static member has left temporarily (-2), and can be replaced."""
    if holder.epoch == STATIC_LEAVING_EPOCH:
        return None
    reason = f"because the instance id is owned by {holder.member_id} member, which has not left."
    sentence = f"Static member {member_id} with instance id {holder.instance_id} cannot join the group {reason}"
    return Refusal(UNRELEASED_INSTANCE_ID, sentence)


def memory_error(draft: GroupDraft[Any], growth_bytes: int) -> Refusal | None:
    """Return a refusal if the memory of all groups would exceed its limit."""
    if not draft.context.memory.lacks(growth_bytes, draft.context.settings.ottla_max_group_bytes, draft.group_id):
        return None
    sentence = "The members of all groups reached the broker's ottla.max.group.bytes: try again later."
    return Refusal(GROUP_MAX_SIZE_REACHED, sentence)
