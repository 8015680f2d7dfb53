"""Fetch: slices of logs to clients and followers, at once or when there is enough, with a session (KIP-227) or without.

Serves versions 0 to 18 for consumers and followers, with quotas, follower reads (KIP-392) and sessions. Consumers that name their
rack get `preferred_read_replica`. `cluster_id`, and `log_start_offset` of consumers, are ignored. Before version 3 the request
has no `max_bytes`; before 4 responses are message sets of magic 0 and 1; 7 brought sessions, 9 leader epochs, 11 racks, 12 the last
fetched epoch, 13 topic ids, 15 the replica's epoch.
"""

from __future__ import annotations

from ottla.broker.handlers.fetch_incremental import IncrementalFetch, add_partitions
from ottla.broker.handlers.fetch_many import fetch_many
from ottla.broker.handlers.fetch_reading import ANSWERED, MANY, TOPIC_IDS_FROM, Fetch, FetchContext
from ottla.broker.quotas.exemptions import replica_id
from ottla.broker.serving.fetch_sessions import FIRST_EPOCH, NO_EPOCH, NO_SESSION
from ottla.broker.serving.parts import Parts
from ottla.broker.serving.purgatory import DelayedOperation, Reply
from ottla.broker.serving.request import Request
from ottla.broker.serving.routes import serves
from ottla.ports import Steps
from ottla.wire.api.fetch import FetchRequest, FetchResponse


@serves(
    FetchRequest,
    parts=Parts(((("topics", "partitions"), ANSWERED),), things=MANY, whole_bytes=16 * 1024, together=True),
)
def fetch(request: Request[FetchRequest], context: FetchContext) -> Reply:
    """Respond once there are `min_bytes` or an error; until then the reply is delayed, for `max_wait_ms` at most."""
    body, whole = request.body, request.whole
    has_to_rest = context.quotas.is_on and _has_to_rest(context, request)
    if whole is not None:
        if body.session_epoch not in (FIRST_EPOCH, NO_EPOCH):
            return _continued(context, request)
        return FetchResponse() if has_to_rest else fetch_many(context, request, whole)
    if body.session_epoch == NO_EPOCH and body.session_id == NO_SESSION:
        reading = Fetch(context, request)
    else:
        begun = _begun(context, request)
        if isinstance(begun, int):
            return FetchResponse(error_code=begun)
        reading = begun
    if has_to_rest:
        return FetchResponse(session_id=reading.session_id)
    reply = reading.attempt(request.now, body.max_wait_ms <= 0)
    if reply is not None:
        return reply
    return DelayedOperation(reading.keys(), request.now.mono_ms + body.max_wait_ms, reading.attempt)


def _has_to_rest(context: FetchContext, request: Request[FetchRequest]) -> bool:
    """Return whether the quota of the client is used up. No quota applies to followers."""
    return replica_id(request.body) < 0 and context.quotas.has_to_rest(request.peer.principal, request.client_id)


def _continued(context: FetchContext, request: Request[FetchRequest]) -> Steps[Reply]:
    """Serve an incremental fetch that names many partitions, after adding them to its session."""
    return (yield from add_partitions(context, request)) or fetch.handler(request, context)


def _begun(context: FetchContext, request: Request[FetchRequest]) -> Fetch | int:
    """Return the fetch of a request: incremental, or full with or without a new session. Return an error code if it is refused."""
    body, sessions = request.body, context.sessions
    if body.session_epoch in (FIRST_EPOCH, NO_EPOCH):
        sessions.end_own(body.session_id, request.peer.principal)
        return Fetch(context, request, begins_session=body.session_epoch == FIRST_EPOCH)
    session = sessions.resume(
        body.session_id, request.peer.principal, body.session_epoch, uses_ids=request.version >= TOPIC_IDS_FROM
    )
    if isinstance(session, int):
        return session
    fetch = IncrementalFetch(context, request, session)
    if session.held:
        return fetch
    sessions.end(session.id)
    return Fetch(context, request)
