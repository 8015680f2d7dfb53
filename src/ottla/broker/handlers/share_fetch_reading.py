"""Reads for ShareFetch: records are acquired from the share partitions of a session, and sent as slices of their logs.

Partitions are read in turn, the one first whose last response is the longest ago. A partition without records to acquire is not
read again until it changes. As in Kafka, errors of some partitions do not end the wait for records of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.broker.failures import Changes
from ottla.broker.handlers.fetch_reading import MANY, READ_AT_ONCE, wait_for_change
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.security.rights import YES, Rights
from ottla.broker.serving.parts import Budget
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.serving.request import Request
from ottla.broker.settings import SettingsInForce
from ottla.broker.share.acknowledgements import RecordAcknowledgements
from ottla.broker.share.led_share_partition import LedSharePartition
from ottla.broker.share.record_acquisition import UNCHECKED, Acquired, AcquireLimits, acquire, available_bytes
from ottla.broker.share.share_partitions import SharePartitions
from ottla.cluster.acls import Operation, Resource
from ottla.cluster.image import ClusterImage
from ottla.ports import Now, Steps
from ottla.share.partition import ShareStatus
from ottla.share.sessions import SharedPlace, ShareSession, ShareSessions
from ottla.wire.api.share_acknowledge import ShareAcknowledgeRequest
from ottla.wire.api.share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.wire.errors import (
    INVALID_SHARE_SESSION_EPOCH,
    NONE,
    SHARE_SESSION_NOT_FOUND,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR,
)

RECORD_LIMIT: Final = 1
"""The acquire mode in which a fetch returns no more records than it asked for (KIP-1206)."""
SOME_BYTES: Final = 1
"""The `min_bytes` that any record satisfies."""
MOST_REPORTED: Final = 1000
"""Partitions without records in one response. The next responses have the rest."""

PartitionData = ShareFetchResponse.PartitionData
TopicResponse = ShareFetchResponse.ShareFetchableTopicResponse
AcquiredRecords = ShareFetchResponse.AcquiredRecords


class ShareContext(NamedTuple):
    """The parts of the broker that ShareFetch and ShareAcknowledge use."""

    shares: SharePartitions
    sessions: ShareSessions
    cluster: ClusterImage
    settings: SettingsInForce
    purgatory: Purgatory
    quotas: ClientQuotas
    rights: Rights
    changes: Changes


def readable_topics(
    context: ShareContext, request: Request[ShareFetchRequest] | Request[ShareAcknowledgeRequest]
) -> Mapping[str, bool]:
    """Return by topic name whether the client may read a topic."""
    return YES if context.rights.is_open else context.rights.answers(request.peer, Operation.READ, Resource.TOPIC)


class ShareReading:
    """The results of one reading of a session's due partitions. `is_partial`: checks of records, or other partitions, are left."""

    __slots__ = ("acquired", "errors", "is_partial", "left_bytes", "left_records")

    def __init__(self, left_bytes: int, left_records: int) -> None:
        self.acquired: list[tuple[SharedPlace, Acquired]] = []
        self.errors: dict[SharedPlace, int] = {}
        self.is_partial = False
        self.left_bytes = left_bytes
        self.left_records = left_records


