"""Reads for fetches: each partition within the request's limits, and the state that a fetch session keeps of it.

Batches are neither decompressed nor copied, except before version 4. Version 4 has batches in their stored format and
READ_COMMITTED, 5 log_start_offset, 6 KAFKA_STORAGE_ERROR, 10 zstd, 12 the diverging epoch (KIP-595), 13 topic ids.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from ottla.broker.long_checks import LongChecks
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.traffic import TopicTraffic
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.exemptions import replica_id
from ottla.broker.replication.follower_fetches import Followers
from ottla.broker.security.rights import NO, YES, Rights
from ottla.broker.serving.down_conversion import OldFetch
from ottla.broker.serving.fetch_sessions import NO_EPOCH, NO_SESSION, FetchSession, FetchSessions, Held
from ottla.broker.serving.purgatory import Purgatory, Reply
from ottla.broker.serving.request import Request
from ottla.broker.settings import SettingsInForce
from ottla.cluster.acls import CLUSTER_NAME, Operation, Resource
from ottla.cluster.image import ClusterImage
from ottla.cluster.replicas.follower import EpochEnd
from ottla.log.errors import Damaged
from ottla.log.slice_reader import FirstPart
from ottla.ports import Now, Steps, StorageFailed
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.errors import (
    CORRUPT_MESSAGE,
    INCONSISTENT_TOPIC_ID,
    KAFKA_STORAGE_ERROR,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_ID,
    UNSUPPORTED_COMPRESSION_TYPE,
)

BATCHES_FROM = 4
STORAGE_ERROR_FROM = 6
ZSTD_FROM = 10
TOPIC_IDS_FROM = 13
READ_COMMITTED = 1
NO_OFFSET = NOTHING = -1
READ_AT_ONCE = 200
ANSWERED = ("responses", "partitions")
MOST_COST = 4000
"""Upper limit, per request, of the cost to verify data not read since startup (`Log.check_cost`): about two milliseconds."""
MANY = 500
"""Upper limit of partitions read in one step. A fetch of more partitions is read in several steps, and less often."""
REST_MS = 5
REST_FACTOR = 4
LONGEST_REST_MS = 1000
IDLE_REST_MS = 50
"""Pauses, in ms, between readings of a fetch with many partitions, which a change of one partition does not wake.

