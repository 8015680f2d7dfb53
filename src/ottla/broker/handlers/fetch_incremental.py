"""Incremental fetches (KIP-227): a session reads only partitions that may have changed, and returns only changes."""

from __future__ import annotations

from collections.abc import Hashable

from ottla.broker.handlers.fetch_reading import (
    ANSWERED,
    MANY,
    READ_AT_ONCE,
    TOPIC_IDS_FROM,
    Fetch,
    FetchContext,
    PartitionData,
    TopicResponse,
    wait_for_change,
)
from ottla.broker.serving.fetch_sessions import FetchSession, Held
from ottla.broker.serving.parts import Budget, ResponseWriter
from ottla.broker.serving.purgatory import Reply
from ottla.broker.serving.refusals import join
from ottla.broker.serving.request import Close, Request
from ottla.ports import Now, Steps
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.errors import INVALID_FETCH_SESSION_EPOCH, UNKNOWN_TOPIC_ID
from ottla.wire.schema import Message


class IncrementalFetch(Fetch):
    """A fetch within a session. It reads partitions that may have changed, and returns partitions that have changed."""

    __slots__ = ("_epoch", "_session", "session_id")

    def __init__(self, context: FetchContext, request: Request[FetchRequest], session: FetchSession) -> None:
        super().__init__(context, request)
        context.sessions.update(session, self.body.topics, self.body.forgotten_topics_data, self._terms())
        context.sessions.advance(session, request.now.mono_ms)
        self._session = session
        self.session_id = session.id
        self._epoch = session.epoch

    def keys(self) -> tuple[Hashable, ...]:
        return (self._session.key,)

    def attempt(self, now: Now, expired: bool) -> Reply | None:
        """Read partitions that can have changed. Return None to keep waiting for more data, unless time or session are over."""
        session = self._session
        if len(session.due) > MANY:
            return self._attempt_slowly(expired)
        self._begin()
        found = [(held, self._read_held(held)) for held in session.in_turn()]
        self._end()
        if not (self.enough or expired or session.is_over):
            return None
        if session.epoch != self._epoch:  # another connection has continued the session
            return FetchResponse(error_code=INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        self._count_sent()
        return FetchResponse(session_id=session.id, responses=self._report_changes(found))

    def _attempt_slowly(self, expired: bool) -> Steps[Reply]:
        """Read many partitions that can have changed, in steps, until there is enough data or the time is over."""
        session, purgatory = self._session, self.context.purgatory
        while True:
            wakes, began = purgatory.wakes, purgatory.now()
            self._begin()
            found, budget = list[tuple[Held, PartitionData]](), Budget(READ_AT_ONCE)
            for held in session.in_turn():
                found.append((held, self._read_held(held)))
                yield from budget.spend()
            self._end()
            if self.enough or expired or session.is_over:
                self._count_sent()
                return (yield from self._report_changes_slowly(found))
            yield from wait_for_change(purgatory, self.until_ms, wakes, purgatory.now().mono_ms - began.mono_ms)
            expired = purgatory.now().mono_ms >= self.until_ms

    def _report_changes_slowly(self, found: list[tuple[Held, PartitionData]]) -> Steps[Reply]:
        session = self._session
        writer = ResponseWriter(self.request, ANSWERED)
        for start in range(0, max(1, len(found)), READ_AT_ONCE):
            if session.epoch != self._epoch:
                return FetchResponse(error_code=INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
            news = FetchResponse(session_id=session.id, responses=self._report_changes(found[start : start + READ_AT_ONCE]))
            writer.add(news, None if start else self.request)  # refusals are written once
            yield None
        return writer.reply()

    def _report_changes(self, found: list[tuple[Held, PartitionData]]) -> list[TopicResponse]:
        """Record these results in the session. Return, by topic, the results that differ from what the client has received."""
        session = self._session
        topics: list[TopicResponse] = []
        told: Hashable = None
        for held, data in found:
            if session.record(held, data, self.until(held, data)):
                if held.identity != told:
                    topics.append(TopicResponse(topic=held.topic or "", topic_id=held.topic_id, partitions=[]))
                    told = held.identity
                topics[-1].partitions.append(data)
            if data.records:
                session.to_the_end(held)
        return topics

    def _count(self) -> int:
        return len(self._session.held)

    def _read_held(self, held: Held) -> PartitionData:
        if held.topic is None:
            self.context.sessions.find_name(self._session, held)
        if held.topic is None:
            return self._nobodys(held, UNKNOWN_TOPIC_ID)
        return self._partition(held.topic, held, held.topic_id if self._session.uses_ids else None)


def add_partitions(context: FetchContext, request: Request[FetchRequest]) -> Steps[Reply | None]:
    """Add the partitions of a large incremental fetch to its session, in steps. Return a reply if the session has ended."""
    body, sessions = request.body, context.sessions
    session = sessions.resume(
        body.session_id, request.peer.principal, body.session_epoch, uses_ids=request.version >= TOPIC_IDS_FROM
    )
    if isinstance(session, int):
        return FetchResponse(error_code=session)
    for part in request.parts():
        if session.is_over or session.epoch != body.session_epoch:
            return FetchResponse(error_code=INVALID_FETCH_SESSION_EPOCH)
        if isinstance(part.refused, Close):
            return part.refused
        denied = part.denied if part.refused is None else part.refused
        if isinstance(denied, Message):
            request.denied = denied if request.denied is None else join(request.denied, denied)
        if part.refused is None:
            sessions.update(session, part.body.topics, (), session.terms)
        yield None
    request.whole = None
    return None