class ShareFetch:
    """A fetch of the due partitions of a session, read repeatedly until there are records or its time is over.

    With `is_new`, the session has new partitions, all of which are loaded at once.
    """

    __slots__ = (
        "_acknowledgements",
        "_context",
        "_epoch",
        "_is_first",
        "_is_new",
        "_max_bytes",
        "_request",
        "_session",
        "until_ms",
    )

    def __init__(
        self,
        context: ShareContext,
        request: Request[ShareFetchRequest],
        session: ShareSession,
        acknowledgements: RecordAcknowledgements,
        *,
        is_new: bool,
    ) -> None:
        self._context = context
        self._request = request
        self._session = session
        self._epoch = session.epoch
        self._acknowledgements = acknowledgements
        self._is_first = True
        self._is_new = is_new
        self.until_ms = request.now.mono_ms + request.body.max_wait_ms
        self._max_bytes = min(request.body.max_bytes, context.settings.value.fetch_max_bytes)
        if context.quotas.is_on:
            self._max_bytes = context.quotas.readable(request.peer.principal, request.client_id, self._max_bytes)

    def attempt(self, now: Now, expired: bool) -> Reply | None:
        """Acquire records, and return the reply. Return None to keep waiting, unless the time or the session is over."""
        if len(self._session.due) > MANY:
            return self._attempt_slowly(expired)
        if (error_code := self._session_error()) != NONE:
            return ShareFetchResponse(error_code=error_code)
        reading = self._new_reading()
        for _ in self._read(reading, now, is_last=expired):
            pass
        return self._answer(reading) if expired or self._is_enough(reading) else None

    def _attempt_slowly(self, expired: bool) -> Steps[Reply]:
        """Read many partitions in steps, until there are records or the time is over."""
        purgatory = self._context.purgatory
        while (error_code := self._session_error()) == NONE:
            wakes, began = purgatory.wakes, purgatory.now()
            reading = self._new_reading()
            yield from self._read(reading, began, is_last=expired)
            if expired or self._is_enough(reading):
                return self._answer(reading)
            yield from wait_for_change(purgatory, self.until_ms, wakes, purgatory.now().mono_ms - began.mono_ms)
            expired = purgatory.now().mono_ms >= self.until_ms
        return ShareFetchResponse(error_code=error_code)

    def _session_error(self) -> int:
        """Return the error if another request has ended or continued the session, so that nothing may be acquired for this one."""
        if self._session.is_over:
            return SHARE_SESSION_NOT_FOUND
        return NONE if self._session.epoch == self._epoch else INVALID_SHARE_SESSION_EPOCH

    def _new_reading(self) -> ShareReading:
        return ShareReading(self._max_bytes, self._request.body.max_records)

    def _is_enough(self, reading: ShareReading) -> bool:
        """Return whether a response can be sent before the time is over. Errors end the wait if all partitions have one."""
        has_only_errors = bool(reading.errors) and len(reading.errors) == len(self._session.held)
        return bool(reading.acquired) or reading.is_partial or has_only_errors

    def _read(self, reading: ShareReading, now: Now, *, is_last: bool) -> Steps[None]:
        """Acquire records from due partitions, in steps if there are many."""
        session, budget = self._session, Budget(READ_AT_ONCE)
        readable = readable_topics(self._context, self._request)
        may_acquire = is_last or self._request.body.min_bytes <= SOME_BYTES or self._has_min_bytes(readable, now)
        for place in session.in_turn():
            if self._is_full(reading) and not self._is_new and self._max_bytes >= 0:
                break
            led = self._find(place, readable)
            if isinstance(led, int):
                reading.errors[place] = led
            elif led.machine.status is ShareStatus.LOADING:
                session.due.pop(place, None)
            elif self._max_bytes < 0:
                reading.errors[place] = UNKNOWN_SERVER_ERROR
            elif may_acquire and not self._is_full(reading):
                self._acquire(reading, place, led, now)
            yield from budget.spend()
        self._is_first = self._is_new = False

    def _is_full(self, reading: ShareReading) -> bool:
        return reading.left_records <= 0 or reading.left_bytes <= 0 or self._session.is_over

    def _find(self, place: SharedPlace, readable: Mapping[str, bool]) -> LedSharePartition | int:
        """Return the share partition at a place, or an error code."""
        if readable is not YES:
            name = self._context.cluster.name_of(place.key[0]) or place.topic
            if name is not None and not readable[name]:
                return TOPIC_AUTHORIZATION_FAILED
        return self._context.shares.find(self._session, place, may_load=self._is_first)

    def _has_min_bytes(self, readable: Mapping[str, bool], now: Now) -> bool:
        """Return whether the due partitions have as many bytes as the request waits for, if all of them can be acquired."""
        missing = min(self._request.body.min_bytes, self._max_bytes)
        for place in self._session.in_turn():
            led = self._find(place, readable)
            if not isinstance(led, int) and led.machine.status is ShareStatus.ACTIVE:
                missing -= available_bytes(self._context.shares, led, missing, now)
                if missing <= 0:
                    return True
        return False

    def _acquire(self, reading: ShareReading, place: SharedPlace, led: LedSharePartition, now: Now) -> None:
        session, body = self._session, self._request.body
        limits = AcquireLimits(
            reading.left_bytes,
            reading.left_records,
            body.batch_size,
            is_record_limited=body.share_acquire_mode == RECORD_LIMIT,
            min_one_batch=not reading.acquired,
        )
        found = acquire(self._context.shares, led, session.member_id, limits, now)
        if found is None:
            session.due.pop(place, None)
        elif isinstance(found, int):
            reading.errors[place] = found
            reading.is_partial = True  # as in Kafka, an error of a log ends the wait
        elif found is UNCHECKED:
            reading.is_partial = True
        else:
            reading.acquired.append((place, found))
            reading.left_bytes -= found.records.size
            for first_offset, last_offset, _ in found.ranges:
                reading.left_records -= last_offset - first_offset + 1
            traffic = led.partition.traffic
            traffic.fetches += 1
            traffic.bytes_out += found.records.size

    # The response

    def _answer(self, reading: ShareReading) -> Reply:
        """Return the response with acquired records, errors, and partitions that the member has not received yet."""
        session = self._session
        response = new_response(self._context, session.group_id)
        topics: dict[bytes, TopicResponse] = {}
        for place, (records, ranges) in reading.acquired:
            data = _data(topics, response, place)
            data.records = records
            data.acquired_records = [
                AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count) for first, last, count in ranges
            ]
            session.record_records(place)
        self._report(reading, topics, response)
        self._context.shares.counts.fetches += len(reading.acquired)
        return add_acknowledgements(response, topics, self._acknowledgements)

    def _report(self, reading: ShareReading, topics: dict[bytes, TopicResponse], response: ShareFetchResponse) -> None:
        """Add partitions without records: errors, and those that the response owes and that are not loading."""
        session, errors = self._session, reading.errors
        for place in list(errors)[:MOST_REPORTED]:
            _data(topics, response, place).error_code = errors[place]
            session.record(place, errors[place])
        for place in list(session.unreported)[:MOST_REPORTED]:
            led = None if place in errors else self._context.shares.get(session.group_id, *place.key)
            if led is not None and led.machine.status is ShareStatus.ACTIVE:
                _data(topics, response, place)
                session.record(place, NONE)


