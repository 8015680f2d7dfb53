"""Fetch: slices of logs to clients, at once or when there is enough, with a session (KIP-227) or without.

Opens no batch and copies none, but for versions before 4.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.exemptions import replica_id
from ottla.broker.replication.follower_fetches import Followers
from ottla.broker.security.rights import NO, YES, Rights
from ottla.broker.serving.down_conversion import OldFetch
from ottla.broker.serving.fetch_sessions import FIRST_EPOCH, NO_EPOCH, NO_SESSION, FetchSession, FetchSessions, Held
from ottla.broker.serving.long_checks import LongChecks
from ottla.broker.serving.purgatory import DelayedOperation, Purgatory, Reply
from ottla.broker.serving.refusals import joined, told
from ottla.broker.serving.request import Close, Encoded, Request, Whole
from ottla.broker.serving.routes import serves
from ottla.broker.serving.slices import MOST_RESPONSE_BYTES, Slices, too_large
from ottla.broker.settings import SettingsInForce
from ottla.cluster.acls import CLUSTER_NAME, Operation, Resource
from ottla.cluster.image import ClusterImage
from ottla.cluster.replicas.truncation import EpochEnd
from ottla.log.errors import Damaged
from ottla.log.slice_reader import FirstPart
from ottla.ports import Now, Steps, StorageFailed
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.codec.blocks import BlockWriter
from ottla.wire.errors import (
    CORRUPT_MESSAGE,
    INCONSISTENT_TOPIC_ID,
    INVALID_FETCH_SESSION_EPOCH,
    KAFKA_STORAGE_ERROR,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from ottla.wire.schema import Message

BATCHES_FROM = 4
STORAGE_ERROR_FROM = 6
ZSTD_FROM = 10
TOPIC_IDS_FROM = 13
READ_COMMITTED = 1
NO_OFFSET = NOTHING = -1
READ_AT_ONCE = 200
ANSWERED = ("responses", "partitions")
MOST_COST = 4000
"""What one request may cost in checks of what was not read since the start (`Log.check_cost`): about two milliseconds."""
MANY = 500
"""So many partitions are read at once: more of them are read in slices, and not as often."""
REST_MS = 5
REST_FACTOR = 4
LONGEST_REST_MS = 1000
IDLE_REST_MS = 50
"""Whoever waits with many partitions is not woken by each of them, but looks again after a rest: 5 ms, and four times as long as
the last look took. Within a second it is noticed that a client has gone; where nothing changed, there is nothing to look at."""

TopicResponse = FetchResponse.FetchableTopicResponse
PartitionData = FetchResponse.PartitionData
AbortedTransaction = FetchResponse.AbortedTransaction
FetchPartition = FetchRequest.FetchPartition
Asked = FetchPartition | Held


class FetchRooms(NamedTuple):
    """What a fetch reads from."""

    partitions: Partitions
    cluster: ClusterImage
    settings: SettingsInForce
    sessions: FetchSessions
    purgatory: Purgatory
    checks: LongChecks
    quotas: ClientQuotas
    rights: Rights
    followers: Followers | None


@serves(
    FetchRequest,
    slices=Slices(((("topics", "partitions"), ANSWERED),), things=MANY, whole_bytes=16 * 1024, asked_whole=True),
)
def fetch(request: Request[FetchRequest], rooms: FetchRooms) -> Reply:
    """Answer with what is there once it is `min_bytes` or an error; until then, and for `max_wait_ms` at most, the reply waits."""
    body = request.body
    is_counted = rooms.quotas.is_on and (rooms.followers is None or replica_id(body) < 0)
    has_to_rest = is_counted and rooms.quotas.has_to_rest(request.peer.principal, request.client_id)
    if request.whole is not None:
        if has_to_rest and body.session_epoch in (FIRST_EPOCH, NO_EPOCH):
            return FetchResponse()
        return rooms.purgatory.run(_in_blocks(rooms, request, request.whole))
    if body.session_epoch == NO_EPOCH and body.session_id == NO_SESSION:
        reading = _Fetch(rooms, request)
    else:
        begun = _begun(rooms, request)
        if isinstance(begun, int):
            return FetchResponse(error_code=begun)
        reading = begun
    if has_to_rest:
        return FetchResponse(session_id=reading.session_id)
    reply = reading.attempt(request.now, body.max_wait_ms <= 0)
    if reply is not None:
        return reply
    return DelayedOperation(reading.keys(), request.now.mono_ms + body.max_wait_ms, reading.attempt)


def _begun(rooms: FetchRooms, request: Request[FetchRequest]) -> _Fetch | int:
    """The fetch that a request begins: full, with a session afterwards or without, or incremental. Or the error code (KIP-227)."""
    body, sessions = request.body, rooms.sessions
    if body.session_epoch in (FIRST_EPOCH, NO_EPOCH):
        sessions.end_own(body.session_id, request.peer.principal)
        return _FullFetch(rooms, request) if body.session_epoch == FIRST_EPOCH else _Fetch(rooms, request)
    session = sessions.resume(
        body.session_id, request.peer.principal, body.session_epoch, uses_ids=request.version >= TOPIC_IDS_FROM
    )
    if isinstance(session, int):
        return session
    fetch = _IncrementalFetch(rooms, request, session)
    if session.held:
        return fetch
    sessions.end(session.id)
    return _Fetch(rooms, request)


def _in_blocks(rooms: FetchRooms, request: Request[FetchRequest], whole: Whole) -> Steps[Reply]:
    """A fetch of many partitions: a block of them at a time, again and again until there is enough."""
    body, purgatory, sessions = request.body, rooms.purgatory, rooms.sessions
    if body.session_epoch not in (FIRST_EPOCH, NO_EPOCH):
        return (yield from _go_on_in_blocks(rooms, request, whole))
    sessions.end_own(body.session_id, request.peer.principal)
    reading = _LargeFetch(rooms, request, whole)
    if body.session_epoch == FIRST_EPOCH:
        reading.begin_session(whole.reader.count, request.now)
    try:
        while True:
            wakes, began = purgatory.wakes, purgatory.now()
            answer = yield from reading.look()
            if isinstance(answer, Close):
                return answer
            if reading.enough or purgatory.now().mono_ms >= reading.until_ms:
                return reading.encoded(answer, purgatory.now())
            yield from _rested(purgatory, reading.until_ms, wakes, purgatory.now().mono_ms - began.mono_ms)
    finally:
        reading.leave()


def _go_on_in_blocks(rooms: FetchRooms, request: Request[FetchRequest], whole: Whole) -> Steps[Reply]:
    """An incremental fetch that names many partitions: the session takes them in a block at a time."""
    body, sessions = request.body, rooms.sessions
    session = sessions.resume(
        body.session_id, request.peer.principal, body.session_epoch, uses_ids=request.version >= TOPIC_IDS_FROM
    )
    if isinstance(session, int):
        return FetchResponse(error_code=session)
    for block in whole.reader.blocks():
        if session.is_over or session.epoch != body.session_epoch:
            return FetchResponse(error_code=INVALID_FETCH_SESSION_EPOCH)
        part = replace(request, body=whole.reader.part(block), whole=None)
        refused = whole.admit(part)
        if isinstance(refused, Close):
            return refused
        denied = part.denied if refused is None else refused
        if isinstance(denied, Message):
            request.denied = denied if request.denied is None else joined(request.denied, denied)
        if refused is None:
            sessions.update(session, part.body.topics, (), session.terms)
        yield None
    request.whole = None
    return fetch.handler(request, rooms)


def _rested(purgatory: Purgatory, until_ms: int, wakes: int, took_ms: int) -> Steps[None]:
    """Pause until it is worth looking again: until something has changed, or the time is over."""
    rest_ms = REST_MS + REST_FACTOR * took_ms
    while (left_ms := until_ms - purgatory.now().mono_ms) > 0:
        yield purgatory.rest(max(1, min(left_ms, rest_ms, LONGEST_REST_MS)))
        rest_ms -= min(rest_ms, LONGEST_REST_MS)
        if not rest_ms and purgatory.wakes != wakes:
            return
        rest_ms = rest_ms or IDLE_REST_MS


def _readable(request: Request[FetchRequest], rights: Rights) -> Mapping[str, bool]:
    """Which topics a client may read. One that says it is a broker may read all of them, if it may act for the cluster."""
    if replica_id(request.body) < 0:
        return rights.answers(request.peer, Operation.READ, Resource.TOPIC)
    return YES if rights.may(request.peer, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME) else NO


class _Fetch:
    """A fetch without a session, read as often as it takes. `enough` says whether the last reading may be answered at once.

    A partition of which nobody knows does not end the wait, unless nothing else is asked for: as in Kafka.
    """

    session_id = NO_SESSION
    """Of the session that goes on."""
    __slots__ = (
        "_check_cost",
        "_left",
        "_looks",
        "_readable",
        "_unknown",
        "body",
        "enough",
        "replica_id",
        "request",
        "rooms",
        "size",
        "stable_offset_for_all",
        "until_ms",
        "version",
    )

    def __init__(self, rooms: FetchRooms, request: Request[FetchRequest]) -> None:
        self.rooms = rooms
        self.request = request
        self.body = request.body
        self.until_ms = request.now.mono_ms + request.body.max_wait_ms
        self.version = request.version
        self.stable_offset_for_all = request.release.stable_offset_for_all
        self.replica_id = replica_id(request.body)
        self._looks = 0

    def keys(self) -> tuple[Hashable, ...]:
        """What to wait on: every partition asked for."""
        return tuple(
            ("partition", self._name(topic) or "", part.partition) for topic in self.body.topics for part in topic.partitions
        )

    def attempt(self, now: Now, expired: bool) -> Reply | None:
        """Read every partition in the request's order, within `max_bytes`; the first with data gives a whole batch (KIP-74).

        None if that is not enough and time is left. What was read is not kept then: many may wait, for many partitions.
        """
        self._begin()
        topics = [self._topic(topic) for topic in self.body.topics]
        self._end()
        return self._answer(FetchResponse(responses=topics), now) if self.enough or expired or not topics else None

    def _answer(self, response: FetchResponse, now: Now) -> Reply:
        """What was read, in a format that the version knows."""
        if self.version >= BATCHES_FROM:
            return response
        left = self.rooms.settings.value.fetch_max_bytes
        old = OldFetch(self.rooms.partitions, self.body, self.version, response, left)
        return self.rooms.purgatory.run(old.converted(self.rooms.checks))

    def _begin(self) -> None:
        self._readable = None if self.rooms.rights.is_open else _readable(self.request, self.rooms.rights)
        self._left = min(self.body.max_bytes, self.rooms.settings.value.fetch_max_bytes)
        if self.rooms.quotas.is_on and (self.rooms.followers is None or self.replica_id < 0):
            self._left = self.rooms.quotas.readable(self.request.peer.principal, self.request.client_id, self._left)
        self.size = self._unknown = self._check_cost = 0
        self.enough = False
        self._looks += 1

    def _end(self) -> None:
        if self.size >= self.body.min_bytes or self._left <= 0 or (self._unknown and self._unknown == self._count()):
            self.enough = True

    def _count(self) -> int:
        return sum(len(topic.partitions) for topic in self.body.topics)

    def _terms(self) -> Hashable:
        """What of a request, beside its partitions, decides how far they are read."""
        return self.body.isolation_level, self.version < ZSTD_FROM, self.rooms.rights.changes

    def until(self, held: Held, data: PartitionData) -> int:
        """Where reading ends: the last stable offset for readers of committed records, the high watermark for others.

        A follower reads to the end of the log.
        """
        if self.replica_id >= 0 and self.rooms.followers is not None:
            partition = self.rooms.partitions.get(held.topic or "", held.partition)
            return data.high_watermark if partition is None or partition.offline is not None else partition.log.log_end_offset
        return data.last_stable_offset if self.body.isolation_level == READ_COMMITTED else data.high_watermark

    def _name(self, topic: FetchRequest.FetchTopic) -> str | None:
        return topic.topic if self.version < TOPIC_IDS_FROM else self.rooms.cluster.name_of(topic.topic_id)

    def _topic(self, topic: FetchRequest.FetchTopic) -> TopicResponse:
        name = self._name(topic)
        if name is None:
            parts = [self._nobodys(part, UNKNOWN_TOPIC_ID) for part in topic.partitions]
        else:
            parts = [self._partition(name, part) for part in topic.partitions]
        return TopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=parts)

    def _partition(self, topic: str, part: Asked, topic_id: bytes | None = None) -> PartitionData:
        if self._readable is not None and not self._readable[topic]:
            return self._nobodys(part, TOPIC_AUTHORIZATION_FAILED)
        partition = self.rooms.partitions.get(topic, part.partition)
        if partition is None:
            return self._nobodys(part, self.rooms.partitions.absent_error(topic, part.partition))
        if topic_id is not None and topic_id != partition.topic_id:
            return self._failed(part, INCONSISTENT_TOPIC_ID)
        followers, diverging = None if partition.replicas is None else self.rooms.followers, None
        if followers is None:
            error_code = partition.leader_error(part.current_leader_epoch)
        else:
            error_code = followers.error(partition, self.replica_id, part.current_leader_epoch, self.version)
            diverging = None if error_code or self.replica_id < 0 else followers.diverging(partition, part)
        if self.version < ZSTD_FROM and partition.config.compression_type == "zstd" and partition.offline is None:
            error_code = UNSUPPORTED_COMPRESSION_TYPE  # KIP-110: whatever codec the batches at hand have
        sought = not error_code and diverging is None
        if sought and not partition.log.log_start_offset <= part.fetch_offset <= partition.log.log_end_offset:
            error_code = OFFSET_OUT_OF_RANGE
        if error_code:
            return self._failed(part, error_code)
        return self._records(partition, part) if followers is None else self._of_replica(partition, part, followers, diverging)

    def _of_replica(self, partition: Partition, part: Asked, followers: Followers, diverging: EpochEnd | None) -> PartitionData:
        """Of a log that others replicate followers read all, and are noted; consumers may be sent to one of them (KIP-392)."""
        preferred = None
        if self.replica_id < 0 and self.body.rack_id:
            preferred = followers.preferred(partition, part.fetch_offset, self.body.rack_id)
        elif self.replica_id >= 0 and diverging is None and self._looks == 1:  # once, however often it is looked at while it waits
            state = self.body.replica_state
            followers.fetched(
                partition, self.replica_id, part, NO_EPOCH if state is None else state.replica_epoch, self.request.now
            )
        until = None if self.replica_id < 0 else partition.log.log_end_offset
        if preferred is not None or diverging is not None:
            self.enough, until = True, NOTHING
        elif self.replica_id >= 0 and followers.is_held_back(partition, self.replica_id):
            until = NOTHING
        data = self._records(partition, part, until)
        if preferred is not None:
            data.preferred_read_replica = preferred
        if diverging is not None:
            data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
        if self.replica_id >= 0:
            followers.sent(partition, data)
        return data

    def _records(self, partition: Partition, part: Asked, until: int | None = None) -> PartitionData:
        """The records below `until`, or all that whoever asks may see."""
        committed = self.body.isolation_level == READ_COMMITTED
        if until is None:
            until = partition.last_stable_offset if committed else partition.high_watermark
        data = PartitionData(
            partition_index=part.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset if committed or self.stable_offset_for_all else NO_OFFSET,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=[] if committed else None,
            records=b"",
        )
        if part.fetch_offset < until:
            max_bytes = min(part.partition_max_bytes, self._left)
            if max_bytes < 0:
                return self._failed(part, UNKNOWN_SERVER_ERROR)
            if max_bytes > 0 or not self.size or self.version < BATCHES_FROM:
                self._slice(partition, part, data, max_bytes, until)
        return data

    def _slice(self, partition: Partition, part: Asked, data: PartitionData, max_bytes: int, until: int) -> None:
        min_one_batch = not self.size or self.version < BATCHES_FROM  # what is converted is cut afterwards
        log = partition.log
        before = log.check_cost
        try:
            found = log.read(
                part.fetch_offset,
                max_bytes,
                until_offset=until,
                min_one_batch=min_one_batch,
                may_check=self._check_cost < MOST_COST,
            )
        except StorageFailed as failure:
            data.error_code = CORRUPT_MESSAGE if isinstance(failure, Damaged) else self._known(KAFKA_STORAGE_ERROR)
            self.enough = True
            return
        self._check_cost += log.check_cost - before
        self.enough |= isinstance(found, FirstPart)  # nobody would wake who waits for the rest
        if found is not None and found.size:
            data.records = found
            if self.body.isolation_level == READ_COMMITTED:
                data.aborted_transactions = [
                    AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
                    for entry in partition.log.aborted_transactions(part.fetch_offset, until)
                ]
            self.size += found.size
            self._left = max(0, self._left - found.size)

    def _nobodys(self, part: Asked, error_code: int) -> PartitionData:
        self._unknown += 1
        return PartitionData(partition_index=part.partition, error_code=error_code, high_watermark=-1, records=b"")

    def _failed(self, part: Asked, error_code: int) -> PartitionData:
        self.enough = True
        return PartitionData(partition_index=part.partition, error_code=self._known(error_code), high_watermark=-1, records=b"")

    def _known(self, error_code: int) -> int:
        """Older clients know no storage error (KIP-112): another leader is what they are to look for."""
        return NOT_LEADER_OR_FOLLOWER if error_code == KAFKA_STORAGE_ERROR and self.version < STORAGE_ERROR_FROM else error_code


class _LargeFetch(_Fetch):
    """A fetch of so many partitions that they are read, and their answers written, a block at a time."""

    __slots__ = ("_first", "_in_all", "_is_answered", "_session", "_whole")

    def __init__(self, rooms: FetchRooms, request: Request[FetchRequest], whole: Whole) -> None:
        super().__init__(rooms, request)
        self._whole = whole
        self._session: FetchSession | None = None
        self._first: FetchResponse | None = None
        self._in_all = 0
        self._is_answered = False

    def begin_session(self, size: int, now: Now) -> None:
        self._session = _new_session(self, size, now)

    def look(self) -> Steps[BlockWriter | Close]:
        """Read every partition, and write what there is to say of it."""
        self._begin()
        self._first, self._in_all, converted = None, 0, 0
        writer = BlockWriter(self.version, ANSWERED)
        for block in self._whole.reader.blocks():
            part = replace(self.request, body=self._whole.reader.part(block), whole=None)
            refused = self._whole.admit(part)
            if refused is not None and not isinstance(refused, FetchResponse):
                return refused if isinstance(refused, Close) else Close("its topics may not be read")
            response = self._read(part.body) if refused is None else refused
            if self.version < BATCHES_FROM:
                left = max(0, self.rooms.settings.value.fetch_max_bytes - converted)
                yield from OldFetch(self.rooms.partitions, part.body, self.version, response, left).converted(self.rooms.checks)
                converted += sum(len(data.records or b"") for topic in response.responses for data in topic.partitions)
            self._first = self._first or response
            writer.add(self._whole.tell(part, response))
            if writer.size > MOST_RESPONSE_BYTES + self.size:
                return too_large(self.request)
            yield None
        self._end()
        return writer

    def encoded(self, writer: BlockWriter, now: Now) -> Encoded:
        """The answer, of what was read last."""
        session = self._session
        if session is not None and self._first is not None and not session.is_over:
            self._first.session_id = session.id
            self.rooms.sessions.touch(session, now.mono_ms)
            self._is_answered = True
        return Encoded(writer.parts())

    def leave(self) -> None:
        """End a session of which no client heard."""
        if self._session is not None and not self._is_answered:
            self.rooms.sessions.end(self._session.id)

    def _read(self, body: FetchRequest) -> FetchResponse:
        self._check_cost = 0  # others had their turn
        topics = [self._topic(topic) for topic in body.topics]
        self._in_all += sum(len(topic.partitions) for topic in topics)
        if self._session is not None:
            self.rooms.sessions.update(self._session, body.topics, (), self._terms())
            _note(self, self._session, body, topics)
        return FetchResponse(responses=topics)

    def _count(self) -> int:
        return self._in_all


def _new_session(reading: _Fetch, size: int, now: Now) -> FetchSession | None:
    """A session for the partitions of a full fetch, where there is room for one."""
    body = reading.body
    slots = reading.rooms.settings.value.max_incremental_fetch_session_cache_slots
    is_follower, uses_ids = replica_id(body) >= 0, reading.version >= TOPIC_IDS_FROM
    owner = reading.request.peer.principal
    session = reading.rooms.sessions.begin(owner, size, slots, now.mono_ms, privileged=is_follower, uses_ids=uses_ids)
    if session is not None and is_follower and reading.rooms.followers is not None:
        session.outside = {}
    return session


def _note(reading: _Fetch, session: FetchSession, body: FetchRequest, answered: list[TopicResponse]) -> None:
    """Let a session know what its client is told."""
    for topic, told_of in zip(body.topics, answered, strict=True):
        for part, data in zip(topic.partitions, told_of.partitions, strict=True):
            held = session.find(topic, part.partition)
            session.tell(held, data, reading.until(held, data))


class _FullFetch(_Fetch):
    """A fetch whose answer begins a session, where there is room for one."""

    __slots__ = ()

    def _answer(self, response: FetchResponse, now: Now) -> Reply:
        sessions = self.rooms.sessions
        session = _new_session(self, self._count(), now)
        if session is not None:
            sessions.update(session, self.body.topics, (), self._terms())
            sessions.touch(session, now.mono_ms)
            _note(self, session, self.body, response.responses)
            response.session_id = session.id
        return response


class _IncrementalFetch(_Fetch):
    """A fetch within a session: reads what may have changed, and answers what did."""

    __slots__ = ("_epoch", "_session", "session_id")

    def __init__(self, rooms: FetchRooms, request: Request[FetchRequest], session: FetchSession) -> None:
        super().__init__(rooms, request)
        rooms.sessions.update(session, self.body.topics, self.body.forgotten_topics_data, self._terms())
        rooms.sessions.advance(session, request.now.mono_ms)
        self._session = session
        self.session_id = session.id
        self._epoch = session.epoch

    def keys(self) -> tuple[Hashable, ...]:
        return (self._session.key,)

    def attempt(self, now: Now, expired: bool) -> Reply | None:
        """Read what may have changed. None if that is not enough, time is left and the session goes on."""
        session = self._session
        if len(session.due) > MANY:
            return self.rooms.purgatory.run(self._attempt_slowly(expired))
        self._begin()
        found = [(held, self._read_held(held)) for held in session.in_turn()]
        self._end()
        if not (self.enough or expired or session.is_over):
            return None
        if session.epoch != self._epoch:  # another connection went on with the session meanwhile
            return FetchResponse(error_code=INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        return FetchResponse(session_id=session.id, responses=self._news(found))

    def _attempt_slowly(self, expired: bool) -> Steps[Reply]:
        """The same where many partitions may have changed: again and again until there is enough."""
        session, purgatory = self._session, self.rooms.purgatory
        while True:
            wakes, began = purgatory.wakes, purgatory.now()
            self._begin()
            found = []
            for number, held in enumerate(session.in_turn(), 1):
                found.append((held, self._read_held(held)))
                if not number % READ_AT_ONCE:
                    yield None
            self._end()
            if self.enough or expired or session.is_over:
                return (yield from self._news_slowly(found))
            yield from _rested(purgatory, self.until_ms, wakes, purgatory.now().mono_ms - began.mono_ms)
            expired = purgatory.now().mono_ms >= self.until_ms

    def _news_slowly(self, found: list[tuple[Held, PartitionData]]) -> Steps[Reply]:
        session = self._session
        writer = BlockWriter(self.version, ANSWERED)
        for start in range(0, max(1, len(found)), READ_AT_ONCE):
            if session.epoch != self._epoch:
                return FetchResponse(error_code=INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
            news = FetchResponse(session_id=session.id, responses=self._news(found[start : start + READ_AT_ONCE]))
            writer.add(told(self.request, news))
            self.request.denied = None  # it is told once
            yield None
        return Encoded(writer.parts())

    def _news(self, found: list[tuple[Held, PartitionData]]) -> list[TopicResponse]:
        """What of it the client does not know."""
        session = self._session
        topics: list[TopicResponse] = []
        told: Hashable = None
        for held, data in found:
            if session.tell(held, data, self.until(held, data)):
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
            self.rooms.sessions.find_name(self._session, held)
        if held.topic is None:
            return self._nobodys(held, UNKNOWN_TOPIC_ID)
        return self._partition(held.topic, held, held.topic_id if self._session.uses_ids else None)
