"""ShareFetch (KIP-932): a member acquires records of its share partitions, and acknowledges records that it fetched before.

The first request of a session has epoch 0, and may acknowledge nothing. Epoch -1 ends the session: it fetches nothing, and releases
what the member still holds. Version 2 has renewals (KIP-1222), with which nothing is fetched, and acquire modes (KIP-1206).
The response waits until there are records, and until the share coordinator has stored the acknowledgements.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from ottla.broker.handlers.share_fetch_reading import (
    RECORD_LIMIT,
    ShareContext,
    ShareFetch,
    add_acknowledgements,
    new_response,
    readable_topics,
)
from ottla.broker.handlers.share_requests import (
    FIRST_VERSION,
    MOST_BYTES,
    MOST_ITEMS,
    acknowledge,
    batches_by_partition,
    end_session,
    request_fault,
)
from ottla.broker.serving.authorization import Need, Operation, Resource
from ottla.broker.serving.purgatory import DelayedOperation, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.broker.share.acknowledgements import RENEW_FROM, AcknowledgingMember, RecordAcknowledgements
from ottla.ports import Now, Steps
from ottla.share.sessions import FINAL_EPOCH, FIRST_EPOCH, PlaceKey, ShareSession
from ottla.wire.api.share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.wire.errors import ERRORS, INVALID_REQUEST, SHARE_SESSION_LIMIT_REACHED

ACQUIRE_MODES: Final = (0, RECORD_LIMIT)
NO_SUCH_MODE: Final = "The acquire mode is neither batch_optimized nor record_limit."
ZERO_WITH_RENEWALS: Final = ("max_bytes", "min_bytes", "max_records", "max_wait_ms")
"""The fields that must be 0 in a request that renews acquisition locks, because it fetches nothing."""


@serves(
    ShareFetchRequest,
    Need(Operation.READ, Resource.GROUP, "group_id"),
    oldest=FIRST_VERSION,
    most=MOST_ITEMS,
    most_bytes=MOST_BYTES,
    to_the_end=True,
)
def share_fetch(request: Request[ShareFetchRequest], context: ShareContext) -> Steps[Reply]:
    """Respond once there are records, with at least `min_bytes` if possible, or when `max_wait_ms` are over."""
    body = request.body
    fault = request_fault(context, body.group_id, body.member_id) or _renewal_fault(request)
    if fault is None and body.share_acquire_mode not in ACQUIRE_MODES:
        fault = INVALID_REQUEST, NO_SUCH_MODE
    if fault is not None:
        return _refuse(*fault)
    named = batches_by_partition(body.topics)
    has_acknowledgements = any(named.values())
    session = _session(context, request, named, has_acknowledgements=has_acknowledgements)
    if isinstance(session, int):
        return _limit_reached(request) if session == SHARE_SESSION_LIMIT_REACHED else _refuse(session)
    acknowledgements = _acknowledgements(context, request)
    if has_acknowledgements:
        yield from acknowledge(acknowledgements, named, request.now)
    if body.share_session_epoch == FINAL_EPOCH:
        acknowledgements.at_end = partial(end_session, context, session)
    elif not _fetches_nothing(context, request):
        fetch = ShareFetch(context, request, session, acknowledgements, is_new=bool(session.unreported))
        return _fetch(fetch, session, request)
    return add_acknowledgements(new_response(context, session.group_id), {}, acknowledgements)


def _fetch(fetch: ShareFetch, session: ShareSession, request: Request[ShareFetchRequest]) -> Reply:
    reply = fetch.attempt(request.now, request.body.max_wait_ms <= 0)
    return DelayedOperation((session.key,), fetch.until_ms, fetch.attempt) if reply is None else reply


def _fetches_nothing(context: ShareContext, request: Request[ShareFetchRequest]) -> bool:
    """Return whether a request wants no records, or its client must wait because of its quota."""
    body = request.body
    if not body.max_records or not body.max_bytes or (body.is_renew_ack and request.version >= RENEW_FROM):
        return True
    return context.quotas.is_on and context.quotas.has_to_rest(request.peer.principal, request.client_id)


def _renewal_fault(request: Request[ShareFetchRequest]) -> tuple[int, str] | None:
    """Return why a request with renewals is refused: it wants records, too. Return None if it is not refused."""
    body = request.body
    if request.version < RENEW_FROM or not body.is_renew_ack:
        return None
    wrong = [name for name in ZERO_WITH_RENEWALS if getattr(body, name)]
    return (INVALID_REQUEST, f"{', '.join(wrong)} must be 0 in a request that renews acquisition locks.") if wrong else None


def _session(
    context: ShareContext, request: Request[ShareFetchRequest], named: Mapping[PlaceKey, object], *, has_acknowledgements: bool
) -> ShareSession | int:
    """Begin or continue the member's session with the partitions of a request, or return an error code."""
    body, sessions = request.body, context.sessions
    group_id, member_id = str(body.group_id), str(body.member_id)
    if body.share_session_epoch == FIRST_EPOCH:
        return INVALID_REQUEST if has_acknowledgements else _begin(context, request, named)
    session = sessions.resume(group_id, member_id, body.share_session_epoch)
    if isinstance(session, int) or body.share_session_epoch == FINAL_EPOCH:
        return session
    new = [key for key in named if key not in session.held]
    if new:
        if error_code := sessions.size_error(session, len(new)):
            return error_code
        sessions.add(session, new)
    gone = [(topic.topic_id, index) for topic in body.forgotten_topics_data for index in topic.partitions]
    if gone:
        context.shares.forget(session, sessions.remove(session, gone))
    sessions.advance(session)
    return session


def _begin(context: ShareContext, request: Request[ShareFetchRequest], named: Mapping[PlaceKey, object]) -> ShareSession | int:
    """Begin a session in place of the member's earlier one, whose records the member keeps."""
    body, sessions = request.body, context.sessions
    group_id, member_id = str(body.group_id), str(body.member_id)
    earlier = sessions.find(group_id, member_id)
    if earlier is not None:
        sessions.end(earlier)
        context.purgatory.wake(earlier.key)
    most = context.settings.value.group_share_max_share_sessions
    session = sessions.begin(group_id, member_id, request.peer.id, len(named), most)
    if not isinstance(session, int):
        sessions.add(session, named)
    if earlier is not None:
        context.shares.forget(earlier, earlier.held.values())
    return session


def _acknowledgements(context: ShareContext, request: Request[ShareFetchRequest]) -> RecordAcknowledgements:
    body = request.body
    readable = readable_topics(context, request)
    member = AcknowledgingMember(str(body.group_id), str(body.member_id), request.version, readable, is_renewal=body.is_renew_ack)
    return RecordAcknowledgements(context.shares, context.cluster.name_of, member)


def _refuse(error_code: int, message: str | None = None) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=error_code, error_message=message or ERRORS[error_code].sentence)


def _limit_reached(request: Request[ShareFetchRequest]) -> Reply:
    """Refuse a session after the request's time, as in Kafka, because clients try again at once."""

    def refuse(now: Now, expired: bool) -> Reply | None:
        return _refuse(SHARE_SESSION_LIMIT_REACHED) if expired else None

    until_ms = request.now.mono_ms + max(0, request.body.max_wait_ms)
    return DelayedOperation((), until_ms, refuse)
