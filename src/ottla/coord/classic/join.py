"""JoinGroup: checks, member ids, and the rebalance that a join can start."""

from __future__ import annotations

from collections.abc import Callable

from ottla.coord.classic import rebalance
from ottla.coord.classic.draft import ClassicDraft
from ottla.coord.classic.events import (
    ClassicMember,
    MemberIdGiven,
    MemberJoined,
    MemberRejoined,
    MemberRemoved,
    MemberReplaced,
    Protocols,
)
from ottla.coord.classic.group import ClassicGroup
from ottla.coord.classic.rebalance import join_error
from ottla.coord.classic.states import REJOIN, Rejoin, State
from ottla.coord.outcome import SessionKey
from ottla.coord.runtime.machine import Input
from ottla.coord.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.sync_group import SyncGroupResponse
from ottla.wire.errors import (
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)

REBALANCE_TIMEOUT_FROM = 1
MEMBER_ID_REQUIRED_FROM = 4
SKIP_ASSIGNMENT_FROM = 9

LONGEST_NAME = 8_000
"""The most characters of a client id or instance id in a member id, which must fit a string of 32 767 bytes."""

Ask = Input[JoinGroupRequest]


def join(draft: ClassicDraft, ask: Ask, new_id: Callable[[], str], *, exists: bool) -> None:
    """Decide a JoinGroup. `exists` is False if the draft's group does not exist before this request."""
    body = ask.body
    error_code = request_error(body, draft.settings)
    if error_code:
        _refuse(draft, error_code, body.member_id)
    elif not exists and body.member_id:
        _refuse(draft, UNKNOWN_MEMBER_ID, body.member_id)
    elif not _has_room(draft.group, body.member_id, draft.settings.group_max_size):
        _refuse_room(draft, body.member_id)
    elif not draft.group.supports(body.protocol_type, protocols_of(body)):
        _refuse(draft, INCONSISTENT_GROUP_PROTOCOL, body.member_id)
    elif not body.member_id:
        _join_new(draft, ask, new_id)
    else:
        _join_known(draft, ask)


def request_error(body: JoinGroupRequest, settings: GroupSettings) -> int:
    """Return the error code of an invalid request, whatever the state of its group; else NONE."""
    if not body.group_id:
        return INVALID_GROUP_ID
    if not settings.group_min_session_timeout_ms <= body.session_timeout_ms <= settings.group_max_session_timeout_ms:
        return INVALID_SESSION_TIMEOUT
    return NONE


