"""Transaction markers (KIP-98): appended where this broker leads, sent to the other leaders.

Depends on partitions, control batches and the leaders in the cluster image; a coordinator decides which transaction ends, and how.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from struct import Struct
from typing import TYPE_CHECKING, Final

from ottla.broker.interbroker.channels import BrokerRequester
from ottla.broker.partitions.partition import LEADER, Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Scheduler
from ottla.cluster.image import ClusterImage
from ottla.cluster.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.coord.transactions.transaction import VERSION_WITH_EPOCHS, TopicPartition
from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.ports import Now, Steps
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header
from ottla.wire.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ottla.wire.errors import (
    INVALID_PRODUCER_EPOCH,
    NETWORK_EXCEPTION,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    NOT_LEADER_OR_FOLLOWER,
    TRANSACTION_COORDINATOR_FENCED,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    UNSUPPORTED_VERSION,
    error_name,
)

if TYPE_CHECKING:
    from ottla.coord.transactions.inputs import WriteMarkers

log = logging.getLogger("ottla.broker")

KEY: Final = Struct(">hh")
"""The key of a marker: version and type."""
VALUE: Final = Struct(">hi")
"""The value of a marker: version and coordinator epoch."""
MADE_UP: Final = "%s-%d has a batch of producer %d with epoch %d, which was never allocated: the transaction of %s is ended there"

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

Ended = Callable[[Partition, int, bool, Now], None]


def marker(producer_id: int, producer_epoch: int, coordinator_epoch: int, now_ms: int, *, committed: bool) -> bytearray:
    """Return the control batch that ends a producer's transaction."""
    key = KEY.pack(0, COMMIT if committed else ABORT)
    return build(
        [key],
        [VALUE.pack(0, coordinator_epoch)],
        now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


class MarkerAppender:
    """The writer of markers. `ended(partition, producer_id, committed, now)` is called for markers in `__consumer_offsets`."""

    def __init__(self, partitions: Partitions, ended: Ended) -> None:
        self._partitions = partitions
        self._ended = ended

    def is_leader(self, place: TopicPartition) -> bool:
        """Return whether this broker leads a partition, even if the partition is offline."""
        partition = self._partitions.get(*place)
        return partition is not None and partition.role is LEADER

    def append_decided(
        self, order: WriteMarkers, place: TopicPartition, coordinator_epoch: int, now: Now
    ) -> tuple[int, Partition | None]:
        """Append the marker that this broker's own coordinator decided, and return the result of `append`.

        If the partition has a batch with a later producer epoch, a client invented the epoch, because a producer gets no new epoch
        before its transaction ends. The marker is then appended with the invented epoch. A later coordinator epoch still fences it.
        """
        producer_id, epoch = order.producer_id, order.producer_epoch
        error_code, partition = self.append(*place, producer_id, epoch, coordinator_epoch, now, committed=order.committed)
        held = self._partitions.get(*place) if error_code == INVALID_PRODUCER_EPOCH else None
        known = None if held is None else held.log.producers.by_id.get(producer_id)
        if known is None:
            return error_code, partition
        log.warning(MADE_UP, *place, producer_id, known.epoch, order.transactional_id, extra={"cause": "made-up epoch"})
        return self.append(*place, producer_id, known.epoch, coordinator_epoch, now, committed=order.committed)

    def append(
        self,
        topic: str,
        index: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        now: Now,
        *,
        committed: bool,
        transaction_version: int = 0,
    ) -> tuple[int, Partition | None]:
        """Append one marker. Return an error code, and the partition, or None if the marker was not written.

        With epochs for each transaction (`transaction_version` 2), a later epoch ends the open transaction (KIP-1228).
        """
        partition = self._partitions.get(topic, index)
        if partition is None:
            return UNKNOWN_TOPIC_OR_PARTITION, None
        error_code = partition.leader_error()
        if not error_code and partition.replicas is not None:
            error_code = partition.acks_error()
        if error_code:
            return error_code, None
        if producer_id < 0 or producer_epoch < 0:
            return UNKNOWN_SERVER_ERROR, None
        if transaction_version >= VERSION_WITH_EPOCHS and not partition.log.producers.is_ended_by(producer_id, producer_epoch):
            return INVALID_PRODUCER_EPOCH, None
        batch = marker(producer_id, producer_epoch, coordinator_epoch, now.wall_ms, committed=committed)
        error_code = partition.append(batch, (read_header(batch),), now, origin_client=False).error_code
        if error_code:
            return error_code, None
        if topic == OFFSETS_TOPIC:
            self._ended(partition, producer_id, committed, now)
        return NONE, partition


def wait_replicated(partitions: list[Partition]) -> Steps[dict[Partition, int]]:
    """Wait until all records of these partitions satisfy acks=all. Return the error codes of the partitions that failed."""
    failed: dict[Partition, int] = {}
    missing = len(partitions)
    waiting: list[Callable[[None], None]] = []

    def record(partition: Partition, error_code: int) -> None:
        nonlocal missing
        missing -= 1
        if error_code:
            failed[partition] = error_code
        if not missing and waiting:
            waiting.pop()(None)

    for partition in partitions:
        partition.when_committed(partition.log.log_end_offset, partial(record, partition))
    while missing:
        yield waiting.append
    return failed


class PendingMarkers:
    """The markers of one transaction.

    `left` are the partitions without a marker, and `again` those of `left` that wait for a retry.
    """

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
        self, appender: MarkerAppender, image: ClusterImage, scheduler: Scheduler, asker: BrokerRequester, node_id: int
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
            leader = self._node_id if self._appender.is_leader(place) else self._leader_of(place)
            if leader == self._node_id:
                here.append(place)
            elif leader is None or leader < 0:
                self._record_result(pending, place, NONE if leader is None else NOT_LEADER_OR_FOLLOWER)
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
                self._record_result(pending, place, error_code)
            else:
                partition.when_committed(partition.log.log_end_offset, partial(self._record_result, pending, place))

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
        while lanes and (taken := self._pop_request(leader)):
            lane = lanes.pop()
            request = WriteTxnMarkersRequest(markers=[pending.marker(places) for pending, places in taken.items()])
            self._asker.request(leader, request, partial(self._on_response, leader, lane, taken), lane=lane)

    def _pop_request(self, leader: int) -> Queue:
        """Remove from the queue the markers for the next request to the broker `leader`, and return them.

        There is one marker for each producer, because responses identify markers by producer id.
        """
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

    def _on_response(self, leader: int, lane: str, taken: Queue, response: WriteTxnMarkersResponse | None) -> None:
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
                self._record_result(pending, place, codes.get((producer_id, *place), NETWORK_EXCEPTION))
        self._send(leader)

    def _record_result(self, pending: PendingMarkers, place: TopicPartition, error_code: int) -> None:
        if not pending.is_wanted():
            return
        if error_code in FENCED:
            who = pending.order.transactional_id
            log.info(
                "No more transaction markers are written for %s: another coordinator or producer has fenced it",
                who,
                extra={"cause": "markers fenced"},
            )
            pending.is_wanted = lambda: False
        elif error_code == NONE or error_code in TAKES_NONE:
            pending.left.discard(place)
            if not pending.left:
                pending.done()
        else:
            self._note(pending, place, error_code)
            self._try_again(pending, place)

    def _try_again(self, pending: PendingMarkers, place: TopicPartition) -> None:
        """Write the marker of a partition again after a pause. Failed partitions of the same transaction share one pause."""
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
        """Log the error with which a partition has refused a transaction marker. Do not log the same error twice in a row."""
        if pending.told.get(place) != error_code:
            pending.told[place] = error_code
            sentence = "%s-%d takes no end of the transaction of %s (%s): tried again until it does"
            who = pending.order.transactional_id, error_name(error_code)
            level = logging.INFO if error_code in PASSING else logging.WARNING
            log.log(level, sentence, *place, *who, extra={"cause": "markers"})
