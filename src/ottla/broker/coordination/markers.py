"""The ends of transactions, written into the partitions that they touched (KIP-98).

Knows partitions and control batches; what ends, and how, a coordinator has decided.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from functools import partial
from itertools import count
from struct import Struct
from typing import Final, Protocol

from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Scheduler
from ottla.cluster.names import OFFSETS_TOPIC
from ottla.coord.transactions.inputs import WriteMarkers
from ottla.coord.transactions.transaction import VERSION_WITH_EPOCHS
from ottla.log.transactions import ABORT, COMMIT
from ottla.ports import Now, Steps
from ottla.records.batch import read_header
from ottla.records.build import build
from ottla.wire.errors import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    TRANSACTION_COORDINATOR_FENCED,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_name,
)

log = logging.getLogger("ottla.broker")

KEY: Final = Struct(">hh")
"""Version and kind."""
VALUE: Final = Struct(">hi")
"""Version, and the epoch of the coordinator."""
RETRY_MS: Final = 100
LONGEST_RETRY_MS: Final = 10_000
"""A partition that stays offline is tried after ever longer pauses, up to this one: it may be offline for days."""
AT_ONCE: Final = 16
"""So many partitions get a marker between two pauses."""

Ended = Callable[[Partition, int, bool, Now], None]


def marker(producer_id: int, producer_epoch: int, coordinator_epoch: int, now_ms: int, *, committed: bool) -> bytearray:
    """A control batch that ends a producer's transaction."""
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


class Markers(Protocol):
    """Writes the ends of transactions wherever their partitions are led."""

    def write(
        self, order: WriteMarkers, coordinator_epoch: int, done: Callable[[], None], is_wanted: Callable[[], bool], /
    ) -> None:
        """Write one into all partitions of its transaction, and say `done()` once all of it is as safe as acks=all promises.

        It may be given up when `is_wanted()` holds no more: another broker coordinates the transaction.
        """
        ...


class MarkerWriter:
    """Writes markers. `ended(partition, producer_id, committed, now)` hears of those in `__consumer_offsets`."""

    def __init__(self, partitions: Partitions, scheduler: Scheduler, ended: Ended) -> None:
        self._partitions = partitions
        self._scheduler = scheduler
        self._ended = ended
        self._names = count()

    def write(self, order: WriteMarkers, coordinator_epoch: int, done: Callable[[], None], is_wanted: Callable[[], bool]) -> None:
        """Write a transaction's end into all its partitions, and say `done()` once all of it is durable.

        A partition that cannot be written is tried again, for as long as it is there. `done` is not said where a newer coordinator
        or producer has taken over: the transaction is theirs to end. `is_wanted` is not asked: there are no brokers that go on.
        """

        def over(whole: bool) -> None:
            if whole:
                done()

        name: Hashable = ("markers", order.transactional_id, order.producer_id, order.producer_epoch, next(self._names))
        self._scheduler.begin(name, self._written(order, coordinator_epoch), over, urgent=True)

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
        """Append one marker: an error code, and the partition if it was written.

        Since a `transaction_version` each transaction has an epoch of its own: what is open here ends with a later one (KIP-1228).
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

    def _written(self, order: WriteMarkers, coordinator_epoch: int) -> Steps[bool]:
        left = sorted(order.partitions)
        told: dict[tuple[str, int], int] = {}
        pause_ms = RETRY_MS
        while left:
            written: list[Partition] = []
            again: list[tuple[str, int]] = []
            for number, (topic, index) in enumerate(left, 1):
                error_code, partition = self.append(
                    topic,
                    index,
                    order.producer_id,
                    order.producer_epoch,
                    coordinator_epoch,
                    self._scheduler.now(),
                    committed=order.committed,
                )
                if error_code == INVALID_PRODUCER_EPOCH:
                    error_code, partition = self._append_late(order, topic, index, coordinator_epoch)
                if error_code in (INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED):
                    return False
                if partition is not None:
                    written.append(partition)
                elif error_code != UNKNOWN_TOPIC_OR_PARTITION:
                    if told.get((topic, index)) != error_code:
                        told[topic, index] = error_code
                        sentence = "%s-%d takes no end of the transaction of %s (%s): tried again until it does"
                        who = order.transactional_id, error_name(error_code)
                        log.warning(sentence, topic, index, *who, extra={"cause": "markers"})
                    again.append((topic, index))
                if number % AT_ONCE == 0:
                    yield None
            failed = yield from kept(written)
            again += [(partition.topic, partition.index) for partition in failed]
            left = again
            if left:
                yield self._scheduler.rest(pause_ms)
                pause_ms = min(2 * pause_ms, LONGEST_RETRY_MS)
        return True

    def _append_late(self, order: WriteMarkers, topic: str, index: int, coordinator_epoch: int) -> tuple[int, Partition | None]:
        """Append a marker to a partition that knows a later epoch of the producer, with that epoch.

        Nobody is given a later one before the transaction has ended: a batch came with one that was made up. The decision holds.
        """
        partition = self._partitions.get(topic, index)
        known = None if partition is None else partition.log.producers.by_id.get(order.producer_id)
        if known is None:
            return INVALID_PRODUCER_EPOCH, None
        sentence = (
            "%s-%d has a batch of producer %d with epoch %d, which nobody was given: the transaction of %s ends there all the same"
        )
        log.warning(
            sentence, topic, index, order.producer_id, known.epoch, order.transactional_id, extra={"cause": "made-up epoch"}
        )
        now, committed = self._scheduler.now(), order.committed
        return self.append(topic, index, order.producer_id, known.epoch, coordinator_epoch, now, committed=committed)


def kept(partitions: list[Partition]) -> Steps[dict[Partition, int]]:
    """Wait until all that these partitions hold is as safe as acks=all promises; the error codes of those of which it is not."""
    failed: dict[Partition, int] = {}
    missing = len(partitions)
    waiting: list[Callable[[None], None]] = []

    def told(partition: Partition, error_code: int) -> None:
        nonlocal missing
        missing -= 1
        if error_code:
            failed[partition] = error_code
        if not missing and waiting:
            waiting.pop()(None)

    for partition in partitions:
        partition.when_committed(partition.log.log_end_offset, partial(told, partition))
    while missing:
        yield waiting.append
    return failed