def _refuse(draft: ClassicDraft, error_code: int, member_id: str = "") -> None:
    draft.answer(join_error(error_code, member_id))


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Return whether a group of at most `max_size` members has room for this member.

    During the join phase, only members that have already joined count.
    """
    if group.state is State.EMPTY:
        return True
    if group.state is State.PREPARING_REBALANCE:
        return member_id in group.joining or len(group.joining) < max_size
    return member_id in group.members or len(group.members) < max_size


def _refuse_room(draft: ClassicDraft, member_id: str) -> None:
    """Refuse a member of a full group, and remove it, so that the rebalance does not wait for it."""
    if member_id in draft.group.members or member_id in draft.group.invited:
        draft.happen(MemberRemoved(draft.group.group_id, member_id))
        draft.forget(member_id)
    _refuse(draft, GROUP_MAX_SIZE_REACHED)
    rebalance.complete_if_all_joined(draft)


def _join_new(draft: ClassicDraft, ask: Ask, new_id: Callable[[], str]) -> None:
    """Decide a JoinGroup without a member id. A static member joins; a dynamic member only gets a member id (KIP-394)."""
    instance = ask.body.group_instance_id
    name = ask.client_id if instance is None else instance
    member_id = f"{name[:LONGEST_NAME]}-{new_id()}"
    if instance is not None and instance in draft.group.static:
        _replace(draft, ask, draft.group.static[instance], member_id)
    elif instance is None and ask.version >= MEMBER_ID_REQUIRED_FROM:
        draft.happen(MemberIdGiven(draft.group.group_id, member_id))
        draft.after(SessionKey(draft.group.group_id, member_id), ask.body.session_timeout_ms)
        _refuse(draft, MEMBER_ID_REQUIRED, member_id)
    else:
        _add(draft, ask, member_id)


def _join_known(draft: ClassicDraft, ask: Ask) -> None:
    body = ask.body
    group = draft.group
    if body.member_id in group.invited and body.group_instance_id is None:
        _add(draft, ask, body.member_id)
        return
    error_code = group.member_error(body.member_id, body.group_instance_id)
    rejoin = REJOIN[group.state]
    if error_code:
        _refuse(draft, error_code, body.member_id)
    elif rejoin is Rejoin.REFUSE:
        _refuse(draft, UNKNOWN_MEMBER_ID, body.member_id)
    elif rejoin is Rejoin.JOIN_ALWAYS or _has_reason(group, ask, rejoin):
        _rejoin(draft, ask)
        rebalance.begin_or_complete(draft, _reason(ask, f"member {body.member_id} rejoins"))
    else:
        told = rebalance.joined_reply(draft, body.member_id)
        if group.state is State.STABLE:
            told.members = []
        draft.answer(told)


def _has_reason(group: ClassicGroup, ask: Ask, rejoin: Rejoin) -> bool:
    member_id = ask.body.member_id
    if rejoin is Rejoin.JOIN_IF_CHANGED_OR_LEADER and group.leader == member_id:
        return True
    return group.members[member_id].protocols != protocols_of(ask.body)


def _add(draft: ClassicDraft, ask: Ask, member_id: str) -> None:
    """Add a new member. Its wait for the reply has a timeout of its own, because it sends no heartbeats meanwhile."""
    body = ask.body
    member = ClassicMember(
        member_id,
        body.group_instance_id,
        ask.client_id,
        ask.client_host,
        rebalance_timeout_ms(ask),
        body.session_timeout_ms,
        protocols_of(body),
    )
    draft.happen(MemberJoined(draft.group.group_id, member, body.protocol_type, ask.token))
    draft.after(SessionKey(draft.group.group_id, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance.begin_or_complete(draft, _reason(ask, f"member {member_id} joins"))


def _rejoin(draft: ClassicDraft, ask: Ask, member_id: str | None = None) -> None:
    """Record the JoinGroup of a present member. If its previous JoinGroup still waits for a reply, refuse that request."""
    member_id = member_id or ask.body.member_id
    superseded = draft.group.joining.get(member_id)
    draft.answer_to(superseded, join_error(REBALANCE_IN_PROGRESS, member_id))
    event = MemberRejoined(
        draft.group.group_id,
        member_id,
        protocols_of(ask.body),
        rebalance_timeout_ms(ask),
        ask.body.session_timeout_ms,
        ask.token,
    )
    draft.happen(event)


def _replace(draft: ClassicDraft, ask: Ask, old_id: str, member_id: str) -> None:
    """Give a static member that joins again a new member id, and fence its old id. A stable group often needs no rebalance."""
    group = draft.group
    former_leader = group.leader or ""
    draft.answer_to(group.joining.get(old_id), join_error(FENCED_INSTANCE_ID, old_id))
    draft.answer_to(group.syncing.get(old_id), SyncGroupResponse(error_code=FENCED_INSTANCE_ID))
    draft.happen(MemberReplaced(group.group_id, old_id, member_id))
    draft.forget(old_id)
    _rejoin(draft, ask, member_id)
    draft.expect(member_id)
    group = draft.group
    if group.state is State.STABLE and group.choose_protocol() == group.protocol:
        _keep_seat(draft, ask, member_id, former_leader)
    else:
        rebalance.begin_or_complete(draft, _reason(ask, f"static member {member_id} rejoined"))


def _keep_seat(draft: ClassicDraft, ask: Ask, member_id: str, former_leader: str) -> None:
    """Replace a static member's id in the stored group, keep its assignment, and reply without a rebalance.

    A leader that reads its own id in the reply would make a new assignment. Newer replies tell the leader to skip it (KIP-814).
    Older replies contain the leader's former member id instead.
    """
    group = draft.group
    assignments = {member.member_id: member.assignment for member in group.members.values()}
    draft.happen(group.at_rest(assignments, draft.now.wall_ms))
    reply = rebalance.joined_reply(draft, member_id)
    if ask.version >= SKIP_ASSIGNMENT_FROM:
        reply.skip_assignment = draft.group.leader == member_id
    else:
        reply.leader, reply.members = former_leader, []
    draft.answer(reply)


def protocols_of(body: JoinGroupRequest) -> Protocols:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in body.protocols)


def rebalance_timeout_ms(ask: Ask) -> int:
    """Return the rebalance timeout; version 0 has no such field, so return the session timeout."""
    return ask.body.rebalance_timeout_ms if ask.version >= REBALANCE_TIMEOUT_FROM else ask.body.session_timeout_ms


def _reason(ask: Ask, what: str) -> str:
    """Return the reason for a rebalance, for the log: the text `what`, and the client's own reason if it sent one (KIP-800)."""
    return f"{what}; client reason: {ask.body.reason or 'not provided'}"
