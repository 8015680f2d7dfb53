"""One connection to a leader over which this broker copies partitions: one fetch in flight at a time, in a session.

Depends on followed partitions, channels and the clock, and neither on roles nor on other fetchers. Responses are processed in
steps with pauses between them.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.broker.replication.epoch_questions import EpochQuestions
from ottla.broker.replication.fetch_responses import ResponseProcessor
from ottla.broker.replication.fetch_session import TOPIC_IDS_FROM, FollowerSession
from ottla.broker.replication.fetched_replica import FetchedReplica
from ottla.broker.replication.fetcher_context import FetcherContext
from ottla.broker.replication.flush_before_fetch import FlushWaits
from ottla.cluster.image import NO_TOPIC_ID
from ottla.ports import Done, Now, Steps
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.errors import (
    ERRORS,
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


class ReplicaFetcher:
    """The fetcher with this `number` for `leader`."""

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
        """Name a partition in the next request, because its log end or start has changed."""
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
        """Fetch until no partition is left.

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
        session.answered(answer.session_id)
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
            def answered(body: Any) -> None:
                heard.append(body)
                done(None)

            settings = context.settings.value
            context.channels.request(
                self.leader,
                message,
                version,
                answered,
                lane=self.lane,
                timeout_ms=settings.replica_socket_timeout_ms,
                address=context.address(self.leader),
                receive_buffer_bytes=settings.replica_socket_receive_buffer_bytes,
            )

        yield start
        return heard[0]

    # When

    def _wake_up(self) -> None:
        """Name in the next request the partitions whose pause is over."""
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