def new_response(context: ShareContext, group_id: str) -> ShareFetchResponse:
    """Return a response without partitions."""
    return ShareFetchResponse(acquisition_lock_timeout_ms=context.shares.config(group_id).limits.lock_duration_ms)


def _data(topics: dict[bytes, TopicResponse], response: ShareFetchResponse, place: SharedPlace) -> PartitionData:
    topic_id, index = place.key
    return _of_topic(topics, response, topic_id, index)


def _of_topic(topics: dict[bytes, TopicResponse], response: ShareFetchResponse, topic_id: bytes, index: int) -> PartitionData:
    """Add an empty partition to a response, and return it."""
    topic = topics.get(topic_id)
    if topic is None:
        topic = topics[topic_id] = TopicResponse(topic_id=topic_id, partitions=[])
        response.responses.append(topic)
    data = PartitionData(partition_index=index, records=b"")
    topic.partitions.append(data)
    return data


def add_acknowledgements(
    response: ShareFetchResponse, topics: dict[bytes, TopicResponse], acknowledgements: RecordAcknowledgements
) -> Reply:
    """Return the response with the results of the request's acknowledgements, once all of them are stored."""

    def finish() -> ShareFetchResponse:
        if not acknowledgements.results:
            return response
        present = {(topic.topic_id, data.partition_index): data for topic in response.responses for data in topic.partitions}
        for key, (error_code, message) in acknowledgements.results.items():
            data = present.get(key) or _of_topic(topics, response, *key)
            data.acknowledge_error_code, data.acknowledge_error_message = error_code, message
        return response

    return acknowledgements.reply(finish)
