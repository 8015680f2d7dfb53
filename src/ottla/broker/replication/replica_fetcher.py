"""One connection to a leader over which this broker copies partitions: one fetch in flight at a time, in a session.

Depends on followed partitions, channels and the clock, and neither on roles nor on other fetchers. Responses are processed in
steps with pauses between them.

With flush.messages, copied records are on stable storage before the next fetch confirms them: the leader counts them only then,
and a record acknowledged with acks=all is on the disks of all in-sync replicas. One wait serves all partitions of a fetch.

For leaders whose fetch responses have no diverging epoch, OffsetForLeaderEpoch finds where to truncate before the first fetch
(KIP-101).
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any

from ottla.broker.replication.fetch_responses import TOPIC_IDS_FROM, FollowerSession, ResponseProcessor
from ottla.broker.replication.fetcher_context import Copier, FetchedReplica, FetcherContext
from ottla.cluster.image import NO_TOPIC_ID
from ottla.cluster.replicas.follower import EpochEnd
from ottla.ports import Done, Now, Steps, StorageFailed, SyncFailed
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ottla.wire.errors import (
    ERRORS,
    FENCED_LEADER_EPOCH,
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
)
from ottla.wire.schema import Message

log = logging.getLogger("ottla.broker")

SESSION_OVER = (FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR)
"""The errors of leaders for a session that they no longer have."""
EPOCHS_FROM, REPLICA_STATE_FROM = 12, 15
THROTTLED_MS = 100
"""Pause before a throttled partition is checked again, in ms."""

NO_EPOCH = -1


class EpochQuestions:
    """The sender of OffsetForLeaderEpoch requests.

    It truncates partitions that can diverge from their leader before they are fetched.
    """

    def __init__(self, fetcher: Copier, taking: ResponseProcessor) -> None:
        self._fetcher = fetcher
        self._taking = taking

    def steps(self, due: Collection[FetchedReplica]) -> Steps[None]:
        """Truncate the logs of these partitions to where they diverge from the leader's."""
        version = self._fetcher.context.settings.value.inter_broker_protocol_version.version(OffsetForLeaderEpochRequest)
        asked = {one.replica.key[1:]: one for one in due if version >= 0 and one.replica.log.leader_epoch != NO_EPOCH}
        for followed in due:
            if followed.replica.key[1:] not in asked:
                yield from self._cut(followed, EpochEnd(NO_EPOCH, NO_EPOCH))
        if asked:
            yield from self._request_ends(asked, version)

    def _request_ends(self, asked: dict[tuple[str, int], FetchedReplica], version: int) -> Steps[None]:
        request = OffsetForLeaderEpochRequest(replica_id=self._fetcher.context.node_id)
        topics: dict[str, OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = {}
        for followed in asked.values():
            replica = followed.replica
            if replica.topic not in topics:
                topics[replica.topic] = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=replica.topic)
            part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                partition=replica.index, current_leader_epoch=followed.leader_epoch, leader_epoch=replica.log.leader_epoch
            )
            topics[replica.topic].partitions.append(part)
        request.topics = list(topics.values())
        answer = yield from self._fetcher.request(request, version)
        left = dict(asked)
        for topic in () if answer is None else answer.topics:
            for told in topic.partitions:
                found = left.pop((topic.topic, told.partition), None)
                if found is None or not self._fetcher.is_followed(found):
                    continue
                if told.error_code == FENCED_LEADER_EPOCH:
                    self._fetcher.abandon(found)
                elif told.error_code:
                    self._fetcher.pause(found)
                else:
                    yield from self._cut(found, EpochEnd(told.leader_epoch, told.end_offset))
                yield None
        for followed in left.values():
            self._fetcher.pause(followed)

    def _cut(self, followed: FetchedReplica, told: EpochEnd) -> Steps[None]:
        try:
            is_final = yield from self._taking.cut_back(followed, told)
        except SyncFailed as failure:
            followed.replica.fail(failure)
        except StorageFailed as failure:
            log.error("%s could not be cut as its leader's log is: %s; it is tried again", followed, failure)
            self._fetcher.pause(followed)
        else:
            followed.is_truncating = not is_final
            self._fetcher.name_again(followed)


