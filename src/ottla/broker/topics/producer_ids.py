"""Producer ids: allocated in blocks and handed out one by one. The rest of a block is lost when the broker stops.

The controller allocates blocks in the registry; other brokers send AllocateProducerIds to the controller. An allocation takes time,
so the next block is allocated before the current block is used up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from ottla.broker.failures import CONFLICTS, MOST_RACES
from ottla.broker.interbroker.channels import UNSPOKEN, BrokerRequester
from ottla.broker.scheduler import Scheduler
from ottla.cluster import layout
from ottla.cluster.image import ClusterImage
from ottla.cluster.producer_ids import BLOCK_SIZE, GROWTH, LARGEST_BLOCK, allocate_block
from ottla.ports import Done, RegistryAway, SharedRegistry, Steps, StorageFailed
from ottla.wire.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.errors import BROKER_ID_NOT_REGISTERED, REQUEST_TIMED_OUT, STALE_BROKER_EPOCH, UNKNOWN_SERVER_ERROR, error_name

log = logging.getLogger("ottla.broker")

LANE: Final = "producer ids"
FEW: Final = 100
"""Remaining ids at which the next block is requested."""


class ProducerIdBlocks:
    """The allocation of blocks of producer ids to brokers, from a counter in the cluster's registry."""

    def __init__(self, registry: SharedRegistry) -> None:
        self._registry = registry

    def allocate(self, node_id: int, size: int = BLOCK_SIZE) -> Steps[range]:
        """Allocate the next block for a broker. Raises `StorageFailed`."""
        for _ in range(MOST_RACES):
            (entry,) = yield from self._registry.read([layout.PRODUCER_ID_BLOCK])
            change, block = allocate_block(entry, node_id, size)
            try:
                yield from self._registry.commit((change,))
            except CONFLICTS:  # another broker took this block
                continue
            return block
        raise StorageFailed(layout.PRODUCER_ID_BLOCK, "other brokers change it all the time")

    def allocate_for(self, node_id: int, broker_epoch: int) -> Steps[range | int]:
        """Return the next block for a broker's request with this broker epoch, or an error code.

        If the registry becomes unreachable, a block can be lost, which does no harm.
        """
        try:
            (registered,) = yield from self._registry.read([layout.broker_path(node_id)])
            if registered is None:
                return BROKER_ID_NOT_REGISTERED
            if registered.created != broker_epoch:
                return STALE_BROKER_EPOCH
            return (yield from self.allocate(node_id))
        except StorageFailed as failure:
            log.warning("broker %d was given no block of producer ids: %s", node_id, failure, extra={"cause": LANE})
            return REQUEST_TIMED_OUT if isinstance(failure, RegistryAway) else UNKNOWN_SERVER_ERROR


class ProducerIds:
    """The unused producer ids of this broker, in blocks. `broker_epoch()` returns this broker's epoch."""

    def __init__(
        self,
        image: ClusterImage,
        blocks: ProducerIdBlocks,
        asker: BrokerRequester,
        scheduler: Scheduler,
        node_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._image = image
        self.blocks = blocks
        self._asker = asker
        self._scheduler = scheduler
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._ids: Iterator[int] = iter(())
        self._left = 0
        self._size = BLOCK_SIZE
        self._is_coming = False
        self._waiting: list[Done] = []

    def next(self) -> int | None:
        """Return an id that was never handed out before; None if no id is available at the moment."""
        if self._left <= FEW:
            self._begin()
        if not self._left:
            return None
        self._left -= 1
        return next(self._ids)

    @property
    def is_empty(self) -> bool:
        """Return whether the next id requires a wait."""
        return not self._left

    def wait(self) -> Steps[None]:
        """Wait until an id is available, or its allocation has failed."""
        if not self._left:
            self._begin()
        if self._is_coming and not self._left:
            yield self._waiting.append

    def _begin(self) -> None:
        if self._is_coming:
            return
        self._is_coming = True
        self._scheduler.begin("producer ids", self._block_taken(), self._on_block, self._on_failure, urgent=True)

    def _block_taken(self) -> Steps[range | None]:
        controller_id = self._image.controller_id
        if controller_id == self._node_id or self._asker.version(AllocateProducerIdsRequest) == UNSPOKEN:
            block = yield from self.blocks.allocate(self._node_id, self._size)
            self._size = min(GROWTH * self._size, LARGEST_BLOCK)
            return block
        if controller_id < 0:
            return None
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        response: AllocateProducerIdsResponse | None = yield from self._asker.answer(controller_id, request, lane=LANE)
        if response is None or response.error_code:
            why = "no answer" if response is None else error_name(response.error_code)
            log.warning("the controller allocated no producer ids (%s); it is retried", why, extra={"cause": LANE})
            return None
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)

    def _on_block(self, block: range | None) -> None:
        self._is_coming = False
        if block:
            self._ids = _chain(self._ids, block)
            self._left += len(block)
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(None)

    def _on_failure(self, failure: Exception) -> None:
        log.warning("no block of producer ids could be allocated: %s", failure, extra={"cause": LANE})
        self._on_block(None)


def _chain(first: Iterator[int], block: range) -> Iterator[int]:
    yield from first
    yield from block
