"""The unsent batches of one partition: order, sequence numbers and retries (KIP-98).

Batches are sent in order. When a batch must be sent again, no batch is sent until all batches in flight have been answered. Then
the repeated batches go first, in their old order and with their old sequence numbers, so that the broker recognises duplicates. A
broker remembers the last five batches of a producer, so at most four are sent behind one that is not known to be written.

A batch that was given up leaves a gap in the sequence numbers, after which the partition needs another identity. The batches behind
it that may have been written keep the old one until a broker has written or refused them, or they would be written twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.errors import KafkaError
from ottla.client.types import TopicPartition
from ottla.records.batches.header import set_producer

NO_OFFSET = -1
NO_SEQUENCE = -1
REMEMBERED_BATCHES = 5
"""The number of a producer's newest batches by which a broker recognises duplicates, in each partition."""


class Identity(NamedTuple):
    """The producer id and epoch that InitProducerId returned."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True, eq=False)
class Outgoing:
    """An encoded batch on its way to the broker.

    `finish` is called when the batch is written or has failed. `error` is set if its records were not written. `last_refusal` is
    the error of the last failed attempt. `split` returns two smaller batches with the same records, for a batch that the broker
    refuses as too large. `start` is then the number of records before them. `may_arrive` is set if a connection broke before the
    answer: a broker can still receive the batch. `unwritten` is set if a broker has refused it because of a gap in the sequence.
    """

    where: TopicPartition
    data: bytearray
    record_count: int
    deadline_ms: int
    when_done: Callable[[Outgoing], None] | None = None
    split: Callable[[Outgoing], tuple[Outgoing, Outgoing]] | None = None
    start: int = 0
    order: int = 0
    sequence: int = NO_SEQUENCE
    number: int = 0
    done: bool = False
    base_offset: int = NO_OFFSET
    log_append_time_ms: int = -1
    error: KafkaError | None = None
    last_refusal: KafkaError | None = None
    may_arrive: bool = False
    unwritten: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Return whether the batch was sent, and may have been written."""
        return self.sequence != NO_SEQUENCE and not self.unwritten

    @property
    def place(self) -> tuple[int, int]:
        """Return a sort key: the order of batches, and of the parts of a batch that was split."""
        return self.order, self.start

    def finish(self, *, base_offset: int = NO_OFFSET, log_append_time_ms: int = -1, error: KafkaError | None = None) -> None:
        self.base_offset, self.log_append_time_ms, self.error = base_offset, log_append_time_ms, error
        self.done = True
        if self.when_done is not None:
            self.when_done(self)

    def identify(self, identity: Identity, sequence: int, *, transactional: bool = False) -> None:
        """Write the producer's identity and the first sequence number into the header. With `transactional`, set that bit too."""
        self.sequence = sequence
        set_producer(self.data, *identity, sequence, transactional=transactional)


