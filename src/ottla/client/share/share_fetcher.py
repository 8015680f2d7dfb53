"""The share sessions of one consumer with the leaders of its partitions as a state machine (KIP-932).

Each leader has one request in flight at a time, because the requests of a session have successive epochs. A ShareFetch contains the
acknowledgements of records that the leader delivered before. ShareAcknowledge sends them if the user does not wait for records, and
if there are renewals. Leaders come from the metadata cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.connection.metadata import NO_LEADER, NO_TOPIC_ID, Metadata
from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.fetch_requests import FetchLimits
from ottla.client.consumer.fetcher import Chunk
from ottla.client.errors import KafkaError, broker_error
from ottla.client.share.acknowledgements import (
    AcknowledgementRun,
    AcknowledgeType,
    acknowledgement_batches,
    join_runs,
)
from ottla.client.share.deliveries import AcquiredBatches, Source, acquired_ranges
from ottla.client.types import TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ottla.wire.api.share_fetch import ShareFetchRequest, ShareFetchResponse

INITIAL_EPOCH, FINAL_EPOCH, LAST_EPOCH = 0, -1, (1 << 31) - 1
SESSION_LOST = frozenset({codes.SHARE_SESSION_NOT_FOUND, codes.INVALID_SHARE_SESSION_EPOCH})
LEADER_MOVED = frozenset({codes.NOT_LEADER_OR_FOLLOWER, codes.FENCED_LEADER_EPOCH})
TOPIC_CHANGED = frozenset({codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID, codes.INCONSISTENT_TOPIC_ID})
RECORDS_LOST = LEADER_MOVED | SESSION_LOST | TOPIC_CHANGED
"""The errors after which the leader no longer holds the records for this member, so that acknowledgements are not repeated."""
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
Place = tuple[bytes, int]
"""A topic id and a partition number, as requests name partitions."""


class FetchMode(NamedTuple):
    """How brokers choose the records to acquire (KIP-1206): whole batches, or at most `max_records`."""

    max_records: int
    record_limit: bool


@dataclass(slots=True, eq=False)
class Acknowledgement:
    """Acknowledgements of records of one partition, until the leader's answer. After `until_ms`, they are not sent again."""

    source: Source
    runs: list[AcknowledgementRun]
    until_ms: int

    @property
    def has_renewals(self) -> bool:
        return any(run.kind == AcknowledgeType.RENEW for run in self.runs)


class Acknowledged(NamedTuple):
    """The outcome of an `Acknowledgement`: the error, or None."""

    acknowledgement: Acknowledgement
    error: KafkaError | None


@dataclass(slots=True)
class LeaderSession:
    """The share session with one leader.

    `number` counts the connections: when one breaks, the leader releases the records acquired on it.
    """

    node_id: int
    number: int = 0
    epoch: int = INITIAL_EPOCH
    partitions: dict[Place, TopicPartition] = field(default_factory=dict)
    queued: list[Acknowledgement] = field(default_factory=list)
    in_flight: PlannedShareRequest | None = None
    not_before_ms: int = 0


class PlannedShareRequest(NamedTuple):
    """A request to send to `node_id`. Pass this object back with the answer. `partitions` are those in the session afterwards."""

    node_id: int
    body: ShareFetchRequest | ShareAcknowledgeRequest
    acknowledgements: Sequence[Acknowledgement]
    partitions: Mapping[Place, TopicPartition]

    @property
    def is_fetch(self) -> bool:
        return isinstance(self.body, ShareFetchRequest)


