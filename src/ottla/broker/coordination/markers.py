"""Transaction markers in partitions that this broker leads (KIP-98).

Depends on partitions and control batches; the coordinator decides which transaction ends, and how.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Final

from ottla.broker.partitions.partition import LEADER, Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.cluster.names import OFFSETS_TOPIC
from ottla.coord.transactions.inputs import WriteMarkers
from ottla.coord.transactions.transaction import VERSION_WITH_EPOCHS, TopicPartition
from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.ports import Now, Steps
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header
from ottla.wire.errors import INVALID_PRODUCER_EPOCH, NONE, UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION

log = logging.getLogger("ottla.broker")

KEY: Final = Struct(">hh")
"""The key of a marker: version and type."""
VALUE: Final = Struct(">hi")
"""The value of a marker: version and coordinator epoch."""
MADE_UP: Final = "%s-%d has a batch of producer %d with epoch %d, which was never allocated: the transaction of %s is ended there"

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

    def leads(self, place: TopicPartition) -> bool:
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


def kept(partitions: list[Partition]) -> Steps[dict[Partition, int]]:
    """Wait until all records of these partitions satisfy acks=all. Return the error codes of the partitions that failed."""
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
