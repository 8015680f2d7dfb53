"""Fetches of many partitions: read in blocks, repeatedly until the data is sufficient."""

from __future__ import annotations

from ottla.broker.handlers.fetch_reading import ANSWERED, BATCHES_FROM, Fetch, FetchContext, new_session, note, rested
from ottla.broker.serving.down_conversion import OldFetch
from ottla.broker.serving.fetch_sessions import FIRST_EPOCH, FetchSession
from ottla.broker.serving.parts import MOST_RESPONSE_BYTES, ResponseWriter
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.request import Close, Ready, Request, Whole
from ottla.ports import Now, Steps
from ottla.wire.api.fetch import FetchRequest, FetchResponse


def fetch_many(context: FetchContext, request: Request[FetchRequest], whole: Whole) -> Steps[Reply]:
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
                return reading.encoded(answer, purgatory.now())
            yield from rested(purgatory, reading.until_ms, wakes, purgatory.now().mono_ms - began.mono_ms)
    finally:
        reading.leave()


class LargeFetch(Fetch):
    """A fetch with many partitions, which are read, and whose response is written, in blocks."""

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
                yield from OldFetch(self.context.partitions, part.body, self.version, response, left).converted(self.context.checks)
                converted += sum(len(data.records or b"") for topic in response.responses for data in topic.partitions)
            writer.add(response, part)
            writer.most_bytes = MOST_RESPONSE_BYTES + self.size
            if writer.is_too_large:
                return writer.too_large()
            yield None
        self._end()
        return writer

    def encoded(self, writer: ResponseWriter, now: Now) -> Ready:
        """Return the response that `read` wrote, and record that the client receives the session's id."""
        session = self._session
        if session is not None and not session.is_over:
            self._head.session_id = session.id
            self.context.sessions.touch(session, now.mono_ms)
            self._is_answered = True
        return writer.reply()

    def leave(self) -> None:
        """End a new session if its id was never sent to the client."""
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