class FlushWaits:
    """The wait of one fetcher until copied records are synced that must be on stable storage before the next fetch."""

    def __init__(self) -> None:
        self._owing: dict[FetchedReplica, None] = {}
        self._waiting: Done | None = None

    def steps(self, named: Iterable[FetchedReplica]) -> Steps[None]:
        """Wait until the records of these partitions that must be flushed are synced."""
        while owing := [followed for followed in named if followed.replica.needs_sync and followed.is_current]:
            self._owing = dict.fromkeys(owing)
            for followed in owing:
                replica = followed.replica
                replica.when_synced(replica.log.log_end_offset, partial(self._is_over, followed))
            if self._owing:
                yield self._wait

    def remove(self, followed: FetchedReplica) -> None:
        """End the wait for a partition that is no longer copied, because its log can be truncated before the sync."""
        self._is_over(followed, 0)

    def _wait(self, done: Done) -> None:
        self._waiting = done

    def _is_over(self, followed: FetchedReplica, error_code: int) -> None:
        if followed not in self._owing:
            return
        del self._owing[followed]
        if not self._owing and self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            waiting(None)


class ReplicaFetcher:
    """A fetcher that copies partitions from the broker `leader`. A broker can have several for one leader, each with a `number`."""

    def __init__(self, leader: int, number: int, context: FetcherContext) -> None:
        self.leader = leader
        self.context = context
        self.lane = f"fetcher-{number}"
        self._session = FollowerSession()
        self._followed: dict[tuple[str, int], FetchedReplica] = {}
        self._due: dict[FetchedReplica, None] = {}
        """The partitions that the next request must name."""
        self._resting: list[tuple[int, int, FetchedReplica]] = []
        self._rests = 0
        self._uncertain: dict[FetchedReplica, None] = {}
        """Partitions whose log can diverge from the leader's. The leader is asked about them before a fetch."""
        self._flushed = FlushWaits()
        self._nameless = 0
        """The number of partitions whose topic id is unknown."""
        self._waiting: Done | None = None
        self._was_reached = True

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def followed(self) -> Iterable[FetchedReplica]:
        return self._followed.values()

    # Partitions

    def add(self, followed: FetchedReplica) -> None:
        """Begin to copy a partition, or continue in a new leader epoch."""
        self.remove(followed.replica.topic, followed.replica.index)
        self._followed[followed.replica.topic, followed.replica.index] = followed
        self._nameless += followed.topic_id == NO_TOPIC_ID
        self.name_again(followed)
        self._wake()

    def remove(self, topic: str, index: int) -> None:
        """Stop copying a partition. A response in flight is ignored for this partition."""
        followed = self._followed.pop((topic, index), None)
        if followed is not None:
            self._nameless -= followed.topic_id == NO_TOPIC_ID
            self._due.pop(followed, None)
            self._uncertain.pop(followed, None)
            self._session.remove(followed)
            self._flushed.remove(followed)
            if not self._followed:
                self._wake()

    def is_followed(self, followed: FetchedReplica) -> bool:
        """Return whether this fetcher still copies the partition."""
        return self._followed.get((followed.replica.topic, followed.replica.index)) is followed and followed.is_current

    def name_again(self, followed: FetchedReplica) -> None:
        """Include a partition in the next fetch request, because its log end or start has changed."""
        if self.is_followed(followed) and not followed.rests_until_ms:
            (self._uncertain if followed.is_truncating else self._due)[followed] = None

    def pause(self, followed: FetchedReplica, ms: int | None = None) -> None:
        """Pause a partition for `ms`, or for replica.fetch.backoff.ms if None."""
        if not self.is_followed(followed):
            return
        wait_ms = self.context.settings.value.replica_fetch_backoff_ms if ms is None else ms
        followed.rests_until_ms = self.now().mono_ms + wait_ms
        self._due.pop(followed, None)
        self._uncertain.pop(followed, None)
        self._session.remove(followed)
        self._rests += 1
        heapq.heappush(self._resting, (followed.rests_until_ms, self._rests, followed))

    def abandon(self, followed: FetchedReplica) -> None:
        """Stop copying a partition until the controller's next update."""
        if self._followed.get((followed.replica.topic, followed.replica.index)) is followed:
            self.remove(followed.replica.topic, followed.replica.index)

    # The job

    def steps(self) -> Steps[None]:
        """Fetch and append records until no partition is left.

        Local variables must not keep partitions alive afterwards, because these would keep deleted files open.
        """
        taking = ResponseProcessor(self)
        questions = EpochQuestions(self, taking)
        while self._followed:
            self._wake_up()
            while self._uncertain:
                due, self._uncertain = self._uncertain, {}
                yield from questions.steps(due)
            yield from self._flushed.steps(self._due)
            request = self._request()
            if request is None:
                yield self._wait
                continue
            # The response has no variable, which would keep its buffer while the next response arrives.
            yield from self._process((yield from self.request(request, self._version())), taking)

    def _process(self, answer: FetchResponse | None, taking: ResponseProcessor) -> Steps[None]:
        session = self._session
        if answer is None or answer.error_code:
            was_known = not session.is_full and answer is not None and answer.error_code in SESSION_OVER
            session.begin(uses_ids=session.uses_ids)
            if not was_known:
                self._not_fetched(answer)
            return
        if not self._was_reached:
            self._was_reached = True
            log.info("broker %d can be fetched from again", self.leader)
        held = dict(session.held) if session.is_full else session.held
        session.set_id(answer.session_id)
        yield from taking.steps(answer, held, uses_ids=session.uses_ids)

    def _not_fetched(self, answer: FetchResponse | None) -> None:
        """Pause all partitions after a failed fetch. Log a warning only if the previous fetch succeeded."""
        why = "it is not reached" if answer is None else ERRORS[answer.error_code].sentence
        level = logging.WARNING if self._was_reached else logging.DEBUG
        log.log(level, "%d partitions are not fetched from broker %d: %s", len(self._followed), self.leader, why)
        self._was_reached = False
        for followed in list(self._ready()):
            self.pause(followed)

    def now(self) -> Now:
        return self.context.scheduler.now()

    def request(self, message: Message, version: int) -> Steps[Any]:
        """Return the leader's response to a request; None if no response arrived."""
        context, heard = self.context, list[Any]()

        def start(done: Done) -> None:
            def on_response(body: Any) -> None:
                heard.append(body)
                done(None)

            settings = context.settings.value
            context.channels.request(
                self.leader,
                message,
                version,
                on_response,
                lane=self.lane,
                timeout_ms=settings.replica_socket_timeout_ms,
                address=context.address(self.leader),
                receive_buffer_bytes=settings.replica_socket_receive_buffer_bytes,
            )

        yield start
        return heard[0]

    # When

    def _wake_up(self) -> None:
        """Include the partitions whose pause is over in the next fetch request."""
        now_ms = self.now().mono_ms
        while self._resting and self._resting[0][0] <= now_ms:
            until_ms, _, followed = heapq.heappop(self._resting)
            if followed.rests_until_ms == until_ms:
                followed.rests_until_ms = 0
                self.name_again(followed)

    def _wait(self, done: Done) -> None:
        """Wait until a partition can be fetched."""
        self._waiting = done
        if self._resting:
            self.context.scheduler.at(self, self._resting[0][0], lambda now: self._wake())

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.context.scheduler.at(self, self.now().mono_ms, lambda now: waiting(None))

    # Requests

    def _ready(self) -> Iterator[FetchedReplica]:
        """Return the partitions that can be fetched now."""
        return (one for one in self._followed.values() if not one.rests_until_ms and not one.is_truncating and one.is_current)

    def _version(self) -> int:
        protocol = self.context.settings.value.inter_broker_protocol_version
        version = protocol.version(FetchRequest)
        return version if self._session.uses_ids else min(version, TOPIC_IDS_FROM - 1)

    def _request(self) -> FetchRequest | None:
        """Return the next fetch; None if no partition can be fetched."""
        context, settings = self.context, self.context.settings.value
        self._leave_out_throttled()
        uses_ids = not self._nameless and settings.inter_broker_protocol_version.version(FetchRequest) >= TOPIC_IDS_FROM
        if uses_ids != self._session.uses_ids:
            self._session.begin(uses_ids=uses_ids)
        if self._session.is_full:
            self._due.update(dict.fromkeys(self._ready()))
        if not self._due and not self._session.held:
            return None
        request = FetchRequest(
            max_wait_ms=settings.replica_fetch_wait_max_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
        )
        version = self._version()
        if version >= REPLICA_STATE_FROM:
            request.replica_state = FetchRequest.ReplicaState(replica_id=context.node_id, replica_epoch=context.broker_epoch())
        else:
            request.replica_id = context.node_id
        named, self._due = self._due, {}
        self._session.fill_request(named, request, settings.replica_fetch_max_bytes, by_epoch=version >= EPOCHS_FROM)
        return request

    def _leave_out_throttled(self) -> None:
        """Pause lagging partitions under a replication throttle that is exceeded."""
        quota = self.context.quota
        if quota.is_used_up(self.now().mono_ms):
            for followed in list(self._ready()):
                replica = followed.replica
                if followed.lag != 0 and quota.covers(replica.config.follower_replication_throttled_replicas, replica.index):
                    self.pause(followed, THROTTLED_MS)
