"""Fetch: slices of logs to clients and followers, at once or when there is enough, with a session (KIP-227) or without.

Serves versions 0 to 18 for consumers and followers, with quotas, follower reads (KIP-392) and sessions. Consumers that name their
rack get `preferred_read_replica`. `cluster_id`, and `log_start_offset` of consumers, are ignored. Before version 3 the request
has no `max_bytes`; before 4 responses are message sets of magic 0 and 1; 7 brought sessions, 9 leader epochs, 11 racks, 12 the last
fetched epoch, 13 topic ids, 15 the replica's epoch.
"""

from __future__ import annotations

from ottla.broker.handlers.fetch_incremental import IncrementalFetch, add_partitions
from ottla.broker.handlers.fetch_reading import (
    ANSWERED,
    BATCHES_FROM,
    MANY,
    TOPIC_IDS_FROM,
    Fetch,
    FetchContext,
    new_session,
    note,
    wait_for_change,
)
from ottla.broker.quotas.exemptions import replica_id
from ottla.broker.serving.down_conversion import OldFetch
from ottla.broker.serving.fetch_sessions import FIRST_EPOCH, NO_EPOCH, NO_SESSION, FetchSession
from ottla.broker.serving.parts import MOST_RESPONSE_BYTES, Parts, ResponseWriter
from ottla.broker.serving.purgatory import DelayedOperation, Reply
from ottla.broker.serving.request import Close, Ready, Request, Whole
from ottla.broker.serving.routes import serves
from ottla.ports import Now, Steps
from ottla.wire.api.fetch import FetchRequest, FetchResponse


def _fetch_many(context: FetchContext, request: Request[FetchRequest], whole: Whole) -> Steps[Reply]:
    """Serve a full fetch of many partitions."""
    body, purgatory, sessions = request.body, context.purgatory, context.sessions
    sessions.end_own(body.session_id, request.peer.principal)
    reading = LargeFetch(context, request)
    if body.session_epoch == FIRST_EPOCH:
        reading.begin_session(whole.count, request.now)
    try:
        while True:
            wakes, began = purgatory.wakes, purgatory.now()
            answer = yield from reading.read()
            if isinstance(answer, Close):
                return answer
            if reading.enough or purgatory.now().mono_ms >= reading.until_ms:
                return reading.encode(answer, purgatory.now())
            yield from wait_for_change(purgatory, reading.until_ms, wakes, purgatory.now().mono_ms - began.mono_ms)
    finally:
        reading.leave()


class LargeFetch(Fetch):
    """A fetch with many partitions, which is served in blocks of partitions."""

    __slots__ = ("_head", "_in_all", "_is_answered", "_session")

    def __init__(self, context: FetchContext, request: Request[FetchRequest]) -> None:
        super().__init__(context, request)
        self._session: FetchSession | None = None
        self._head = FetchResponse()
        self._in_all = 0
        self._is_answered = False

    def begin_session(self, size: int, now: Now) -> None:
        self._session = new_session(self, size, now)

    def read(self) -> Steps[ResponseWriter | Close]:
        """Read every partition, and write the response."""
        self._begin()
        self._in_all, converted = 0, 0
        self._head = FetchResponse()
        writer = ResponseWriter(self.request, ANSWERED, self._head)
        for part in self.request.parts():
            if part.refused is not None and not isinstance(part.refused, FetchResponse):
                return part.refused if isinstance(part.refused, Close) else Close("its topics may not be read")
            response = part.refused or self._read(part.body)
            if self.version < BATCHES_FROM:
                left = max(0, self.context.settings.value.fetch_max_bytes - converted)
                yield from OldFetch(self.context.partitions, part.body, self.version, response, left).convert(self.context.checks)
                converted += sum(len(data.records or b"") for topic in response.responses for data in topic.partitions)
            writer.add(response, part)
            writer.most_bytes = MOST_RESPONSE_BYTES + self.size
            if writer.is_too_large:
                return writer.too_large()
            yield None
        self._end()
        return writer

    def encode(self, writer: ResponseWriter, now: Now) -> Ready:
        """Return the response that `read` wrote, and record that the client receives the session's id."""
        session = self._session
        self._count_sent()
        if session is not None and not session.is_over:
            self._head.session_id = session.id
            self.context.sessions.touch(session, now.mono_ms)
            self._is_answered = True
        return writer.reply()

    def leave(self) -> None:
        """End the fetch session that this fetch has created, if its id was never sent to the client."""
        if self._session is not None and not self._is_answered:
            self.context.sessions.end(self._session.id)

    def _read(self, body: FetchRequest) -> FetchResponse:
        self._check_cost = 0  # other jobs ran in between
        topics = [self._topic(topic) for topic in body.topics]
        self._in_all += sum(len(topic.partitions) for topic in topics)
        if self._session is not None:
            self.context.sessions.update(self._session, body.topics, (), self._terms())
            note(self, self._session, body, topics)
        return FetchResponse(responses=topics)

    def _count(self) -> int:
        return self._in_all


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
            return _continue_session(context, request)
        return FetchResponse() if has_to_rest else _fetch_many(context, request, whole)
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
    """Return whether the client has used up its fetch quota, so that it must wait. No quota applies to followers."""
    return replica_id(request.body) < 0 and context.quotas.has_to_rest(request.peer.principal, request.client_id)


def _continue_session(context: FetchContext, request: Request[FetchRequest]) -> Steps[Reply]:
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
