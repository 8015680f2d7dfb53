"""The sender: from encoded batches to Produce requests, with the choice of partitions and brokers and the meaning of answers.

The sender uses leaders from the metadata cache, assigns sequence numbers, and retries. It does not decode records. Producers and
Spark tasks both use it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.connection.metadata import NO_LEADER, Metadata
from ottla.client.errors import KafkaError, TimedOut, broker_error, pause_ms
from ottla.client.producer.partition_queue import Identity, Lane, Outgoing
from ottla.client.producer.transactions import EXPLICIT_PRODUCE, ProducerTransactions
from ottla.client.settings.clients import ProducerSettings
from ottla.client.types import TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.produce import ProduceRequest, ProduceResponse

_WRONG_LEADER = frozenset(
    {
        codes.UNKNOWN_TOPIC_OR_PARTITION,
        codes.LEADER_NOT_AVAILABLE,
        codes.NOT_LEADER_OR_FOLLOWER,
        codes.REPLICA_NOT_AVAILABLE,
        codes.KAFKA_STORAGE_ERROR,
        codes.FENCED_LEADER_EPOCH,
    }
)
UNLED = "because no leader could be reached: check the brokers, or allow more time"
UNANSWERED = "and the broker has not answered: they may have been written"
DOUBTFUL = (
    "and a connection broke while these records were sent: they may still be written, and could be written twice if sent again."
)
AFTER_GAP = f"An earlier batch was given up, {DOUBTFUL}"
AFTER_LOSS = f"The topic was recreated, or its leader has lost earlier records, {DOUBTFUL}"
_IDENTITY_LOST = frozenset({codes.UNKNOWN_PRODUCER_ID, codes.INVALID_PRODUCER_ID_MAPPING, codes.INVALID_PRODUCER_EPOCH})
_OF_OTHER_CLUSTERS = frozenset({codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID})
"""The errors of topics that a cluster does not have, perhaps because it has taken the place of another one."""


class Send(NamedTuple):
    """A Produce request to send to `node_id`. Pass this object back with the answer."""

    node_id: int
    request: ProduceRequest
    batches: list[Outgoing]


@dataclass(slots=True)
class Sender:
    """The state machine that sends batches to the leaders of their partitions, without sockets.

    While `wants_identity` is set, no batch is sent until `set_identity`. `wants_metadata` are topics to refresh. `transactions`, if
    given, provide the producer id. They also decide whether batches can be sent, and which failures are final.
    """

    metadata: Metadata
    settings: ProducerSettings
    transactions: ProducerTransactions | None = None
    identity: Identity | None = None
    wants_identity: bool = False
    identity_error: KafkaError | None = None
    """The last error of a request for an identity, until one is answered."""
    wants_metadata: set[str] = field(default_factory=set)
    _lanes: dict[TopicPartition, Lane] = field(default_factory=dict)
    _busy: dict[TopicPartition, Lane] = field(default_factory=dict)
    _requests: dict[int, int] = field(default_factory=dict)
    _count: int = 0
    _lacks_identities: bool = False
    """Whether the brokers have no producer ids, so that batches are written without them."""

    @property
    def idle(self) -> bool:
        """Return whether every batch added so far is done."""
        return not self._busy

    def has_backlog(self, where: TopicPartition) -> bool:
        """Return whether a batch of this partition already waits to be sent."""
        lane = self._busy.get(where)
        return lane is not None and bool(lane.queue or lane.returned)

    def add(self, batch: Outgoing) -> None:
        """Queue a batch behind the others of its partition."""
        self._count += 1
        batch.order = self._count
        lane = self._lanes.get(batch.where)
        if lane is None:
            lane = self._lanes[batch.where] = Lane(batch.where, transactional=self.transactions is not None)
        lane.queue.append(batch)
        self._busy[batch.where] = lane

    def set_identity(self, identity: Identity) -> None:
        """Store the producer id and epoch that InitProducerId returned, and start to send batches."""
        self.identity = identity
        self.wants_identity, self.identity_error = False, None

    def send_without_identity(self) -> None:
        """Start to send batches without a producer id, because the brokers are older than Kafka 0.11.

        Each partition has one batch in flight, so that batches stay in order. A batch whose answer is lost can be written twice.
        """
        self._lacks_identities, self.wants_identity = True, False

    def restart(self, identity: Identity) -> None:
        """Restart every partition at sequence number 0 if the identity has changed. Call this only between transactions."""
        if identity != self.identity:
            self.identity = identity
            for lane in self._lanes.values():
                lane.restart()

    @property
    def most_produce_version(self) -> int | None:
        """Return the highest version of Produce that may be sent; None without a limit."""
        return EXPLICIT_PRODUCE if self.transactions is not None and not self.transactions.implicit else None

    def requests(self, now_ms: int) -> list[Send]:
        """Return the requests to send now. Each has at most one batch per partition; the limit of requests in flight applies."""
        sends: list[Send] = []
        if self.transactions is not None and (stop := self.transactions.stop) is not None:
            self.fail_unsent(stop)
            return sends
        most = self.settings.max_in_flight_requests_per_connection
        while True:
            chosen = self._choose(now_ms, most)
            if not chosen:
                return sends
            sends.extend(self._send(node_id, lanes) for node_id, lanes in chosen.items())

    def _choose(self, now_ms: int, most: int) -> dict[int, list[Lane]]:
        chosen: dict[int, list[Lane]] = {}
        sizes: dict[int, int] = {}
        window = 1 if self._lacks_identities else most
        for lane in self._busy.values():
            if not lane.queue or not self._has_identity(lane) or not lane.may_send(now_ms, window):
                continue
            node_id = self._leader(lane)
            if node_id == NO_LEADER or not self._may_leave(lane) or self._requests.get(node_id, 0) >= most:
                continue
            size = sizes.get(node_id, 0) + len(lane.queue[0].data)
            if node_id in chosen and size > self.settings.max_request_size:
                continue
            sizes[node_id] = size
            chosen.setdefault(node_id, []).append(lane)
        return chosen

    def _has_identity(self, lane: Lane) -> bool:
        if not self.settings.enable_idempotence or self._lacks_identities or lane.identity is not None:
            return True
        lane.identity = self.identity
        self.wants_identity = self.wants_identity or self.identity is None
        return lane.identity is not None

    def _may_leave(self, lane: Lane) -> bool:
        return self.transactions is None or self.transactions.admits(lane.where)

    def _leader(self, lane: Lane) -> int:
        node_id = self.metadata.leader(*lane.where)
        if node_id == NO_LEADER:
            self.wants_metadata.add(lane.where.topic)
        return node_id

    def _send(self, node_id: int, lanes: list[Lane]) -> Send:
        topics: dict[str, list[ProduceRequest.PartitionProduceData]] = {}
        taken = []
        for lane in lanes:
            batch = lane.next_batch()
            taken.append(batch)
            part = ProduceRequest.PartitionProduceData(index=lane.where.partition, records=batch.data)
            topics.setdefault(lane.where.topic, []).append(part)
            # Move the partition to the end, so that partitions take turns if one request has no room for all of them.
            self._busy[lane.where] = self._busy.pop(lane.where)
        data = [ProduceRequest.TopicProduceData(name=topic, partition_data=parts) for topic, parts in topics.items()]
        acks, timeout_ms = self.settings.acks_code, self.settings.request_timeout_ms
        self._requests[node_id] = self._requests.get(node_id, 0) + 1
        name = None
        if self.transactions is not None:
            self.transactions.record_sent(lane.where for lane in lanes)
            name = self.transactions.transactional_id
        request = ProduceRequest(transactional_id=name, acks=acks, timeout_ms=timeout_ms, topic_data=data)
        return Send(node_id, request, taken)

    def on_answer(self, send: Send, answer: ProduceResponse, now_ms: int) -> None:
        """Process the answer to `send`: each batch is done or is sent again."""
        self._requests[send.node_id] -= 1
        found = {(topic.name, part.index): part for topic in answer.responses for part in topic.partition_responses}
        for node in answer.node_endpoints:
            self.metadata.set_address(node.node_id, node.host, node.port)
        for batch in send.batches:
            part = found.get(batch.where)
            if batch.done:
                continue  # the batch failed before its answer came
            if part is None:
                self._judge(batch, codes.UNKNOWN_SERVER_ERROR, None, now_ms)
            elif part.error_code in (codes.NONE, codes.DUPLICATE_SEQUENCE_NUMBER):
                self._finish(batch, base_offset=part.base_offset, log_append_time_ms=part.log_append_time_ms)
            else:
                leader = part.current_leader
                is_led = leader is not None and self.metadata.set_leader(*batch.where, leader.leader_id, leader.leader_epoch)
                self._judge(batch, part.error_code, part.error_message, now_ms, is_led=is_led)

    def sent_unanswered(self, send: Send) -> None:
        """Finish the batches of `send`, which was written to the socket with acks=0, so that the broker sends no answer."""
        self._requests[send.node_id] -= 1
        for batch in send.batches:
            if not batch.done:
                self._finish(batch)

    def broken(self, send: Send, error: KafkaError, now_ms: int, *, was_sent: bool = True) -> None:
        """Process the loss of the answer to `send`: its batches are sent again.

        If it `was_sent`, it is unknown whether the records were written. Sequence numbers prevent a second copy.
        """
        self._requests[send.node_id] -= 1
        for batch in send.batches:
            if batch.done:
                continue
            batch.may_arrive = batch.may_arrive or was_sent
            self.wants_metadata.add(batch.where.topic)
            if error.retriable:
                self._repeat_or_expire(batch, error, now_ms)
            else:
                self._finish(batch, error=error, gap=True)

    def _judge(self, batch: Outgoing, code: int, message: str | None, now_ms: int, *, is_led: bool = False) -> None:
        """Decide by an error whether a batch is sent again. With `is_led`, the broker has named the new leader: send it at once."""
        lane = self._lanes[batch.where]
        error = broker_error(code, f"Producing to {batch.where.topic}-{batch.where.partition}", message)
        if code in _WRONG_LEADER and not is_led:
            self.metadata.forget_leader(*batch.where)
            self.wants_metadata.add(batch.where.topic)
        if code in _OF_OTHER_CLUSTERS:
            lane.known = False  # the topic can be created again, and does not know this producer
        if code in _IDENTITY_LOST:
            self._new_identity(lane)
        if code == codes.MESSAGE_TOO_LARGE and batch.split is not None and batch.record_count > 1:
            batch.done = True  # its records go on in its parts
            lane.replace(batch, batch.split(batch))
            return
        batch.unwritten = code == codes.OUT_OF_ORDER_SEQUENCE_NUMBER or code in _IDENTITY_LOST
        if code == codes.OUT_OF_ORDER_SEQUENCE_NUMBER and batch.sequence >= 0:
            self._judge_gap(batch, lane, error, now_ms)
        elif error.retriable or (code in _IDENTITY_LOST and self.transactions is None):
            self._repeat_or_expire(batch, error, now_ms, at_once=is_led)
        else:
            self._finish(batch, error=error, gap=True)

    def _judge_gap(self, batch: Outgoing, lane: Lane, error: KafkaError, now_ms: int) -> None:
        """Decide about a batch that does not follow the partition's last one, and is therefore not written.

        Behind an earlier batch, it is sent again with that one. The first of all needs another identity: a recreated topic has
        accepted a later batch, or a leader has lost earlier ones.
        """
        is_first = not lane.resetting and lane.is_first(batch)
        if is_first and self.transactions is not None:
            self._finish(batch, error=error, gap=True)
        elif batch.may_arrive and (is_first or lane.resetting):
            why = AFTER_LOSS if is_first else AFTER_GAP
            context = f"Producing to {batch.where.topic}-{batch.where.partition}"
            self._finish(batch, error=broker_error(codes.OUT_OF_ORDER_SEQUENCE_NUMBER, context, why), gap=is_first)
        else:
            if is_first:
                self._new_identity(lane)
            self._repeat_or_expire(batch, error if is_first else lane.refusal or error, now_ms)

    def _repeat_or_expire(self, batch: Outgoing, error: KafkaError, now_ms: int, *, at_once: bool = False) -> None:
        if now_ms >= batch.deadline_ms:
            self._finish(batch, error=self._too_late(error), gap=True)
        elif self.transactions is not None and (stop := self.transactions.stop) is not None:
            self._finish(batch, error=stop, gap=True)
        else:
            lane = self._lanes[batch.where]
            batch.last_refusal = lane.refusal = error
            lane.repeat(batch, now_ms if at_once else now_ms + pause_ms(error, self.settings.retry_backoff_ms))

    def _new_identity(self, lane: Lane) -> None:
        if self.transactions is not None:
            self.transactions.sequence_lost()
        elif self.settings.enable_idempotence:
            lane.resetting = True
            if self.identity == lane.identity:
                self.identity = None

    def _finish(
        self,
        batch: Outgoing,
        *,
        base_offset: int = -1,
        log_append_time_ms: int = -1,
        error: KafkaError | None = None,
        gap: bool = False,
    ) -> None:
        lane = self._lanes[batch.where]
        if gap and batch.sequence >= 0:
            self._new_identity(lane)
        if self.transactions is not None:
            if error is None:
                self.transactions.confirm_sent()
            else:
                error = self.transactions.record_error(error)
        lane.end(batch, written=error is None)
        if lane.idle:
            self._busy.pop(lane.where, None)
        batch.finish(base_offset=base_offset, log_append_time_ms=log_append_time_ms, error=error)

    def _too_late(self, cause: KafkaError | None, otherwise: str = UNLED) -> TimedOut:
        why = f"; the last error was: {cause}" if cause else f", {otherwise}."
        if cause is not None and cause.code in _OF_OTHER_CLUSTERS and self.metadata.other_cluster is not None:
            why += f" {self.metadata.other_cluster}"
        return TimedOut(f"The records were not acknowledged within delivery_timeout_ms={self.settings.delivery_timeout_ms}{why}")

    def expire(self, now_ms: int) -> None:
        """Fail the batches that are past their deadline, even the ones in flight, whose answers may take much longer."""
        for lane in list(self._busy.values()):
            unanswered = lane.late_under_way(now_ms)
            for batch in (*unanswered, *lane.pop_expired(now_ms)):
                why = self._no_leader(lane) or batch.last_refusal or lane.refusal or self._no_identity(lane)
                late = self._too_late(why, UNANSWERED) if batch in unanswered else self._too_late(why)
                self._finish(batch, error=late, gap=True)

    def _no_identity(self, lane: Lane) -> KafkaError | None:
        """Return the error for which a partition waits for an identity; None if it does not wait."""
        return self.identity_error if lane.identity is None and self.identity is None else None

    def _no_leader(self, lane: Lane) -> KafkaError | None:
        """Return the error that explains why a partition has no leader; None if metadata has no such error."""
        code = self.metadata.partition_error(*lane.where)
        return broker_error(code, f"Producing to {lane.where.topic}-{lane.where.partition}") if code else None

    def fail_unsent(self, error: KafkaError) -> None:
        """Fail every batch that is not in flight with `error`, because the producer is closing or cannot continue."""
        for lane in list(self._busy.values()):
            for batch in lane.pop_expired(1 << 62):
                self._finish(batch, error=error, gap=True)

    def purge(self, error: KafkaError) -> int:
        """Fail every batch that was never sent with `error`, and return the number of their records."""
        unsent = [batch for lane in list(self._busy.values()) for batch in lane.pop_unsent()]
        for batch in unsent:
            self._finish(batch, error=error)
        return sum(batch.record_count for batch in unsent)

    def next_wake_ms(self, now_ms: int) -> int | None:
        """Return the time, in ms, at which the next back-off ends or the next batch expires, or None."""
        times = []
        for lane in self._busy.values():
            if lane.not_before_ms > now_ms:
                times.append(lane.not_before_ms)
            elif lane.queue or lane.returned:
                times.append((lane.queue or lane.returned)[0].deadline_ms)
            if lane.under_way:
                times.append(lane.under_way[0].deadline_ms)
        return min(times, default=None)