A pause is 5 ms plus four times the duration of the last reading. It consists of sleeps of at most a second, so that a closed
connection is noticed. If nothing has changed by then, sleeps of `IDLE_REST_MS` follow.
"""

TopicResponse = FetchResponse.FetchableTopicResponse
PartitionData = FetchResponse.PartitionData
AbortedTransaction = FetchResponse.AbortedTransaction
FetchPartition = FetchRequest.FetchPartition
Asked = FetchPartition | Held


class FetchContext(NamedTuple):
    """The parts of the broker that a fetch uses."""

    partitions: Partitions
    cluster: ClusterImage
    settings: SettingsInForce
    sessions: FetchSessions
    purgatory: Purgatory
    checks: LongChecks
    quotas: ClientQuotas
    rights: Rights
    followers: Followers


def _readable(request: Request[FetchRequest], rights: Rights) -> Mapping[str, bool]:
    """Return by topic name whether a client may read a topic. Followers with permission for cluster actions may read all."""
    if replica_id(request.body) < 0:
        return rights.answers(request.peer, Operation.READ, Resource.TOPIC)
    return YES if rights.may(request.peer, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME) else NO


class Fetch:
    """A fetch of named partitions, read repeatedly. `enough` is set if the last reading can be returned at once.

    As in Kafka, unknown partitions end the wait only if all partitions are unknown. With `begins_session`, the response begins a
    session if there is room for one.
    """

    session_id = NO_SESSION
    """The id of the continued session."""
    __slots__ = (
        "_begins_session",
        "_check_cost",
        "_left",
        "_looks",
        "_readable",
        "_sent",
        "_unknown",
        "body",
        "context",
        "enough",
        "replica_id",
        "request",
        "size",
        "stable_offset_for_all",
        "until_ms",
        "version",
    )

    def __init__(self, context: FetchContext, request: Request[FetchRequest], *, begins_session: bool = False) -> None:
        self.context = context
        self._begins_session = begins_session
        self.request = request
        self.body = request.body
        self.until_ms = request.now.mono_ms + request.body.max_wait_ms
        self.version = request.version
        self.stable_offset_for_all = request.release.stable_offset_for_all
        self.replica_id = replica_id(request.body)
        self._looks = 0

    def keys(self) -> tuple[Hashable, ...]:
        """Return the keys to wait on: every requested partition."""
        return tuple(
            ("partition", self._name(topic) or "", part.partition) for topic in self.body.topics for part in topic.partitions
        )

    def attempt(self, now: Now, expired: bool) -> Reply | None:
        """Read every partition in the request's order, within `max_bytes`. The first batch is always whole (KIP-74).

        Return None if the data is insufficient and time is left. The data is then dropped, because many fetches can wait at once.
        """
        self._begin()
        topics = [self._topic(topic) for topic in self.body.topics]
        self._end()
        if not (self.enough or expired or not topics):
            return None
        self._count_sent()
        return self._answer(FetchResponse(responses=topics), now)

    def _answer(self, response: FetchResponse, now: Now) -> Reply:
        """Return the data in a format of the request's version."""
        if self._begins_session:
            self._begin_session(response, now)
        if self.version >= BATCHES_FROM:
            return response
        left = self.context.settings.value.fetch_max_bytes
        old = OldFetch(self.context.partitions, self.body, self.version, response, left)
        return old.convert(self.context.checks)

    def _begin_session(self, response: FetchResponse, now: Now) -> None:
        session = new_session(self, self._count(), now)
        if session is not None:
            self.context.sessions.update(session, self.body.topics, (), self._terms())
            self.context.sessions.touch(session, now.mono_ms)
            note(self, session, self.body, response.responses)
            response.session_id = session.id

    def _begin(self) -> None:
        self._readable = None if self.context.rights.is_open else _readable(self.request, self.context.rights)
        self._left = min(self.body.max_bytes, self.context.settings.value.fetch_max_bytes)
        if self.context.quotas.is_on and self.replica_id < 0:
            self._left = self.context.quotas.readable(self.request.peer.principal, self.request.client_id, self._left)
        self.size = self._unknown = self._check_cost = 0
        self.enough = False
        self._sent: list[tuple[TopicTraffic, int]] = []
        self._looks += 1

    def _end(self) -> None:
        if self.size >= self.body.min_bytes or self._left <= 0 or (self._unknown and self._unknown == self._count()):
            self.enough = True

    def _count_sent(self) -> None:
        """Count the records of the last reading as sent."""
        if self.replica_id < 0:
            for traffic, size in self._sent:
                traffic.fetches += 1
                traffic.bytes_out += size
        else:
            for traffic, size in self._sent:
                traffic.replication_bytes_out += size

    def _count(self) -> int:
        return sum(len(topic.partitions) for topic in self.body.topics)

    def _terms(self) -> Hashable:
        """Return the request's isolation level, zstd support and permissions. A session rereads all partitions if they change."""
        return self.body.isolation_level, self.version < ZSTD_FROM, self.context.rights.changes

    def until(self, held: Held, data: PartitionData) -> int:
        """Return the end of the readable range: the last stable offset for READ_COMMITTED, else the high watermark.

        For a follower, it is the log end offset.
        """
        if self.replica_id >= 0 and self.context.followers is not None:
            partition = self.context.partitions.get(held.topic or "", held.partition)
            return data.high_watermark if partition is None or partition.offline is not None else partition.log.log_end_offset
        return data.last_stable_offset if self.body.isolation_level == READ_COMMITTED else data.high_watermark

    def _name(self, topic: FetchRequest.FetchTopic) -> str | None:
        return topic.topic if self.version < TOPIC_IDS_FROM else self.context.cluster.name_of(topic.topic_id)

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
        partition = self.context.partitions.get(topic, part.partition)
        if partition is None:
            return self._nobodys(part, self.context.partitions.absent_error(topic, part.partition))
        if topic_id is not None and topic_id != partition.topic_id:
            return self._error_data(part, INCONSISTENT_TOPIC_ID)
        followers, diverging = None if partition.replicas is None else self.context.followers, None
        if followers is None:
            error_code = partition.leader_error(part.current_leader_epoch)
        else:
            error_code = followers.error(partition, self.replica_id, part.current_leader_epoch, self.version)
            diverging = None if error_code or self.replica_id < 0 else followers.find_divergence(partition, part)
        if self.version < ZSTD_FROM and partition.config.compression_type == "zstd" and partition.offline is None:
            error_code = UNSUPPORTED_COMPRESSION_TYPE  # KIP-110: regardless of the codec of the stored batches
        sought = not error_code and diverging is None
        if sought and not partition.log.log_start_offset <= part.fetch_offset <= partition.log.log_end_offset:
            error_code = OFFSET_OUT_OF_RANGE
        if error_code:
            partition.traffic.failed_fetches += 1
            return self._error_data(part, error_code)
        return self._records(partition, part) if followers is None else self._of_replica(partition, part, followers, diverging)

    def _of_replica(self, partition: Partition, part: Asked, followers: Followers, diverging: EpochEnd | None) -> PartitionData:
        """Read a replicated partition. Record a follower's position; a consumer can be referred to a follower (KIP-392)."""
        preferred = None
        if self.replica_id < 0 and self.body.rack_id:
            preferred = followers.choose_replica(partition, part.fetch_offset, self.body.rack_id)
        elif self.replica_id >= 0 and diverging is None and self._looks == 1:  # once, although a waiting fetch reads repeatedly
            state = self.body.replica_state
            followers.record_fetch(
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
            followers.count_sent(partition, data)
        return data

    def _records(self, partition: Partition, part: Asked, until: int | None = None) -> PartitionData:
        """Return the records below `until`, or all records that the client may read if None."""
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
                return self._error_data(part, UNKNOWN_SERVER_ERROR)
            if max_bytes > 0 or not self.size or self.version < BATCHES_FROM:
                self._slice(partition, part, data, max_bytes, until)
        return data

    def _slice(self, partition: Partition, part: Asked, data: PartitionData, max_bytes: int, until: int) -> None:
        min_one_batch = not self.size or self.version < BATCHES_FROM  # converted data is cut later
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
            if found is not None and found.size and self.body.isolation_level == READ_COMMITTED:
                data.aborted_transactions = [
                    AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
                    for entry in log.aborted_transactions(part.fetch_offset, until)
                ]
        except StorageFailed as failure:
            partition.traffic.failed_fetches += 1
            data.error_code = CORRUPT_MESSAGE if isinstance(failure, Damaged) else self._supported_error(KAFKA_STORAGE_ERROR)
            self.enough = True
            return
        self._check_cost += log.check_cost - before
        self.enough |= isinstance(found, FirstPart)  # no change would end a wait for the other parts
        if found is not None and found.size:
            data.records = found
            self.size += found.size
            self._sent.append((partition.traffic, found.size))
            self._left = max(0, self._left - found.size)

    def _nobodys(self, part: Asked, error_code: int) -> PartitionData:
        self._unknown += 1
        return PartitionData(partition_index=part.partition, error_code=error_code, high_watermark=-1, records=b"")

    def _error_data(self, part: Asked, error_code: int) -> PartitionData:
        self.enough = True
        return PartitionData(
            partition_index=part.partition, error_code=self._supported_error(error_code), high_watermark=-1, records=b""
        )

    def _supported_error(self, error_code: int) -> int:
        """Return the error code that the client's version supports.

        Old clients get NOT_LEADER_OR_FOLLOWER instead of a storage error (KIP-112), so that they search for another leader.
        """
        return NOT_LEADER_OR_FOLLOWER if error_code == KAFKA_STORAGE_ERROR and self.version < STORAGE_ERROR_FROM else error_code


def new_session(reading: Fetch, size: int, now: Now) -> FetchSession | None:
    """Return a new session for the partitions of a full fetch; None if there is no room for it."""
    body = reading.body
    slots = reading.context.settings.value.max_incremental_fetch_session_cache_slots
    is_follower, uses_ids = replica_id(body) >= 0, reading.version >= TOPIC_IDS_FROM
    owner = reading.request.peer.principal
    session = reading.context.sessions.begin(owner, size, slots, now.mono_ms, privileged=is_follower, uses_ids=uses_ids)
    if session is not None and is_follower and reading.context.followers is not None:
        session.outside = {}
    return session


def note(reading: Fetch, session: FetchSession, body: FetchRequest, answered: list[TopicResponse]) -> None:
    """Record in a session the responses that its client receives for each partition."""
    for topic, told_of in zip(body.topics, answered, strict=True):
        for part, data in zip(topic.partitions, told_of.partitions, strict=True):
            held = session.find(topic, part.partition)
            session.record(held, data, reading.until(held, data))


def wait_for_change(purgatory: Purgatory, until_ms: int, wakes: int, took_ms: int) -> Steps[None]:
    """Wait between two readings of a delayed fetch, until a partition has changed or the monotonic clock reaches `until_ms`.

    `wakes` is the number of changes before the last reading, and `took_ms` the time that the reading took.
    """
    rest_ms = REST_MS + REST_FACTOR * took_ms
    while (left_ms := until_ms - purgatory.now().mono_ms) > 0:
        yield purgatory.rest(max(1, min(left_ms, rest_ms, LONGEST_REST_MS)))
        rest_ms -= min(rest_ms, LONGEST_REST_MS)
        if not rest_ms and purgatory.wakes != wakes:
            return
        rest_ms = rest_ms or IDLE_REST_MS