@dataclass(slots=True, eq=False)
class Lane:
    """The batches of one partition: queued, in flight (`under_way`), or `returned` because they must be sent again.

    `refusal` is the last error of the oldest unwritten batch. It is None after a batch was written.
    """

    where: TopicPartition
    transactional: bool = False
    queue: deque[Outgoing] = field(default_factory=deque)
    under_way: list[Outgoing] = field(default_factory=list)
    returned: list[Outgoing] = field(default_factory=list)
    identity: Identity | None = None
    next_sequence: int = 0
    next_number: int = 0
    not_before_ms: int = 0
    resetting: bool = False
    known: bool = False
    refusal: KafkaError | None = None

    @property
    def idle(self) -> bool:
        return not (self.queue or self.under_way or self.returned)

    def requeue_returned(self) -> None:
        """Queue returned batches at the front, and restart sequence numbers after a gap. While a batch is in flight, do nothing.

        After a gap, the doubtful batches alone are queued first.
        """
        if not self.returned and not self.resetting:
            return
        if self.under_way or (self.resetting and self._resolves):
            return
        while self.resetting and self.queue and self.queue[0].sequence != NO_SEQUENCE:
            self.returned.append(self.queue.popleft())  # a doubtful batch can be behind one that was refused
        doubtful = [batch for batch in self.returned if batch.is_doubtful] if self.resetting else []
        going = doubtful or self.returned
        self.queue.extendleft(sorted(going, key=lambda batch: batch.place, reverse=True))
        self.returned = [batch for batch in self.returned if batch not in going]
        if self.resetting and not doubtful:
            self.restart()

    @property
    def _resolves(self) -> bool:
        """Return whether the next batch is doubtful, so that it goes on under the old identity even after a gap."""
        return bool(self.queue) and self.queue[0].is_doubtful

    def restart(self) -> None:
        """Restart at sequence number 0, without a producer id. The next batch sets the producer id. No batch may be in flight."""
        self.resetting, self.known, self.identity, self.next_sequence = False, False, None, 0
        for batch in self.queue:
            batch.sequence = NO_SEQUENCE

    def may_send(self, now_ms: int, max_under_way: int) -> bool:
        held = not self._resolves if self.resetting else bool(self.returned)
        # A broker accepts any sequence number from an unknown producer: it must write the first batch before the second is sent.
        window = max_under_way if self.known or self.identity is None else 1
        if not self.queue or held or len(self.under_way) >= window or self.not_before_ms > now_ms:
            return False
        return not self.under_way or self.identity is None or self._is_remembered_behind(self.queue[0])

    def _is_remembered_behind(self, batch: Outgoing) -> bool:
        """Return whether a broker that writes `batch` still recognises the oldest batch in flight, in case that one is repeated.

        Batches between them can be written already: a former leader owes the answer, or each answer to the oldest was an error.
        """
        number = self.next_number if batch.sequence == NO_SEQUENCE else batch.number
        return number - self.under_way[0].number < REMEMBERED_BATCHES

    def next_batch(self) -> Outgoing:
        """Return the next batch to send, and mark it as in flight. It gets a sequence number if the lane has a producer id."""
        batch = self.queue.popleft()
        if self.identity is not None and batch.sequence == NO_SEQUENCE:
            batch.identify(self.identity, self.next_sequence, transactional=self.transactional)
            self.next_sequence = (self.next_sequence + batch.record_count) & 0x7FFFFFFF
            batch.number = self.next_number
            self.next_number += 1
        batch.unwritten = False
        self.under_way.append(batch)
        return batch

    def repeat(self, batch: Outgoing, not_before_ms: int) -> None:
        self.under_way.remove(batch)
        self.returned.append(batch)
        self.not_before_ms = not_before_ms
        self.requeue_returned()

    def replace(self, batch: Outgoing, parts: tuple[Outgoing, ...]) -> None:
        """Send `parts` in place of a refused batch, with its place in the order and its sequence numbers."""
        self.under_way.remove(batch)
        sequence = batch.sequence
        for behind in (*self.under_way, *self.returned, *self.queue):
            if behind.sequence != NO_SEQUENCE and behind.number > batch.number:
                behind.number += len(parts) - 1
        self.next_number += len(parts) - 1
        for number, part in enumerate(parts, batch.number):
            part.order, part.number = batch.order, number
            if sequence != NO_SEQUENCE and self.identity is not None:
                part.identify(self.identity, sequence, transactional=self.transactional)
                sequence = (sequence + part.record_count) & 0x7FFFFFFF
        self.returned.extend(parts)
        self.requeue_returned()

    def end(self, batch: Outgoing, *, written: bool) -> None:
        """Remove `batch`, which was written or has failed."""
        if written:
            self.known, self.refusal = True, None
        if batch in self.under_way:
            self.under_way.remove(batch)
        self.requeue_returned()

    def is_first(self, batch: Outgoing) -> bool:
        """Return whether no older batch is in flight or waits to be sent again."""
        return all(batch.place <= other.place for other in (*self.under_way, *self.returned))

    def pop_expired(self, now_ms: int) -> list[Outgoing]:
        """Remove and return the batches that are past their deadline and not in flight. A later batch has no earlier deadline."""
        gone = [batch for batch in self.returned if batch.deadline_ms <= now_ms]
        if gone:
            self.returned = [batch for batch in self.returned if batch not in gone]
        while self.queue and self.queue[0].deadline_ms <= now_ms:
            gone.append(self.queue.popleft())
        return gone

    def pop_unsent(self) -> list[Outgoing]:
        """Remove and return the batches that were never sent."""
        unsent = [batch for batch in self.queue if batch.sequence == NO_SEQUENCE and batch.last_refusal is None]
        self.queue = deque(batch for batch in self.queue if batch not in unsent)
        return unsent

    def late_under_way(self, now_ms: int) -> list[Outgoing]:
        """Return the batches in flight that are past their deadline, and perhaps written."""
        return [batch for batch in self.under_way if batch.deadline_ms <= now_ms]