@dataclass(slots=True)
class ShareFetcher:
    """The state machine of all share sessions of one consumer, without sockets. `wants_records` is whether the user waits."""

    metadata: Metadata
    limits: FetchLimits
    mode: FetchMode
    group_id: str
    member_id: str
    open_cursor: Callable[[Chunk], Cursor] = Cursor
    check_crcs: bool = True
    retry_backoff_ms: int = 100
    wants_records: bool = False
    wants_metadata: set[str] = field(default_factory=set)
    failure: KafkaError | None = None
    acquisition_lock_timeout_ms: int | None = None
    """The time, in ms, for which delivered records stay with this consumer; None before the first answer."""
    outcomes: list[Acknowledged] = field(default_factory=list)
    """The finished acknowledgements, for the caller to remove."""
    _assigned: list[TopicPartition] = field(default_factory=list)
    _topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    _sessions: dict[int, LeaderSession] = field(default_factory=dict)
    _buffered: deque[AcquiredBatches] = field(default_factory=deque)
    _last_node_id: int = NO_LEADER
    """The leader that got the last fetch with `record_limit`. The next one has its turn then."""

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        """Return the assigned partitions."""
        return self._assigned

    def assign(self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, bytes]) -> None:
        """Fetch exactly these partitions from now on. Records that were acquired from others can still be acknowledged.

        A topic that was deleted and created again has another id than in `topic_ids`. It is not fetched until it is assigned,
        because the group has no state of it yet.
        """
        self._assigned, self._topic_ids = sorted(partitions), topic_ids

    # --- acknowledgements

    def acknowledge(self, source: Source, runs: list[AcknowledgementRun], until_ms: int) -> None:
        """Queue acknowledgements of records. They fail at once if the session that acquired the records has ended."""
        if not runs:
            return
        made = Acknowledgement(source, runs, until_ms)
        session = self._sessions.get(source.node_id)
        if session is None or session.number != source.session_number:
            self._finish([made], _connection_lost(source))
        else:
            session.queued.append(made)

    def list_pending(self) -> list[Acknowledgement]:
        """Return the acknowledgements without an outcome yet."""
        found: list[Acknowledgement] = []
        for session in self._sessions.values():
            found += session.queued
            if session.in_flight is not None:
                found += session.in_flight.acknowledgements
        return found

    def _finish(self, acknowledgements: Iterable[Acknowledgement], error: KafkaError | None) -> None:
        self.outcomes += [Acknowledged(each, error) for each in acknowledgements]

    # --- requests

    def requests(self, now_ms: int) -> list[PlannedShareRequest]:
        """Return the requests to send now, at most one to each leader."""
        by_node = self._by_leader() if self.wants_records and self.is_idle else {}
        for node_id in by_node:
            self._sessions.setdefault(node_id, LeaderSession(node_id))
        fetched = self._nodes_to_fetch(by_node, now_ms)
        made: list[PlannedShareRequest] = []
        for node_id, session in self._sessions.items():
            if session.in_flight is not None or now_ms < session.not_before_ms:
                continue
            planned = self._plan(session, by_node[node_id] if node_id in fetched else None)
            if planned is not None:
                session.in_flight = planned
                made.append(planned)
        return made

    def _by_leader(self) -> dict[int, dict[Place, TopicPartition]]:
        found: dict[int, dict[Place, TopicPartition]] = {}
        for where in self._assigned:
            node_id, topic_id = self.metadata.leader(*where), self.metadata.topic_id(where.topic)
            if node_id == NO_LEADER or topic_id == NO_TOPIC_ID:
                self.wants_metadata.add(where.topic)
            elif topic_id == self._topic_ids.get(where.topic):
                found.setdefault(node_id, {})[topic_id, where.partition] = where
        return found

    def _nodes_to_fetch(self, by_node: Collection[int], now_ms: int) -> Collection[int]:
        """Return the leaders to fetch from: with `record_limit` one at a time, so that no more records are acquired."""
        if not self.mode.record_limit:
            return by_node
        if any(session.in_flight is not None and session.in_flight.is_fetch for session in self._sessions.values()):
            return ()
        free = sorted(node_id for node_id in by_node if self._is_free(self._sessions[node_id], now_ms))
        if not free:
            return ()
        self._last_node_id = next((node_id for node_id in free if node_id > self._last_node_id), free[0])
        return (self._last_node_id,)

    def _is_free(self, session: LeaderSession, now_ms: int) -> bool:
        has_renewals = any(each.has_renewals for each in session.queued)
        return session.in_flight is None and now_ms >= session.not_before_ms and not has_renewals

    def _plan(self, session: LeaderSession, wanted: Mapping[Place, TopicPartition] | None) -> PlannedShareRequest | None:
        """Return the next request of a session: a fetch of the `wanted` partitions, acknowledgements, or None."""
        if session.epoch == INITIAL_EPOCH:
            if wanted is None:
                failed, session.queued = session.queued, []
                self._finish(failed, broker_error(codes.SHARE_SESSION_NOT_FOUND, "Acknowledging"))
                return None
            return self._plan_fetch(session, wanted, [])
        # A fetch takes no acknowledgements of other partitions along, and the next chance could come after their locks.
        if wanted is None or any(each.has_renewals or _place(each) not in wanted for each in session.queued):
            return self._plan_acknowledge(session, session.epoch) if session.queued else None
        sent, session.queued = session.queued, []
        return self._plan_fetch(session, wanted, sent)

    def _plan_fetch(
        self, session: LeaderSession, wanted: Mapping[Place, TopicPartition], sent: list[Acknowledgement]
    ) -> PlannedShareRequest:
        batches = _batches(sent)
        known = session.partitions
        partition, topic = ShareFetchRequest.FetchPartition, ShareFetchRequest.FetchTopic
        topics = [
            topic(
                topic_id=topic_id,
                partitions=[
                    partition(partition_index=index, acknowledgement_batches=batches.get((topic_id, index), []))
                    for index in indexes
                ],
            )
            for topic_id, indexes in _by_topic(place for place in wanted if place not in known or place in batches)
        ]
        forgotten = [
            ShareFetchRequest.ForgottenTopic(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in _by_topic(place for place in known if place not in wanted)
        ]
        body = ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=self.limits.fetch_max_wait_ms,
            min_bytes=self.limits.fetch_min_bytes,
            max_bytes=self.limits.fetch_max_bytes,
            max_records=self.mode.max_records,
            batch_size=self.mode.max_records,
            share_acquire_mode=RECORD_LIMIT if self.mode.record_limit else BATCH_OPTIMIZED,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        return PlannedShareRequest(session.node_id, body, sent, wanted)

    def _plan_acknowledge(self, session: LeaderSession, epoch: int) -> PlannedShareRequest:
        sent, session.queued = session.queued, []
        batches = _batches(sent)
        partition, topic = ShareAcknowledgeRequest.AcknowledgePartition, ShareAcknowledgeRequest.AcknowledgeTopic
        body = ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=epoch,
            is_renew_ack=any(each.has_renewals for each in sent),
            topics=[
                topic(
                    topic_id=topic_id,
                    partitions=[
                        partition(partition_index=index, acknowledgement_batches=batches[topic_id, index]) for index in indexes
                    ],
                )
                for topic_id, indexes in _by_topic(batches)
            ],
        )
        return PlannedShareRequest(session.node_id, body, sent, session.partitions)

    def closing_requests(self) -> list[PlannedShareRequest]:
        """Return the requests that close the sessions: with the queued acknowledgements. Leaders release all other records.

        No request may be in flight.
        """
        self._buffered.clear()
        made: list[PlannedShareRequest] = []
        for session in self._sessions.values():
            if session.epoch != INITIAL_EPOCH:
                session.in_flight = self._plan_acknowledge(session, FINAL_EPOCH)
                made.append(session.in_flight)
        return made

    @property
    def has_requests(self) -> bool:
        """Return whether a request is in flight."""
        return any(session.in_flight is not None for session in self._sessions.values())

    def next_wake_ms(self, now_ms: int) -> int | None:
        """Return the time at which a session that waits after an error may send a request; None if none waits."""
        waiting = [
            session.not_before_ms
            for session in self._sessions.values()
            if session.in_flight is None and session.not_before_ms > now_ms and (self.wants_records or session.queued)
        ]
        return min(waiting, default=None)

    # --- answers

    def on_fetch(self, planned: PlannedShareRequest, answer: ShareFetchResponse, sent_ms: int, now_ms: int) -> None:
        """Process the answer to a ShareFetch request that was sent at `sent_ms`."""
        session = self._sessions[planned.node_id]
        session.in_flight = None
        if answer.error_code:
            self._fail_request(session, planned, answer.error_code, answer.error_message, now_ms)
            return
        self._advance(session, planned)
        lock_ms = answer.acquisition_lock_timeout_ms
        self.acquisition_lock_timeout_ms = lock_ms or self.acquisition_lock_timeout_ms
        self._note_addresses(answer.node_endpoints)
        results: dict[Place, int] = {}
        messages: dict[Place, str | None] = {}
        for topic in answer.responses:
            for found in topic.partitions:
                place = topic.topic_id, found.partition_index
                results[place], messages[place] = found.acknowledge_error_code, found.acknowledge_error_message
                where = planned.partitions.get(place)
                if where is None:
                    continue
                if found.error_code:
                    self._on_partition_error(session, where, found, now_ms)
                elif found.acquired_records:
                    # The locks begin after the request was sent: a deadline from then is never too late.
                    deadline_ms = sent_ms + (lock_ms or LAST_EPOCH)
                    source = Source(where, topic.topic_id, session.node_id, session.number, deadline_ms)
                    self._buffer(source, found)
        self._resolve(session, planned, results, messages, now_ms)

    def _buffer(self, source: Source, found: ShareFetchResponse.PartitionData) -> None:
        self._buffered.append(
            AcquiredBatches(
                source,
                memoryview(found.records or b""),
                acquired_ranges(found.acquired_records),
                check_crcs=self.check_crcs,
                open_cursor=self.open_cursor,
            )
        )

    def on_acknowledge(self, planned: PlannedShareRequest, answer: ShareAcknowledgeResponse, now_ms: int) -> None:
        """Process the answer to a ShareAcknowledge request."""
        session = self._sessions[planned.node_id]
        session.in_flight = None
        if planned.body.share_session_epoch == FINAL_EPOCH:
            del self._sessions[planned.node_id]
        if answer.error_code:
            self._fail_request(session, planned, answer.error_code, answer.error_message, now_ms)
            return
        self._advance(session, planned)
        self.acquisition_lock_timeout_ms = answer.acquisition_lock_timeout_ms or self.acquisition_lock_timeout_ms
        self._note_addresses(answer.node_endpoints)
        results: dict[Place, int] = {}
        messages: dict[Place, str | None] = {}
        for topic in answer.responses:
            for found in topic.partitions:
                place = topic.topic_id, found.partition_index
                results[place], messages[place] = found.error_code, found.error_message
                if found.error_code in LEADER_MOVED and (where := planned.partitions.get(place)) is not None:
                    self._move_leader(where, found.current_leader)
        self._resolve(session, planned, results, messages, now_ms)

    def _advance(self, session: LeaderSession, planned: PlannedShareRequest) -> None:
        session.epoch = 1 if session.epoch == LAST_EPOCH else session.epoch + 1
        session.partitions = dict(planned.partitions)

    def _resolve(
        self,
        session: LeaderSession,
        planned: PlannedShareRequest,
        results: Mapping[Place, int],
        messages: Mapping[Place, str | None],
        now_ms: int,
    ) -> None:
        """Finish the acknowledgements of an answered request, or queue them again after an error that can pass."""
        for each in planned.acknowledgements:
            code = results.get(_place(each), codes.UNKNOWN_SERVER_ERROR)
            if not code:
                self._finish([each], None)
                continue
            where = each.source.where
            error = broker_error(code, f"Acknowledging {where.topic}-{where.partition}", messages.get(_place(each)))
            is_over = planned.body.share_session_epoch == FINAL_EPOCH or now_ms >= each.until_ms
            if error.retriable and code not in RECORDS_LOST and not is_over:
                session.queued.append(each)
                session.not_before_ms = now_ms + self.retry_backoff_ms
            else:
                self._finish([each], error)

    def _fail_request(
        self, session: LeaderSession, planned: PlannedShareRequest, code: int, message: str | None, now_ms: int
    ) -> None:
        """Process the error of a whole request: begin a new session, after a pause unless the session alone was lost."""
        error = broker_error(code, f"Share group {self.group_id}", message)
        session.epoch, session.partitions = INITIAL_EPOCH, {}
        self._finish(planned.acknowledgements, error)
        if code not in SESSION_LOST:
            session.not_before_ms = now_ms + self.retry_backoff_ms
            if not error.retriable:
                self.failure = error

    def _on_partition_error(
        self, session: LeaderSession, where: TopicPartition, found: ShareFetchResponse.PartitionData, now_ms: int
    ) -> None:
        code = found.error_code
        error = broker_error(code, f"Fetching {where.topic}-{where.partition}", found.error_message)
        if code in LEADER_MOVED:
            self._move_leader(where, found.current_leader)
        elif code in TOPIC_CHANGED:
            self.wants_metadata.add(where.topic)
        elif not error.retriable:
            self.failure = error
        session.not_before_ms = now_ms + self.retry_backoff_ms

    def _move_leader(self, where: TopicPartition, leader: ShareFetchResponse.LeaderIdAndEpoch) -> None:
        """Use the leader that a broker names in place of itself, or request metadata."""
        if not self.metadata.set_leader(*where, leader.leader_id, leader.leader_epoch):
            self.metadata.forget_leader(*where)
            self.wants_metadata.add(where.topic)

    def _note_addresses(self, nodes: Iterable[ShareFetchResponse.NodeEndpoint]) -> None:
        for node in nodes:
            self.metadata.set_address(node.node_id, node.host, node.port)

    def broken(self, planned: PlannedShareRequest, error: KafkaError, now_ms: int) -> None:
        """Process the loss of an answer: the connection has ended, and with it the session and its acquired records."""
        session = self._sessions[planned.node_id]
        lost = [*planned.acknowledgements, *session.queued]
        before, session.number = session.number, session.number + 1
        session.in_flight, session.queued = None, []
        session.epoch, session.partitions = INITIAL_EPOCH, {}
        session.not_before_ms = now_ms + self.retry_backoff_ms
        self._buffered = deque(
            each for each in self._buffered if (each.source.node_id, each.source.session_number) != (session.node_id, before)
        )
        self._finish(lost, error)
        self.wants_metadata.update(where.topic for where in planned.partitions.values())
        if not error.retriable:
            self.failure = error
        if planned.body.share_session_epoch == FINAL_EPOCH:
            del self._sessions[planned.node_id]

    # --- records

    @property
    def is_idle(self) -> bool:
        """Return whether there is neither a buffered record nor an error for the user."""
        return not self._buffered and self.failure is None

    def next_batches(self, now_ms: int) -> AcquiredBatches | None:
        """Return the next batches to open, or None. Skip batches whose locks have ended. Raises the error of a fetch."""
        while self._buffered:
            found = self._buffered[0]
            if found.source.deadline_ms <= now_ms or found.is_opened:
                self._buffered.popleft()
            else:
                return found
        if (error := self.failure) is not None:
            self.failure = None
            raise error
        return None

    def drop_batches(self) -> None:
        """Forget the buffered batches, because the consumer reads no more."""
        self._buffered.clear()


def _place(acknowledgement: Acknowledgement) -> Place:
    return acknowledgement.source.topic_id, acknowledgement.source.where.partition


def _connection_lost(source: Source) -> KafkaError:
    where = source.where
    return KafkaError(
        f"The connection to broker {source.node_id} broke after it delivered records of {where.topic}-{where.partition}: "
        "the group delivers them again."
    )


def _batches(sent: Iterable[Acknowledgement]) -> dict[Place, list[ShareFetchRequest.AcknowledgementBatch]]:
    runs: dict[Place, list[AcknowledgementRun]] = {}
    for each in sent:
        runs.setdefault(_place(each), []).extend(each.runs)
    return {place: acknowledgement_batches(join_runs(found)) for place, found in runs.items()}


def _by_topic(places: Iterable[Place]) -> Iterator[tuple[bytes, list[int]]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in places:
        topics.setdefault(topic_id, []).append(index)
    return iter(topics.items())
