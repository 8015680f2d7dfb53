"""Sends the ends of transactions to the brokers that lead their partitions (WriteTxnMarkers), until all of them are written.

Knows leaders from the image of the cluster; what ends, and how, a coordinator has decided. This broker is one of the leaders.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from typing import Final

from ottla.broker.interbroker.asking import BrokerAsker
from ottla.broker.scheduler import Scheduler
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import TRANSACTIONS_TOPIC
from ottla.coord.transactions.inputs import WriteMarkers
from ottla.coord.transactions.transaction import TopicPartition
from ottla.ports import Now
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ottla.wire.errors import (
    INVALID_PRODUCER_EPOCH,
    NETWORK_EXCEPTION,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    TRANSACTION_COORDINATOR_FENCED,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    UNSUPPORTED_VERSION,
    error_name,
)

log = logging.getLogger("ottla.broker")

RETRY_MS: Final = 100
LONGEST_RETRY_MS: Final = 5_000
"""A partition without a leader is tried after ever longer pauses, up to this one."""
MOST_PARTITIONS: Final = 2_000
"""Of one request, but for a single transaction with more."""
UNDER_WAY: Final = 3
"""So many requests to one broker at a time: a partition whose replicas are slow holds up only its own."""

Marker = WriteTxnMarkersRequest.WritableTxnMarker
Topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic

FENCED: Final = frozenset((INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED))
TAKES_NONE: Final = frozenset((UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION))


class Ending:
    """One transaction's end: in which partitions it is still to be written, and who wants to know when it is in all of them."""

    __slots__ = ("coordinator_epoch", "done", "is_wanted", "left", "order", "pause_ms", "told")

    def __init__(
        self, order: WriteMarkers, coordinator_epoch: int, done: Callable[[], None], is_wanted: Callable[[], bool]
    ) -> None:
        self.order = order
        self.coordinator_epoch = coordinator_epoch
        self.done = done
        self.is_wanted = is_wanted
        self.left = set(order.partitions)
        self.pause_ms = RETRY_MS
        self.told: dict[TopicPartition, int] = {}

    def marker(self, places: Iterable[TopicPartition]) -> Marker:
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


DelayedOperation = dict[Ending, list[TopicPartition]]


class MarkerSender:
    """Has each transaction's end written by the leaders of its partitions, many ends by one request.

    A partition that cannot be written is tried again for as long as it is there and the coordinator is this broker's. Where a newer
    coordinator or producer has taken over, the transaction is theirs to end.
    """

    def __init__(self, image: ClusterImage, scheduler: Scheduler, asker: BrokerAsker) -> None:
        self._image = image
        self._scheduler = scheduler
        self._asker = asker
        self._waiting: dict[int, DelayedOperation] = {}
        self._lanes: dict[int, list[str]] = {}
        """Those to each broker over which nothing is under way."""

    def write(self, order: WriteMarkers, coordinator_epoch: int, done: Callable[[], None], is_wanted: Callable[[], bool]) -> None:
        """Have a transaction's end written into all its partitions, and say `done()` once in-sync replicas have all of it.

        It is given up when `is_wanted()` holds no more: another broker coordinates the transaction.
        """
        self._queue(Ending(order, coordinator_epoch, done, is_wanted), order.partitions)

    def _queue(self, ending: Ending, places: Iterable[TopicPartition]) -> None:
        """Let these leave with the next requests to their leaders. Partitions that are no more need no end."""
        leaders: set[int] = set()
        again: list[TopicPartition] = []
        for place in places:
            leader = self._leader_of(place)
            if leader is None:
                ending.left.discard(place)
            elif leader < 0:
                self._note(ending, place, NOT_LEADER_OR_FOLLOWER)
                again.append(place)
            else:
                self._waiting.setdefault(leader, {}).setdefault(ending, []).append(place)
                leaders.add(leader)
        self._go_on(ending, again)
        for leader in leaders:
            self._send(leader)

    def _leader_of(self, place: TopicPartition) -> int | None:
        """The broker that leads a partition, negative if that is not known; None if there is no such partition."""
        name, index = place
        topics = self._image.topics
        topic = topics.get(name)
        if topic is None and TRANSACTIONS_TOPIC not in topics:
            return -1  # a controller may tell a broker what it leads before it tells it what there is
        if topic is None or index >= len(topic.partitions):
            return None
        leader = topic.partitions[index].leader
        return leader if leader in self._image.brokers else -1

    def _go_on(self, ending: Ending, again: list[TopicPartition]) -> None:
        """Try these again after a pause; say that all is written if nothing is left."""
        if again:

            def retry(now: Now) -> None:
                if ending.is_wanted():
                    self._queue(ending, again)

            self._scheduler.at((ending, *again[0]), self._scheduler.now().mono_ms + ending.pause_ms, retry)
            ending.pause_ms = min(2 * ending.pause_ms, LONGEST_RETRY_MS)
        elif not ending.left:
            ending.done()

    def _send(self, leader: int) -> None:
        """Send what waits for a broker, as long as requests may leave."""
        lanes = self._lanes.setdefault(leader, [f"markers-{number}" for number in range(UNDER_WAY)])
        while lanes and (taken := self._taken(leader)):
            lane = lanes.pop()
            request = WriteTxnMarkersRequest(markers=[ending.marker(places) for ending, places in taken.items()])
            self._asker.ask(leader, request, partial(self._answered, leader, lane, taken), lane=lane)

    def _taken(self, leader: int) -> DelayedOperation:
        """What the next request says: one end of each producer, as that is all by which an answer tells them apart."""
        waiting = self._waiting.get(leader, {})
        taken: DelayedOperation = {}
        producers: set[int] = set()
        room = MOST_PARTITIONS
        for ending in list(waiting):
            producer_id = ending.order.producer_id
            if not ending.is_wanted():
                del waiting[ending]
            elif producer_id not in producers and room > 0:
                taken[ending] = waiting.pop(ending)
                producers.add(producer_id)
                room -= len(taken[ending])
        return taken

    def _answered(self, leader: int, lane: str, taken: DelayedOperation, response: WriteTxnMarkersResponse | None) -> None:
        self._lanes[leader].append(lane)
        codes = {
            (marker.producer_id, topic.name, part.partition_index): part.error_code
            for marker in (response.markers if response is not None else ())
            for topic in marker.topics
            for part in topic.partitions
        }
        for ending, places in taken.items():
            if ending.is_wanted():
                producer_id = ending.order.producer_id
                self._heard(ending, {place: codes.get((producer_id, *place), NETWORK_EXCEPTION) for place in places})
        self._send(leader)

    def _heard(self, ending: Ending, codes: dict[TopicPartition, int]) -> None:
        if not FENCED.isdisjoint(codes.values()):
            who = ending.order.transactional_id
            log.info("The transaction of %s is another coordinator's or producer's to end", who, extra={"cause": "markers fenced"})
            ending.is_wanted = lambda: False
            return
        again: list[TopicPartition] = []
        for place, error_code in codes.items():
            if error_code == NONE or error_code in TAKES_NONE:
                ending.left.discard(place)
            else:
                self._note(ending, place, error_code)
                again.append(place)
        self._go_on(ending, again)

    def _note(self, ending: Ending, place: TopicPartition, error_code: int) -> None:
        """Say what keeps a marker out of a partition, once."""
        if ending.told.get(place) != error_code:
            ending.told[place] = error_code
            sentence = "%s-%d takes no end of the transaction of %s (%s): tried again until it does"
            who = ending.order.transactional_id, error_name(error_code)
            log.info(sentence, *place, *who, extra={"cause": "markers"})
