"""Transaction markers in all partitions of a transaction: appended where this broker leads, sent to the other leaders.

Depends on the leaders in the cluster image; a coordinator of this broker decides which transaction ends, and how.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from ottla.broker.coordination.markers import MarkerAppender
from ottla.broker.interbroker.broker_requests import BrokerAsker
from ottla.broker.scheduler import Scheduler
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import TRANSACTIONS_TOPIC
from ottla.coord.transactions.inputs import WriteMarkers
from ottla.coord.transactions.transaction import TopicPartition
from ottla.ports import Now, Steps
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ottla.wire.errors import (
    INVALID_PRODUCER_EPOCH,
    NETWORK_EXCEPTION,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    TRANSACTION_COORDINATOR_FENCED,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    UNSUPPORTED_VERSION,
    error_name,
)

log = logging.getLogger("ottla.broker")

RETRY_MS: Final = 100
LONGEST_RETRY_MS: Final = 5_000
"""Longest pause before a retry, in ms. Pauses double, because a partition can be offline or without a leader for days."""
AT_ONCE: Final = 16
"""Markers appended between two pauses."""
MOST_PARTITIONS: Final = 2_000
"""Upper limit of partitions in a request, unless one transaction alone has more."""
UNDER_WAY: Final = 3
"""Concurrent requests to one broker, so that a partition with slow replicas delays only its own request."""

Marker = WriteTxnMarkersRequest.WritableTxnMarker
Topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic

FENCED: Final = frozenset((INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED))
PASSING: Final = frozenset((NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, NETWORK_EXCEPTION))
TAKES_NONE: Final = frozenset((UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION))


class PendingMarkers:
    """The markers of one transaction. `left` are the partitions without a marker, `again` those of them with a scheduled retry."""

    __slots__ = ("again", "coordinator_epoch", "done", "is_wanted", "left", "order", "pause_ms", "told")

    def __init__(
        self, order: WriteMarkers, coordinator_epoch: int, done: Callable[[], None], is_wanted: Callable[[], bool]
    ) -> None:
        self.order = order
        self.coordinator_epoch = coordinator_epoch
        self.done = done
        self.is_wanted = is_wanted
        self.left = set(order.partitions)
        self.again: list[TopicPartition] = []
        self.pause_ms = RETRY_MS
        self.told: dict[TopicPartition, int] = {}

    def marker(self, places: Iterable[TopicPartition]) -> Marker:
        """Return the marker for these partitions in the form of WriteTxnMarkers."""
        order = self.order
        topics = [
            Topic(name=name, partition_indexes=[index for _, index in some])
            for name, some in groupby(sorted(places), key=lambda place: place[0])
        ]
        return Marker(
            producer_id=order.producer_id,
            producer_epoch=order.producer_epoch,
            transaction_result=order.committed,
            topics=topics,
            coordinator_epoch=self.coordinator_epoch,
        )


Queue = dict[PendingMarkers, list[TopicPartition]]


class TransactionMarkers:
    """The writer of each transaction's markers: directly where this broker leads, else in requests that contain many transactions.

    A failed partition is retried while it exists and this broker coordinates the transaction. The writer gives up a transaction
    that a newer coordinator or producer has taken over.
    """

    def __init__(
        self, appender: MarkerAppender, image: ClusterImage, scheduler: Scheduler, asker: BrokerAsker, node_id: int
    ) -> None:
        self._appender = appender
        self._image = image
        self._scheduler = scheduler
        self._asker = asker
        self._node_id = node_id
        self._waiting: dict[int, Queue] = {}
        self._lanes: dict[int, list[str]] = {}
        """The idle connections, by broker id."""

    def write(self, order: WriteMarkers, coordinator_epoch: int, done: Callable[[], None], is_wanted: Callable[[], bool]) -> None:
        """Write a marker into all partitions of a transaction, and call `done()` once all markers satisfy acks=all.

        The work is abandoned when `is_wanted()` returns False, because another broker coordinates the transaction.
        """
        if order.partitions:
            self._queue(PendingMarkers(order, coordinator_epoch, done, is_wanted), sorted(order.partitions))
        else:
            done()

    def _queue(self, pending: PendingMarkers, places: Sequence[TopicPartition]) -> None:
        """Append markers to partitions that this broker leads, and send markers for the others. Skip deleted partitions."""
        here: list[TopicPartition] = []
        leaders: set[int] = set()
        for place in places:
            leader = self._node_id if self._appender.leads(place) else self._leader_of(place)
            if leader == self._node_id:
                here.append(place)
            elif leader is None or leader < 0:
                self._settled(pending, place, NONE if leader is None else NOT_LEADER_OR_FOLLOWER)
            else:
                self._waiting.setdefault(leader, {}).setdefault(pending, []).append(place)
                leaders.add(leader)
        if len(here) <= AT_ONCE:
            self._append(pending, here)
        else:
            self._scheduler.begin((pending, here[0]), self._append_slowly(pending, here), urgent=True)
        for leader in leaders:
            self._send(leader)

    def _append(self, pending: PendingMarkers, places: Sequence[TopicPartition]) -> None:
        now = self._scheduler.now()
        for place in places:
            error_code, partition = self._appender.append_decided(pending.order, place, pending.coordinator_epoch, now)
            if partition is None:
                self._settled(pending, place, error_code)
            else:
                partition.when_committed(partition.log.log_end_offset, partial(self._settled, pending, place))

    def _append_slowly(self, pending: PendingMarkers, places: Sequence[TopicPartition]) -> Steps[None]:
        for begin in range(0, len(places), AT_ONCE):
            self._append(pending, places[begin : begin + AT_ONCE])
            yield None

    def _leader_of(self, place: TopicPartition) -> int | None:
        """Return the leader of a partition; a negative number if it is unknown, None if the partition does not exist."""
        name, index = place
        topics = self._image.topics
        topic = topics.get(name)
        if topic is None and TRANSACTIONS_TOPIC not in topics:
            return -1  # a controller may assign roles before it sends the topics
        if topic is None or index >= len(topic.partitions):
            return None
        leader = topic.partitions[index].leader
        return leader if leader in self._image.brokers else -1

    def _send(self, leader: int) -> None:
        """Send waiting markers to a broker while a connection is idle."""
        lanes = self._lanes.setdefault(leader, [f"markers-{number}" for number in range(UNDER_WAY)])
        while lanes and (taken := self._taken(leader)):
            lane = lanes.pop()
            request = WriteTxnMarkersRequest(markers=[pending.marker(places) for pending, places in taken.items()])
            self._asker.ask(leader, request, partial(self._answered, leader, lane, taken), lane=lane)

    def _taken(self, leader: int) -> Queue:
        """Take the markers of the next request off the queue: one per producer, because responses identify them by producer id."""
        waiting = self._waiting.get(leader, {})
        taken: Queue = {}
        producers: set[int] = set()
        room = MOST_PARTITIONS
        for pending in list(waiting):
            producer_id = pending.order.producer_id
            if not pending.is_wanted():
                del waiting[pending]
            elif producer_id not in producers and room > 0:
                taken[pending] = waiting.pop(pending)
                producers.add(producer_id)
                room -= len(taken[pending])
        return taken

    def _answered(self, leader: int, lane: str, taken: Queue, response: WriteTxnMarkersResponse | None) -> None:
        self._lanes[leader].append(lane)
        codes = {
            (marker.producer_id, topic.name, part.partition_index): part.error_code
            for marker in (response.markers if response is not None else ())
            for topic in marker.topics
            for part in topic.partitions
        }
        for pending, places in taken.items():
            producer_id = pending.order.producer_id
            for place in places:
                self._settled(pending, place, codes.get((producer_id, *place), NETWORK_EXCEPTION))
        self._send(leader)

    def _settled(self, pending: PendingMarkers, place: TopicPartition, error_code: int) -> None:
        """Record the result of the marker in one partition."""
        if not pending.is_wanted():
            return
        if error_code in FENCED:
            who = pending.order.transactional_id
            log.info("The transaction of %s is another coordinator's or producer's to end", who, extra={"cause": "markers fenced"})
            pending.is_wanted = lambda: False
        elif error_code == NONE or error_code in TAKES_NONE:
            pending.left.discard(place)
            if not pending.left:
                pending.done()
        else:
            self._note(pending, place, error_code)
            self._try_again(pending, place)

    def _try_again(self, pending: PendingMarkers, place: TopicPartition) -> None:
        """Retry a partition after a pause. Partitions of the same transaction that fail meanwhile share this retry."""
        pending.again.append(place)
        if len(pending.again) > 1:
            return

        def retry(now: Now) -> None:
            again, pending.again = pending.again, []
            if pending.is_wanted():
                self._queue(pending, again)

        self._scheduler.at(pending, self._scheduler.now().mono_ms + pending.pause_ms, retry)
        pending.pause_ms = min(2 * pending.pause_ms, LONGEST_RETRY_MS)

    def _note(self, pending: PendingMarkers, place: TopicPartition, error_code: int) -> None:
        """Log why a partition refuses a marker, unless its last refusal had the same error code."""
        if pending.told.get(place) != error_code:
            pending.told[place] = error_code
            sentence = "%s-%d takes no end of the transaction of %s (%s): tried again until it does"
            who = pending.order.transactional_id, error_name(error_code)
            level = logging.INFO if error_code in PASSING else logging.WARNING
            log.log(level, sentence, *place, *who, extra={"cause": "markers"})
