"""LeaveGroup: members leave, or an operator removes them."""

from __future__ import annotations

from ottla.coord.classic import rebalance
from ottla.coord.classic.draft import ClassicDraft
from ottla.coord.classic.states import REBALANCES_FROM, State
from ottla.coord.runtime.machine import Input
from ottla.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.errors import INVALID_GROUP_ID, NONE, UNKNOWN_MEMBER_ID

MANY_MEMBERS_FROM = 3

Identity = LeaveGroupRequest.MemberIdentity


def leave(draft: ClassicDraft, ask: Input[LeaveGroupRequest], *, exists: bool) -> None:
    """Decide a LeaveGroup. Each member gets an error code. Before version 3 the only member's code is the response's code."""
    body = ask.body
    if not body.group_id:
        draft.answer(LeaveGroupResponse(error_code=INVALID_GROUP_ID))
        return
    leaving = body.members if ask.version >= MANY_MEMBERS_FROM else [Identity(member_id=body.member_id)]
    results = [_remove(draft, identity) if exists else _result(identity, UNKNOWN_MEMBER_ID) for identity in leaving]
    gone = [result.member_id or result.group_instance_id or "" for result in results if not result.error_code]
    if ask.version >= MANY_MEMBERS_FROM:
        draft.answer(LeaveGroupResponse(members=results))
    else:
        draft.answer(LeaveGroupResponse(error_code=results[0].error_code))
    if gone:
        _continue_rebalance(draft, f"{', '.join(gone)} left; client reason: {leaving[0].reason or 'not provided'}")


def _continue_rebalance(draft: ClassicDraft, reason: str) -> None:
    if draft.group.state in REBALANCES_FROM and draft.group.state is not State.EMPTY:
        rebalance.begin(draft, reason)
    else:
        rebalance.complete_if_all_joined(draft)


def _remove(draft: ClassicDraft, identity: Identity) -> LeaveGroupResponse.MemberResponse:
    """Remove a member. An operator removes a static member by its instance id, with an empty member id."""
    group = draft.group
    member_id = identity.member_id
    if not member_id:
        held = None if identity.group_instance_id is None else group.static.get(identity.group_instance_id)
        error_code = UNKNOWN_MEMBER_ID if held is None else NONE
        member_id = held or ""
    elif member_id in group.invited:
        error_code = NONE
    else:
        error_code = group.member_error(member_id, identity.group_instance_id)
    if error_code == NONE:
        rebalance.remove(draft, member_id)
    return _result(identity, error_code)


def _result(identity: Identity, error_code: int) -> LeaveGroupResponse.MemberResponse:
    return LeaveGroupResponse.MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error_code
    )
